//! Statements that change something, through the public interface.
//!
//! Each module tests one group of statements; [`random`] compares long random histories with a
//! naive model, [`few_rows`] does so with changes of few rows of larger tables, and [`dialect`]
//! runs every example of `docs/sql.md`.

#[path = "write/alter.rs"]
mod alter;
#[path = "write/append.rs"]
mod append;
#[path = "write/bulk.rs"]
mod bulk;
#[path = "write/check.rs"]
mod check;
#[path = "write/create.rs"]
mod create;
#[path = "write/delete.rs"]
mod delete;
#[path = "write/dialect.rs"]
mod dialect;
#[path = "write/few_rows.rs"]
mod few_rows;
#[path = "write/insert.rs"]
mod insert;
#[path = "write/merge.rs"]
mod merge;
#[path = "write/model.rs"]
mod model;
#[path = "write/random.rs"]
mod random;
#[path = "write/support.rs"]
mod support;
#[path = "write/transactions.rs"]
mod transactions;
#[path = "write/update.rs"]
mod update;
