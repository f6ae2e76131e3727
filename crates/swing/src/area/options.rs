//! What an area is created with, and which of that is possible.

use crate::model::backing::Backing;
use crate::model::error::{Fault, Result};
use crate::model::geometry::{DATA_EXTENT, Geometry, MAX_RESERVE};
use crate::model::units::{AreaOffset, ByteLen};

/// What an area is created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaOptions {
    /// Address space of the area: a multiple of 2 MiB. No memory is used before it is written.
    pub reserve: ByteLen,
    /// Length of the zone of small extents at the begin; a multiple of 2 MiB.
    pub small_zone: ByteLen,
    /// Length of the extents of the data zone, the unit in which it is copied: a power of two from
    /// 64 KiB to 32 MiB, by default 2 MiB. The small zone is rounded up to a multiple of it, and
    /// the address space must be one.
    pub extent: ByteLen,
    /// Where to map the area if these addresses are free, e.g. because raw pointers stored in it
    /// must stay valid.
    pub base_hint: Option<usize>,
    /// What its memory is made of.
    pub backing: Backing,
    /// When this much memory is held only for snapshots (old versions of what has been overwritten
    /// since), new hooks are refused until some of it is given back. `None`: never.
    pub cow_threshold: Option<ByteLen>,
}

impl AreaOptions {
    /// An area of `reserve` bytes; a 64th of it is the small zone.
    pub fn with_reserve(reserve: ByteLen) -> Self {
        let data = DATA_EXTENT.0;
        let small_zone = ByteLen((reserve.0 / 64).next_multiple_of(data).min(reserve.0));
        let extent = DATA_EXTENT;
        Self {
            reserve,
            small_zone,
            extent,
            base_hint: None,
            backing: Backing::Auto,
            cow_threshold: None,
        }
    }

    /// For databases: a power of two of at least four times the machine's memory, and at least 64
    /// GiB, so that an area never runs out of addresses before the machine runs out of memory.
    pub fn default_database() -> Self {
        // SAFETY: sysconf only reads.
        let (pages, size) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        let memory =
            u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0));
        let reserve = memory.saturating_mul(4).clamp(64 << 30, MAX_RESERVE.0);
        Self::with_reserve(ByteLen(reserve.next_power_of_two()))
    }

    /// The geometry asked for, with the small zone rounded up to whole data extents.
    pub(crate) fn geometry(&self) -> Result<Geometry> {
        let range = Fault::OutOfRange {
            start: AreaOffset(self.small_zone.0),
            end: AreaOffset(self.reserve.0),
        };
        let small_zone = ByteLen(self.small_zone.0.next_multiple_of(self.extent.0.max(1)));
        Geometry::with_extent(self.reserve, small_zone, self.extent).ok_or(range)
    }
}

impl Default for AreaOptions {
    fn default() -> Self {
        Self::default_database()
    }
}
