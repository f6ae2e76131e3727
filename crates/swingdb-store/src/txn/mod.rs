//! Transactions: [`WriteTxn`](transaction::WriteTxn), and the statements that change a database.
//!
//! | what | where |
//! |---|---|
//! | begin, end, a whole state in place of another | [`begin`], [`commit`], [`replace`] |
//! | rows: append, update, delete | [`append`], [`writer`], [`rows`] |
//! | rules about rows | [`checks`], [`foreign`], [`generated`] |
//! | schemas, tables, columns, views | [`alter`], [`definitions`], [`mod@clone`] |
//! | macros, sequences, named types, comments | [`objects`] |
//!
//! All changes of rows pass through [`rows`] and [`writer`], so no path into a table can forget a
//! rule.

pub(crate) mod alter;
pub(crate) mod append;
pub(crate) mod begin;
pub(crate) mod checks;
pub(crate) mod clone;
pub(crate) mod commit;
pub(crate) mod definitions;
pub(crate) mod foreign;
pub(crate) mod generated;
pub(crate) mod objects;
pub(crate) mod replace;
pub(crate) mod rows;
pub(crate) mod transaction;
pub(crate) mod writer;
