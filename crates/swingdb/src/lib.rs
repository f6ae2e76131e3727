//! SwingDB: an embedded, in-memory, analytical database whose state any process can take as its
//! own.
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

mod admin;
mod connection;
mod database;
mod execute;
mod extend;
mod history;
mod place;
mod session;
mod sqlstate;

pub use arrow;
pub use datafusion::common::ScalarValue;
pub use swingdb_common::error;
pub use swingdb_common::runtime::{accept, allocator};
pub use swingdb_files as io;
pub use swingdb_sql::text::cutter;
pub use swingdb_store as store;

pub use admin::{
    Finding, LineageNode, discard_snapshot, discard_snapshot_in, doctor, doctor_in, drop, drop_in,
    gc, gc_in, lineage, lineage_in, list, list_in, list_removed, list_removed_in, store_of,
    store_of_in,
};
pub use connection::Connection;
pub use database::{Database, DatabaseInfo, OpenOptions};
pub use execute::appender::Appender;
pub use execute::backup::write::Definitions;
pub use execute::bulk::{BulkAppend, BulkPart};
pub use history::{HISTORY_LINES, history_file};
pub use place::place_of;
pub use session::plain_rows;
pub use session::result::QueryResult;
pub use session::table_scan::TableScan;
pub use session::user_functions::{ScalarCall, ScalarFunction};
pub use session::user_tables::{ColumnsCall, Pieces, RowsCall, TableFunction};
pub use sqlstate::sqlstate;
pub use swing::{AreaInfo, BACKING_VARIABLE, GcReport, RemoveReport, exit_now};
pub use swing_tier::probe;
pub use swingdb_common::cast::blobs::blob_text;
pub use swingdb_common::error::{ConstraintKind, Error, ObjectKind, Result, StoreProblem};
pub use swingdb_common::progress::{Bar, Progress};
pub use swingdb_common::runtime::cancel::{InterruptHandle, Interruptible, Surroundings};
pub use swingdb_common::time::calendar::civil_from_days;
pub use swingdb_common::time::intervals::interval_texts;
pub use swingdb_common::time::texts::moment_texts;
pub use swingdb_common::types::sql_names::{field_type, sql_name};
pub use swingdb_common::value::Value;
pub use swingdb_files::options::{ExportOptions, ExportReport, ImportOptions, ImportReport};
pub use swingdb_sql::engine::{AggregateFunction, Aggregation, StartAggregation};
pub use swingdb_store::{CheckpointInfo, Durability, DurableInfo, ShareInfo, StoreOptions};
