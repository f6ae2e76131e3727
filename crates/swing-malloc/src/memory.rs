//! What the allocator needs of memory: a small trait, so that the same code runs on areas and on
//! plain vectors.
//!
//! The trait is the whole of what swing-malloc knows about copy-on-write. Tests implement it over a
//! vector that checks each rule (a write only after the barrier, a barrier that fails at the n-th
//! call); areas implement it by forwarding.
//!
//! Concurrency: the heap calls every method that changes something under its own lock; `discard` of
//! a block that is being freed is called outside it, while the block still belongs to nobody else.

use std::ops::Range;
use std::ptr::NonNull;
use swing::{Area, AreaOffset, ExtentState, Storing, WriteError, WriteIntent};

/// Sizes of an area that the heap's layout follows from. All are powers of two except `small_zone`,
/// which is a multiple of `data_extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Address space of the area.
    pub reserve: u64,
    /// Length of the zone of small extents, which begins at offset 0.
    pub small_zone: u64,
    /// Bytes of one extent in the small zone.
    pub small_extent: u64,
    /// Bytes of one extent behind it.
    pub data_extent: u64,
}

/// Memory with a write barrier.
///
/// # Safety
/// `base()` must point to `space().reserve` bytes of address space that stay reserved as long as
/// the value lives. Bytes of an extent whose state is not [`ExtentState::Absent`] must be readable,
/// and after a successful `make_writable` writable, until the caller publishes or discards them.
/// Memory that was absent must read as zero after `make_writable`.
pub unsafe trait Memory: Send + Sync {
    /// Address of offset 0.
    fn base(&self) -> NonNull<u8>;
    /// Sizes of the area.
    fn space(&self) -> Space;
    /// State of the extent that contains `offset`.
    fn state(&self, offset: u64) -> ExtentState;
    /// The write barrier; keeps the contents.
    fn make_writable(&self, range: Range<u64>) -> Result<(), WriteError>;
    /// The contents of whole extents inside `range` are no longer needed: they become absent.
    fn discard(&self, range: Range<u64>) -> Result<(), WriteError>;
    /// An error if this process may not write at all, such as a forked child. Asked before a lock
    /// is taken.
    fn check_writer(&self) -> Result<(), WriteError>;
    /// True if any extent that overlaps `range` has memory.
    fn any_present(&self, range: Range<u64>) -> bool {
        let space = self.space();
        let mut at = range.start;
        while at < range.end {
            if self.state(at) != ExtentState::Absent {
                return true;
            }
            let extent = if at < space.small_zone { space.small_extent } else { space.data_extent };
            at = (at / extent + 1) * extent;
        }
        false
    }
    /// Whether plain stores need no barrier: they are trapped where one would be needed.
    fn is_tracked(&self) -> bool {
        false
    }
    /// Whether nobody has called [`Memory::break_off`].
    fn check_whole(&self) -> Result<(), WriteError> {
        Ok(())
    }
    /// A check has failed while metadata was changed, so it may be half changed: nothing uses the
    /// memory any more, and nothing of it is published.
    fn break_off(&self) {}
    /// Held while metadata is written: a fork of the process does not freeze the area meanwhile.
    fn storing(&self) -> Option<Storing<'_>> {
        None
    }
}

/// A change of metadata. A panic meanwhile makes the memory unusable (INV-AREA-23), before the lock
/// that this is declared behind is given up.
pub(crate) struct Changes<'a, M: Memory> {
    mem: &'a M,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl<'a, M: Memory> Changes<'a, M> {
    pub(crate) fn begin(mem: &'a M) -> Result<Self, WriteError> {
        mem.check_whole()?;
        Ok(Changes { mem, unwinding: std::thread::panicking() })
    }
}

impl<M: Memory> Drop for Changes<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.mem.break_off();
        }
    }
}

/// The write barrier for metadata in extents of one length, skipped when every extent is private
/// already: that is one atomic load an extent.
pub(crate) fn barrier<M: Memory>(
    mem: &M,
    extent: u64,
    range: Range<u64>,
) -> Result<(), WriteError> {
    debug_assert!(extent.is_power_of_two() && range.start <= range.end);
    let mut at = range.start;
    while at < range.end {
        if mem.state(at) != ExtentState::Private {
            return mem.make_writable(range);
        }
        at = (at / extent + 1) * extent;
    }
    Ok(())
}

/// Metadata bytes `[0, end)` of a memory: every access of the allocator goes through here.
pub(crate) struct Bytes<'a, M> {
    mem: &'a M,
    end: u64,
    extent: u64,
}

impl<'a, M: Memory> Bytes<'a, M> {
    /// `end` is where the metadata ends; it is at most the small zone (INV-HEAP-1).
    pub(crate) fn new(mem: &'a M, end: u64) -> Self {
        let space = mem.space();
        assert!(end <= space.small_zone, "INV-HEAP-1: metadata lies in the small zone");
        Bytes { mem, end, extent: space.small_extent }
    }

    /// One byte; the caller knows that its extent has memory.
    #[inline]
    pub(crate) fn get(&self, at: u64) -> u8 {
        assert!(at < self.end, "INV-HEAP-1: read at {at} behind the metadata's end {}", self.end);
        // SAFETY: `at` is inside the reserved range (INV-HEAP-1); its extent has memory: the
        // header's does since `create` or the check in `open`, a cluster's is checked by `present`
        // or was written in this process.
        unsafe { self.mem.base().as_ptr().add(at as usize).read() }
    }

    /// Sets one byte; the caller passed the barrier for it.
    #[inline]
    pub(crate) fn set(&self, at: u64, value: u8) {
        assert!(at < self.end, "INV-HEAP-1: write at {at} behind the metadata's end {}", self.end);
        debug_assert_eq!(self.mem.state(at), ExtentState::Private, "INV-HEAP-2: barrier first");
        // SAFETY: inside the reserved range (INV-HEAP-1), writable since the barrier (INV-HEAP-2),
        // and the heap's lock makes this the only access to metadata.
        unsafe { self.mem.base().as_ptr().add(at as usize).write(value) }
    }

    /// A little-endian number of eight bytes.
    pub(crate) fn get_u64(&self, at: u64) -> u64 {
        assert!(at + 8 <= self.end, "INV-HEAP-1: read at {at} behind the metadata's end");
        // SAFETY: as in `get`; the unaligned read needs no alignment.
        let raw =
            unsafe { self.mem.base().as_ptr().add(at as usize).cast::<u64>().read_unaligned() };
        u64::from_le(raw)
    }

    /// Sets a little-endian number of eight bytes.
    pub(crate) fn set_u64(&self, at: u64, value: u64) {
        assert!(at + 8 <= self.end, "INV-HEAP-1: write at {at} behind the metadata's end");
        debug_assert_eq!(self.mem.state(at), ExtentState::Private, "INV-HEAP-2: barrier first");
        // SAFETY: as in `set`; the unaligned write needs no alignment.
        unsafe {
            let to = self.mem.base().as_ptr().add(at as usize).cast::<u64>();
            to.write_unaligned(value.to_le());
        }
    }

    /// True if every extent of the range has memory.
    pub(crate) fn present(&self, range: Range<u64>) -> bool {
        debug_assert!(range.start <= range.end && range.end <= self.end, "INV-HEAP-1");
        let mut at = range.start;
        while at < range.end {
            if self.mem.state(at) == ExtentState::Absent {
                return false;
            }
            at = (at / self.extent + 1) * self.extent;
        }
        true
    }

    /// See [`barrier`].
    pub(crate) fn barrier(&self, range: Range<u64>) -> Result<(), WriteError> {
        assert!(range.end <= self.end, "INV-HEAP-1: metadata only");
        barrier(self.mem, self.extent, range)
    }
}

// SAFETY: an area keeps its address range reserved as long as its mapping lives, which it holds;
// `make_writable` of an area gives exactly the promises of the trait (INV-AREA: private extents are
// writable by this process only), and new memory of a file or memfd is zero.
unsafe impl Memory for Area {
    fn base(&self) -> NonNull<u8> {
        Area::base(self)
    }

    fn space(&self) -> Space {
        let geometry = self.geometry();
        let (reserve, small_zone) = (geometry.reserve().0, geometry.small_zone().0);
        let small_extent = swing::geometry::SMALL_EXTENT.0;
        if small_zone == reserve {
            // An area of small extents only: those of its second half are called data extents.
            let (small_zone, data_extent) = (reserve / 2, small_extent);
            return Space { reserve, small_zone, small_extent, data_extent };
        }
        Space { reserve, small_zone, small_extent, data_extent: geometry.data_extent().0 }
    }

    #[inline]
    fn state(&self, offset: u64) -> ExtentState {
        self.extent_state(self.geometry().extent_of(AreaOffset(offset)))
    }

    fn make_writable(&self, range: Range<u64>) -> Result<(), WriteError> {
        let range = AreaOffset(range.start)..AreaOffset(range.end);
        Area::make_writable(self, range, WriteIntent::Keep)
    }

    fn discard(&self, range: Range<u64>) -> Result<(), WriteError> {
        Area::discard(self, AreaOffset(range.start)..AreaOffset(range.end))
    }

    #[inline]
    fn any_present(&self, range: Range<u64>) -> bool {
        Area::any_present(self, &(AreaOffset(range.start)..AreaOffset(range.end)))
    }

    fn is_tracked(&self) -> bool {
        Area::is_tracked(self)
    }

    #[inline]
    fn check_writer(&self) -> Result<(), WriteError> {
        // An empty range asks for nothing but the check.
        Area::make_writable(self, AreaOffset(0)..AreaOffset(0), WriteIntent::Keep)
    }

    #[inline]
    fn check_whole(&self) -> Result<(), WriteError> {
        Area::check_whole(self)
    }

    fn break_off(&self) {
        Area::break_off(self);
    }

    #[inline]
    fn storing(&self) -> Option<Storing<'_>> {
        Some(Area::storing(self))
    }
}
