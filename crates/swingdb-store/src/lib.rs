//! Tables in shared memory: column segments, the catalog, versions, transactions.
//!
//! This is the layer between SQL (above) and areas (below). A [`Store`] is one open database: the
//! one writer of a named database, a private one, or a snapshot. [`Store::latest`] is its last
//! committed state as an immutable [`Catalog`]; whoever holds it reads that state for as long as he
//! likes. [`Store::begin`] starts the one [`WriteTxn`] a process may have; its changes become
//! visible with [`WriteTxn::commit`] and leave no trace otherwise.
//!
//! ```text
//! Store -> Catalog (immutable) -> Table -> Segment (131 072 rows) -> a chunk a column -> buffers
//! ```
//!
//! Folders use those before them in this list only: `errors`, `codec`, `memory`, `segments`,
//! `catalog`, `keys`, `durable`, `commit`, `store`, `txn`, `open`.

mod catalog;
mod codec;
mod commit;
mod durable;
mod errors;
mod keys;
mod memory;
mod open;
mod segments;
mod store;
mod txn;

pub use catalog::definition::{ColumnDef, Constraint, TableDef};
pub use catalog::link::Durability;
pub use catalog::macros::{Macro, MacroKind, MacroParameter, MacroVariant};
pub use catalog::names::IfExists;
pub use catalog::notes::{Commented, Index, TableNotes, view_column};
pub use catalog::page::Page;
pub use catalog::rules::{Check, ForeignKey, Generated};
pub use catalog::schema::View;
pub use catalog::sequences::Sequence;
pub use catalog::state::Catalog;
pub use catalog::table::Table;
pub use durable::disk::{CheckpointInfo, DurableInfo};
#[doc(hidden)]
pub use durable::fuzz::decode_anything;
pub use open::attach::StoreOptions;
pub use segments::ahead::{DiskRead, ReadAhead};
pub use segments::column_stats::ColumnStats;
pub use segments::rowids::{RowId, RowIds, SEGMENT_ROWS};
pub use segments::segment::Segment;
pub use store::check::StoreReport;
pub use store::handle::{MEMORY, Store, StoreKind};
pub use store::info::{StoreInfo, TableInfo};
pub use store::share::ShareInfo;
pub use store::slot::WRITER_WAIT;
pub use txn::checks::checked_schema;
pub use txn::generated::generating_schema;
pub use txn::transaction::{Checker, Compute, Savepoint, Test, WriteTxn};
pub use txn::writer::{PartWriter, TableWriter};
