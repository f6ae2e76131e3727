//! Delta tables: a directory with Parquet files, and a log in `_delta_log` that says which of them
//! make up each version.
//!
//! The log is read when a statement is planned, so the statement sees one version. Where the log
//! asks of readers what this code does not have (deletion vectors, renamed columns), the table is
//! refused: the rows would be wrong. Values of partition columns come from the log, not from names
//! of folders. A file without a column that was added later has NULL in it.
//!
//! Source: the Delta transaction log protocol, `PROTOCOL.md` of github.com/delta-io/delta.

mod actions;
mod failure;
mod log;
mod schema;
mod table;

pub(crate) use table::{is_table, table};
