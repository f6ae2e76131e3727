//! SwingMalloc: an allocator whose memory and metadata both live inside one copy-on-write area.
//!
//! After "Memory Instant Snapshot Sharing Mechanism and Its Application in Database" (Chinese
//! Journal of Computers, 2018), section 4. All metadata lies in the area, in offsets, so that a
//! process that takes a snapshot of an area can allocate and free in its own version at once,
//! without affecting anybody else:
//!
//! - [`Heap::allocate`] answers with the size really granted, so that arrays grow less often;
//! - a buddy part, a binary tree in an array of one byte a node, smallest block 128 B;
//! - a table of large blocks for the largest requests, which the user may change ([`BlockTable`]);
//! - a reserved part at a fixed offset ([`RESERVED_OFFSET`]) for the application.
//!
//! What is added to the paper: exact lengths ([`Heap::allocate_exact`]), an order of the tree's
//! nodes in memory that lets an operation write at most two small extents of metadata, placement
//! that avoids copying, memory given back when an extent becomes free, and a checker
//! ([`Heap::check`]). `docs/format.md` has the layout in bytes.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use swing::{AreaOptions, ByteLen, Namespace, WriteIntent};
//! use swing_malloc::{Heap, HeapOptions};
//!
//! # let home = tempfile::tempdir()?;
//! let namespace = Namespace::open(home.path())?;
//! let area = Arc::new(namespace.create_unnamed(&AreaOptions::default())?);
//! let heap = Heap::create(area.clone(), HeapOptions::default())?;
//!
//! let grant = heap.allocate(ByteLen(1000))?;
//! assert_eq!(grant.len, ByteLen(1024));
//! area.make_writable(grant.offset..grant.offset + grant.len, WriteIntent::Overwrite)?;
//! // ... store to `area.base()` plus the offset ...
//! heap.free(grant.offset)?;
//! # Ok(())
//! # }
//! ```

mod blocks;
mod check;
mod error;
mod fast;
mod grow;
mod header;
mod heap;
mod layout;
mod memory;
mod options;
mod placement;
mod stats;
mod tree;
mod zone;

pub use check::HeapReport;
pub use error::{AllocError, CheckError, FreeError, HeapError};
pub use fast::{AreaAlloc, Malloc, MallocPause, MallocReport, MallocStats, prepare_process};
pub use header::HEAP_MAGIC;
pub use heap::{Grant, Heap, Pause};
pub use layout::{
    DATA_GRANULE_SHIFT, MAX_BLOCKS, RESERVED_OFFSET, SMALL_GRANULE_SHIFT, SMALL_LIMIT,
};
pub use memory::{Memory, Space};
pub use options::{BlockClass, BlockTable, HeapOptions};
pub use stats::{HeapStats, ZoneStats};
