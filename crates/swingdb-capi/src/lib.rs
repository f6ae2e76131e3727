//! The C interface of databases: what `include/swingdb.h` declares.
//!
//! [`database`]: opening, snapshots, sharing, stores. [`session`]: statements, and prepared ones
//! with their parameters. Rows leave through the Arrow C stream interface, without a copy. `error`
//! turns the errors of the database into numbers and a text for each thread; `call` is what each
//! exported function runs in.
//!
//! **Handles** are pointers to boxes that the program gives back by the function that ends them. A
//! pointer that was given back, or that came from somewhere else, is the program's mistake; null is
//! an error.
//!
//! **Concurrency.** Any thread may call anything; statements of one session run one after the
//! other. A prepared statement belongs to one thread at a time.
//!
//! **Panics** end in `SWINGDB_E_INTERNAL`, never in C.

mod call;
pub mod database;
mod error;
#[path = "../../swing-capi/src/last_error.rs"]
mod last_error;
pub mod session;
