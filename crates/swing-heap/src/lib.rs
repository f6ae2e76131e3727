//! An object heap that is larger than memory: objects of 1 byte to 64 KiB, of which the ones in
//! use lie in memory, within a budget, and the others in blocks on a disk.
//!
//! The operating system swaps pages; a page holds hot and cold objects together. This heap moves
//! single objects (FG_MM, 2017): cold ones are collected in blocks of 256 KiB and written together;
//! an object that is asked for comes back alone.
//!
//! ```
//! use swing_heap::{HeapOptions, ObjectHeap};
//! # let temporary = tempfile::tempdir()?;
//! let options = HeapOptions { budget: 8 << 20, ..Default::default() };
//! let heap = ObjectHeap::open(temporary.path(), options)?;
//! let handles = (0..30_000_u64)
//!     .map(|i| heap.alloc_from(&[i as u8; 1000]))
//!     .collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(heap.read(handles[7])?[0], 7);
//! heap.write(handles[7])?[0] = 1;
//! assert_eq!(heap.read(handles[7])?[..2], [1, 7]);
//! heap.free(handles[7])?;
//! assert!(heap.read(handles[7]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Order to read in: `entry` (the object table), `classes`, `chunk`, `policy`, `disk`, `core`,
//! `heap`, `keeper`; then `share` and `snapshot`. Invariants and limits are in `docs/heap.md`.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("entries hold 48-bit addresses");

mod access;
mod atomics;
mod bring;
mod chunk;
mod classes;
mod copies;
mod core;
mod disk;
mod entry;
mod error;
mod faults;
mod flush;
mod fuzz;
mod guard;
mod heap;
mod keeper;
mod memory;
#[cfg(all(test, loom))]
mod models;
mod options;
mod patience;
mod pointers;
mod policy;
mod raw;
mod replace;
mod servers;
mod share;
mod shared;
mod shares;
mod signal;
mod slots;
mod snapshot;
mod state;
mod stats;
mod store;
mod window;
mod writers;

pub use classes::MAX_OBJECT_BYTES;
pub use entry::Handle;
pub use error::{AreaProblem, HeapError};
pub use flush::MIN_PERSISTENT_BUDGET_BYTES;
#[doc(hidden)]
pub use fuzz::decode_anything;
pub use guard::{PinGuard, Plain, ReadGuard, Remote, WriteGuard};
pub use heap::ObjectHeap;
pub use options::{HeapOptions, MAX_BUDGET_BYTES, MIN_BUDGET_BYTES};
pub use pointers::PointerPin;
pub use policy::PolicyKind;
pub use raw::Access;
pub use snapshot::HeapSnapshot;
pub use stats::HeapStats;
pub use store::Recovery;
pub use window::MAX_POINTER_BYTES;
