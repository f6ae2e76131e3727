//! Databases that outlive the machine's memory: a store on a disk beside the database in memory.
//!
//! A store is a log of blocks (`swing-tier`) in a directory of its own. It holds one state of the
//! database, whole: what the catalog says, and the blocks that tables are made of. Segments never
//! change, so bringing the store to a newer state writes the blocks that it has not, and the
//! catalog's records around them.
//!
//! * [`write`](mod@write), [`disk`]: bringing the store up to date. [`encode`]: blocks in fewer
//!   bytes. [`copy`]: copies in directories of their own.
//! * [`load`]: the catalog of a store, whose blocks are read when they are needed
//!   ([`crate::memory::fetch`]), or all in the [`background`] ([`loading`]).
//! * [`format`](mod@format), [`lists`]: the records. [`ledger`]: which of them are in use.
//! * [`fuzz`]: arbitrary bytes for the decoders.
//!
//! Which of the states in memory and on the disk is the newer is found out where a database is
//! opened ([`crate::open`]).
//!
//! # Crash story
//! The log's state switches at once (`docs/tier.md`). A process that dies at any point leaves the
//! state before or the one after in the store, and what it committed in memory there. Whoever opens
//! the database next takes the newer of both; they can differ by the one commit that was under way,
//! or by what an `interval` has not written yet.

mod background;
pub(crate) mod copy;
pub(crate) mod disk;
mod encode;
mod format;
pub(crate) mod fuzz;
mod ledger;
mod lists;
pub(crate) mod load;
pub(crate) mod loading;
pub(crate) mod write;
