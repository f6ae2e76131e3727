//! What can go wrong with an object heap.

use std::path::PathBuf;

use swing::{CreateError, HookError, PublishError, TrackError};
use swing_tier::{CommitError, IoError, OpenError, ReadError};
use thiserror::Error;

use crate::entry::Handle;

/// Why an area is of no use for a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AreaProblem {
    /// Somebody else has an area of the name.
    NameTaken,
    /// There is no area of the name, or its owner has just ended.
    NotFound,
    /// The heap has shared nothing yet.
    NotShared,
    /// The memory file system is full.
    NoMemory,
    /// No free addresses or mappings.
    NoAddresses,
    /// A file of the area is damaged.
    Damaged,
    /// Another failure, such as one of the operating system.
    Other,
}

/// An operation of an object heap failed. The heap and all other objects stay usable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapError {
    /// No object has this handle: it was freed, or the handle is of another heap.
    #[error("{handle} names no object of this heap; it was freed, or belongs to another heap")]
    NoObject {
        /// The handle.
        handle: Handle,
    },
    /// No object begins at this address.
    #[error("no object of this heap begins at address {address:#x}")]
    NoPointer {
        /// The address.
        address: usize,
    },
    /// An object of this length is not possible.
    #[error("an object has 1 to 65536 bytes, not {len}; use the ordinary allocator for others")]
    Size {
        /// The length that was asked for, in bytes.
        len: usize,
    },
    /// An object of this length has no plain address.
    #[error("an object with an address has 1 to 4096 bytes, not {len}; use its handle")]
    PointerSize {
        /// The object's length, or the one that was asked for, in bytes.
        len: usize,
    },
    /// A typed handle does not fit the object's length or alignment.
    #[error("{handle} has {len} bytes; the type has {expected} bytes, aligned to at most 16")]
    Type {
        /// The handle.
        handle: Handle,
        /// The object's length in bytes.
        len: usize,
        /// The type's size in bytes.
        expected: usize,
    },
    /// The object stayed in use for longer than `max_wait`.
    #[error("{handle} stayed in use for {waited_ms} ms; drop its guards first")]
    InUse {
        /// The handle.
        handle: Handle,
        /// How long the call waited, in milliseconds.
        waited_ms: u64,
    },
    /// The system gives this process nothing by which plain pointers work. Guards do not need it.
    #[error("plain pointers cannot be had here ({why}); use guards")]
    NoPointers {
        /// What the system says.
        why: String,
    },
    /// Half of the window of plain pointers is held by system calls.
    #[error(
        "{held} pages of plain pointers are pinned, half of the window; unpin some, or choose a \
             larger window with enable_pointers"
    )]
    TooManyHeld {
        /// How many pages are.
        held: usize,
    },
    /// The budget has no room: what is in memory is in use, or the metadata takes all of it.
    #[error(
        "the budget of {budget} bytes has no room for {len} bytes more; raise it with \
             set_budget, drop guards, or free objects"
    )]
    NoMemory {
        /// The budget in bytes.
        budget: u64,
        /// The length of the object that found no room, in bytes.
        len: usize,
    },
    /// Objects have to move to the disk, and it is full.
    #[error("the heap's file has no room for evicted objects ({0}); free objects or disk space")]
    DiskFull(String),
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The bytes on the disk are not those that were written. They have not been handed out.
    #[error("{handle} is damaged on the disk (block {block}, offset {offset}, {len} bytes)")]
    Damaged {
        /// The handle.
        handle: Handle,
        /// The number of the block of 256 KiB in the heap's file.
        block: u32,
        /// Where in the block, in bytes.
        offset: u32,
        /// The object's length in bytes.
        len: usize,
    },
    /// The persistent heap could not be opened.
    #[error("cannot open the object heap: {0}")]
    Open(#[from] OpenError),
    /// The directory holds another kind of log.
    #[error(
        "{} holds no object heap but something else, such as a database; choose an empty directory",
        path.display()
    )]
    NotAHeap {
        /// The directory.
        path: PathBuf,
    },
    /// The object table could not be read.
    #[error("cannot read the object table: {0}")]
    Table(#[from] ReadError),
    /// The flush failed; the state of the flush before stays.
    #[error("the flush failed: {0}")]
    Flush(#[from] CommitError),
    /// Blocks could not be made durable, and nobody knows which. The heap takes no more flushes;
    /// the state of the flush before stays.
    #[error("{0}; the heap cannot be flushed any more: copy what is needed elsewhere")]
    Sync(IoError),
    /// The area of the heap, or of a snapshot, failed.
    #[error("the area of the object heap: {text}")]
    Area {
        /// What kind of failure it is.
        problem: AreaProblem,
        /// What the area says.
        text: String,
    },
    /// The area holds no state of an object heap, or one that contradicts itself.
    #[error("the area holds no state of an object heap ({0})")]
    NoHeap(&'static str),
    /// The heap's process has ended, or may not be looked at, so its file cannot be opened.
    #[error(
        "the file of the object heap cannot be opened through its process {pid} ({why}); \
             open snapshots while that runs"
    )]
    OwnerGone {
        /// The process that had the heap.
        pid: u32,
        /// What the system says.
        why: String,
    },
    /// Objects were being written for longer than `max_wait`, so no state could be shared.
    #[error("objects were being written for {waited_ms} ms; drop write guards first")]
    Writing {
        /// How long the call waited, in milliseconds.
        waited_ms: u64,
    },
    /// The process has forked since the heap was opened; the heap belongs to the parent.
    #[error("the process has forked; open a heap of its own in the child")]
    Forked,
    /// A check inside the heap has failed while its tables were changed, so they may be half
    /// changed: the heap does nothing any more. What was flushed or shared last is unharmed.
    #[error(
        "a check inside the heap has failed, so it does nothing any more; what was flushed or \
             shared last is unharmed: open it again"
    )]
    Broken,
    /// The heap is closed.
    #[error("the heap is closed")]
    Closed,
    /// Options that make no sense; the text says which.
    #[error("{0}")]
    Options(&'static str),
    /// There would be more than 2^32 - 1 objects.
    #[error("a heap has at most 4294967295 objects")]
    TooManyObjects,
}

impl HeapError {
    fn of_area(problem: AreaProblem, error: impl std::fmt::Display) -> Self {
        HeapError::Area { problem, text: error.to_string() }
    }

    /// A failure of the area that has no kind of its own.
    pub(crate) fn other_of_area(error: impl std::fmt::Display) -> Self {
        Self::of_area(AreaProblem::Other, error)
    }

    pub(crate) fn name_taken(error: impl std::fmt::Display) -> Self {
        Self::of_area(AreaProblem::NameTaken, error)
    }
}

/// Which problem the variants of an error of the area are.
macro_rules! problems {
    ($error:ident { $($variant:ident => $problem:ident),* $(,)? }) => {
        impl From<$error> for HeapError {
            fn from(error: $error) -> Self {
                let problem = match &error {
                    $($error::$variant { .. } => AreaProblem::$problem,)*
                    _ => AreaProblem::Other,
                };
                HeapError::of_area(problem, error)
            }
        }
    };
}

problems!(CreateError { AlreadyExists => NameTaken, Owned => NameTaken, OutOfMemory => NoMemory,
    AddressSpace => NoAddresses, TooManyMappings => NoAddresses, Limit => NoAddresses });
problems!(TrackError { OutOfMemory => NoMemory, AddressSpace => NoAddresses,
    TooManyMappings => NoAddresses, Limit => NoAddresses });
problems!(PublishError { OutOfMemory => NoMemory, AddressSpace => NoAddresses,
    TooManyMappings => NoAddresses });
problems!(HookError { NotFound => NotFound, MemoryGone => NotFound, NotShared => NotShared,
    NotHookable => NotShared, AddressSpace => NoAddresses, TooManyMappings => NoAddresses,
    Corrupt => Damaged });
