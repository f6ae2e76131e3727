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

mod alter;
mod append;
mod catalog;
mod check;
mod checks;
mod clone;
mod codec;
mod columns;
mod commit;
mod directory;
mod durable;
mod edit;
mod foreign;
mod generated;
mod group;
mod handle;
mod info;
mod keys;
mod locate;
mod macros;
mod notes;
mod parallel;
mod patch;
mod raw;
mod read;
mod rowids;
mod rows;
mod segment;
mod sequences;
mod slot;
mod space;
mod stats;
mod table;
mod table_list;
mod translate;
mod txn;
mod types;
mod unique;
mod writer;

pub use alter::IfExists;
pub use catalog::{Catalog, View};
pub use check::StoreReport;
pub use checks::checked_schema;
pub use checks::{Check, Checker, Test};
#[doc(hidden)]
pub use durable::fuzz::decode_anything;
pub use durable::{CheckpointInfo, DiskRead, Durability, DurableInfo, ReadAhead, StoreOptions};
pub use foreign::ForeignKey;
pub use generated::{Compute, Generated, generating_schema};
pub use handle::{MEMORY, ShareInfo, Store, StoreKind};
pub use info::{StoreInfo, TableInfo};
pub use macros::{Macro, MacroKind, MacroParameter, MacroVariant};
pub use notes::{Commented, Index, TableNotes};
pub use rowids::{RowId, RowIds};
pub use segment::{ColumnStats, SEGMENT_ROWS, Segment};
pub use sequences::Sequence;
pub use table::Page;
pub use table::{ColumnDef, Constraint, Table, TableDef};
pub use txn::{Savepoint, WRITER_WAIT, WriteTxn};
pub use writer::{PartWriter, TableWriter};
