//! Errors, one small enum an operation. Offsets and lengths are in bytes.

use crate::tree::Corruption;
use swing::WriteError;
use thiserror::Error;

/// Creating or opening a heap failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The area holds no heap.
    #[error("the area holds no heap: found {found:#018x} where its magic number must be")]
    NoHeap {
        /// The bytes found, little-endian.
        found: u64,
    },
    /// The heap was made by another version.
    #[error("the heap has version {found}, this program knows version {expected}")]
    Version {
        /// Version in the header.
        found: u32,
        /// Version of this program.
        expected: u32,
    },
    /// The header is for an area of other sizes.
    #[error("the heap was made for another area: {field} is {found}, the area's is {expected}")]
    Geometry {
        /// Which size.
        field: &'static str,
        /// In the header.
        found: u64,
        /// In the area.
        expected: u64,
    },
    /// The header contradicts itself.
    #[error("the heap's header is damaged at offset {at}: {rule} (found {found:#x})")]
    Corrupt {
        /// Offset in the area.
        at: u64,
        /// What was found.
        found: u64,
        /// What must hold.
        rule: &'static str,
    },
    /// The options do not fit the area.
    #[error("the heap's options do not fit: {what}")]
    Options {
        /// Which.
        what: &'static str,
    },
    /// The small zone cannot hold the metadata.
    #[error("the small zone of {small_zone} bytes is too small: the heap needs {needed}")]
    ZoneTooSmall {
        /// Least length that works.
        needed: u64,
        /// The area's.
        small_zone: u64,
    },
    /// The write barrier failed, most often for lack of memory.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// An allocation failed. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// No free block is large enough.
    #[error("no free block of {len} bytes in the area (largest: {largest})")]
    Exhausted {
        /// Bytes asked for.
        len: u64,
        /// Largest free block of the zones that serve such a request.
        largest: u64,
    },
    /// The alignment is no power of two or larger than the area.
    #[error("alignment {align} is not possible")]
    Alignment {
        /// Bytes asked for.
        align: u64,
    },
    /// The length is zero or larger than the area.
    #[error("a block of {len} bytes is not possible")]
    Length {
        /// Bytes asked for.
        len: u64,
    },
    /// The metadata contradicts itself.
    #[error("heap metadata is damaged at offset {at}: {rule} (found {found:#x})")]
    Corrupt {
        /// Offset in the area.
        at: u64,
        /// What was found.
        found: u64,
        /// What must hold.
        rule: &'static str,
    },
    /// The write barrier failed, most often for lack of memory.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Freeing failed. The block is still allocated, and the call may be repeated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FreeError {
    /// No block begins there (or it was freed already).
    #[error("no allocated block begins at offset {offset}")]
    NotAllocated {
        /// Offset given.
        offset: u64,
    },
    /// `free_exact` with a length that is not that of the allocation.
    #[error("the block at offset {offset} is not one allocation of {len} bytes")]
    Length {
        /// Offset given.
        offset: u64,
        /// Length given.
        len: u64,
    },
    /// The metadata contradicts itself.
    #[error("heap metadata is damaged at offset {at}: {rule} (found {found:#x})")]
    Corrupt {
        /// Offset in the area.
        at: u64,
        /// What was found.
        found: u64,
        /// What must hold.
        rule: &'static str,
    },
    /// The write barrier failed, most often for lack of memory.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The checker found a violated invariant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{invariant} is violated at offset {at}: {rule} (found {found}, expected {expected})")]
#[non_exhaustive]
pub struct CheckError {
    /// Its name in `docs/invariants.md`.
    pub invariant: &'static str,
    /// Offset in the area.
    pub at: u64,
    /// What was found.
    pub found: u64,
    /// What must be there.
    pub expected: u64,
    /// What must hold.
    pub rule: &'static str,
}

macro_rules! from_corruption {
    ($($error:ident),*) => {$(
        impl From<Corruption> for $error {
            fn from(c: Corruption) -> Self {
                $error::Corrupt { at: c.at, found: c.found, rule: c.rule }
            }
        }
    )*};
}
from_corruption!(HeapError, AllocError, FreeError);

impl From<Corruption> for CheckError {
    fn from(c: Corruption) -> Self {
        let invariant = "INV-HEAP-4";
        CheckError { invariant, at: c.at, found: c.found, expected: 0, rule: c.rule }
    }
}
