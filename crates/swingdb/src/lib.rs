//! SwingDB: an embedded, in-memory, analytical database whose state any process can take as its own.
//!
//! One process writes a named database ([`Database::open`]) and shares it; others take the shared
//! state as their own snapshot in microseconds ([`Database::snapshot`]), read it with SQL over the
//! very same memory, change their copy without anybody noticing, and share the result on.
//!
//! * [`Database`]: a handle on an open database or snapshot.
//! * [`Connection`]: a session on it: SQL, transactions, bulk append, attached snapshots.
//! * [`QueryResult`]: a stream of Arrow batches.
//! * [`list`], [`lineage`], [`drop`], [`gc`], [`doctor`]: the databases of this machine.

#![deny(unsafe_code)]

pub mod error;
mod progress;
pub mod store;
mod value;

pub mod generate;

pub mod io {
    //! Files in and out.
    mod options;
    pub use options::{ExportOptions, ExportReport, FileFormat, ImportOptions, ImportReport};
}

pub use arrow;
pub use datafusion::common::ScalarValue;

pub use error::{ConstraintKind, Error, ObjectKind, Result};
pub use progress::Progress;
pub use value::Value;
