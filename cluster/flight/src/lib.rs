//! A server of snapshots for Arrow Flight SQL: ADBC, JDBC and other clients read a database while
//! its one writer writes, and get its rows as Arrow batches.
//!
//! It does for Flight SQL what `swingdb-server` does for the PostgreSQL protocol, with the same
//! options, limits and token. A connection of a client is a session: a snapshot of its own in this
//! process. `docs/flight.md` says what a session sees and what it may do.
//!
//! | file | what is in it |
//! |---|---|
//! | [`options`] | the command line |
//! | [`listen`] | accepting connections |
//! | [`session`] | a client's session: its snapshot, results, prepared statements |
//! | [`call`] | what runs statements: one starts at a time, and ends with its call |
//! | [`rows`] | results as streams |
//! | [`parameters`] | values for prepared statements |
//! | [`ingest`] | rows of a client that become a temporary table |
//! | [`catalog`] | what there is: catalogs, schemas, tables, and what the server can do |
//! | [`keys`] | primary and foreign keys |
//! | [`service`] | the calls of Flight SQL |
//! | [`door`] | who may call |
//! | [`status`] | errors as a client sees them |

#![forbid(unsafe_code)]

pub mod call;
pub mod catalog;
pub mod door;
pub mod ingest;
pub mod keys;
pub mod listen;
pub mod options;
pub mod parameters;
pub mod rows;
pub mod service;
pub mod session;
pub mod status;
