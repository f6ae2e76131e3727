//! Databases that outlive the machine's memory: a store on a disk beside the database in memory.
//!
//! A store is a log of blocks (`swing-tier`) in a directory of its own. It holds one state of the
//! database, whole: what the catalog says, and the blocks that tables are made of. Segments never
//! change, so bringing the store to a newer state writes the blocks that it has not, and the
//! catalog's records around them.
//!
//! * [`open`] and [`attach`](super::Store): which of the states in memory and on the disk is the
//!   newer, and loading it.
//! * `write`, `disk`: bringing the store up to date. `encode`: blocks in fewer bytes.
//! * `load`: its catalog. `fetch`: reading blocks when they are needed, or all in the background
//!   (`loading`), or ahead of a query (`ahead`). `copy`: copies in directories of their own.
//! * `format`, `lists`: the records. `ledger`: which of them are in use. `history`: which state
//!   came from which. `link`: what the database in memory knows of its store.
//!
//! # Crash story
//! The log's state switches at once (`docs/tier.md`). A process that dies at any point leaves the
//! state before or the one after in the store, and what it committed in memory there. Whoever opens
//! the database next takes the newer of both; they can differ by the one commit that was under way,
//! or by what an `interval` has not written yet.

mod ahead;
mod attach;
mod background;
mod copy;
mod disk;
mod encode;
mod fetch;
mod format;
pub(super) mod fuzz;
mod history;
mod ledger;
mod link;
mod lists;
mod load;
mod loading;
mod tier;
mod write;

pub use ahead::{DiskRead, ReadAhead};
pub use attach::StoreOptions;
pub(super) use disk::Disk;
pub use disk::{CheckpointInfo, DurableInfo};
pub(super) use fetch::{Cold, fetch};
pub(super) use format::BlockRef;
pub use link::Durability;
pub(super) use link::Link;
pub(super) use loading::Loading;
