//! Write-protecting gigabytes at once.
//!
//! `mprotect` visits each mapped page: 8 GiB of huge pages take it two thirds of a millisecond, of
//! small pages some hundred. But page tables can be moved away as a whole. A `mremap` that leaves
//! the mapping in place moves the tables to unused addresses, a gigabyte at a time where both
//! ranges are aligned alike. The remaining mapping has no page tables: it is protected in
//! microseconds, and finds its pages again when they are read, since the memory is the file's. The
//! moved tables are dropped later, when no thread waits. Until then the memory is also mapped at
//! the other address, as writable as before.
//!
//! Between the two calls the range can still be written, and these stores count: the moment of the
//! protection is the second call, exactly as without the first.
//!
//! Kernels before 5.13 cannot do this for files, kernels before 6.17 only for one mapping at a
//! time, and some environments not at all. Then nothing has happened but that some pages have to be
//! found again. If it is not possible at all, it is not tried a second time.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm;

use crate::sys::addresses::{Span, random_place, random_place_near};

/// Tables of so many bytes are moved in one step, when source and target lie alike in it.
const ALIKE: usize = 1 << 30;
/// So much one table of such steps spans.
const NEAR: usize = 512 * ALIKE;
/// Random places that are looked at for one that is free: an area takes a small part of all.
const PLACES_TRIED: u32 = 8;

/// Whether moving tables away has failed as it always will.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Page tables that have been moved away; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct DetachedTables {
    at: usize,
    len: usize,
}

/// Where the tables of a range can be moved in large steps, if nothing else comes to be there: it
/// was free, but is not reserved, since moving tables to where something is takes half as long
/// again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetachTarget {
    at: usize,
    len: usize,
}

impl DetachTarget {
    /// Preferably near, where the table that the gigabytes are listed in is the same: otherwise one
    /// has to be made for them when they are moved.
    fn like(from: usize, len: usize) -> Option<Self> {
        assert!(len > 0 && from.is_multiple_of(4096) && len.is_multiple_of(4096));
        let span = len.checked_add(ALIKE)?.next_multiple_of(ALIKE);
        (0..PLACES_TRIED).find_map(|_| {
            let near = random_place_near(from, NEAR, span, ALIKE);
            let start = near.or_else(|| random_place(span, ALIKE))?;
            // Where something is, tables would be moved to another place, in small steps.
            drop(Span::reserve_at(span, start).ok()?);
            Some(Self { at: start + from % ALIKE, len })
        })
    }

    /// Whether it is what this range needs.
    fn fits(&self, from: usize, len: usize) -> bool {
        self.len >= len && self.at % ALIKE == from % ALIKE && self.at.abs_diff(from) >= len
    }
}

impl DetachedTables {
    /// Takes the page tables of a part of a span away, which is mapped without holes: what protects
    /// it next has nothing to look at.
    pub(crate) fn of_span(
        span: &Span,
        offset: usize,
        len: usize,
        to: Option<DetachTarget>,
    ) -> Option<Self> {
        // SAFETY: only pages of this span lose their tables, not their memory.
        unsafe { Self::take(span.at(offset, len) as usize, len, to) }
    }

    /// Takes the page tables of a range away, preferably to a place that has been chosen before;
    /// `None` when that cannot be done.
    ///
    /// # Safety
    /// The range belongs to the caller, and is mapped from files, shared, without holes.
    unsafe fn take(from: usize, len: usize, place: Option<DetachTarget>) -> Option<Self> {
        if REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        let place =
            place.filter(|p| p.fits(from, len)).or_else(|| DetachTarget::like(from, len))?;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        let (source, target) = (from as *mut c_void, place.at as *mut c_void);
        // SAFETY: the source is the caller's, and stays mapped. The target is a hint: where it is
        // taken the kernel finds another place.
        let moved = unsafe { libc::mremap(source, len, len, flags, target) };
        if moved == libc::MAP_FAILED {
            // A range of several mappings, or too many of them, says nothing of the next time.
            let error = std::io::Error::last_os_error().raw_os_error();
            if !matches!(error, Some(libc::EFAULT | libc::ENOMEM)) {
                REFUSED.store(true, Ordering::Relaxed);
            }
            return None;
        }
        Some(Self { at: moved as usize, len })
    }

    /// Whether this kernel cannot do it at all.
    #[cfg(test)]
    pub(crate) fn are_refused() -> bool {
        REFUSED.load(Ordering::Relaxed)
    }

    /// Where as many tables can be moved the next time.
    pub(crate) fn another_target(&self) -> Option<DetachTarget> {
        DetachTarget::like(self.at, self.len)
    }

    /// Drops tables of at most `step` bytes, so that others who change the address space get in
    /// between; `false` when none are left.
    pub(crate) fn drop_some(&mut self, step: usize) -> bool {
        let step = step.min(self.len);
        debug_assert!(step.is_multiple_of(4096));
        if step > 0 {
            // SAFETY: addresses of the range that `take` has made, unmapped once.
            let _ = unsafe { mm::munmap(self.at as *mut c_void, step) };
            self.at += step;
            self.len -= step;
        }
        self.len > 0
    }
}

impl Drop for DetachedTables {
    fn drop(&mut self) {
        let left = self.len;
        assert!(!self.drop_some(left), "all of it is gone");
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::extent_mapping::map_aligned;

    const MIB: usize = 1 << 20;

    /// A shared mapping of a new file.
    struct Mapped {
        at: *mut u8,
        len: usize,
    }

    impl Mapped {
        fn new(len: usize) -> Self {
            let file = tempfile::tempfile_in("/dev/shm").unwrap();
            file.set_len(len as u64).unwrap();
            let at = map_aligned(len, file.as_fd(), 0).unwrap();
            Self { at: at as *mut u8, len }
        }

        fn byte(&self, at: usize) -> *mut u8 {
            assert!(at < self.len);
            self.at.wrapping_add(at)
        }

        fn protect(&self, flags: mm::MprotectFlags) {
            // SAFETY: this object's own mapping.
            unsafe { mm::mprotect(self.at.cast(), self.len, flags) }.unwrap();
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: this object's own mapping.
            unsafe { mm::munmap(self.at.cast(), self.len) }.unwrap();
        }
    }

    #[test]
    fn the_bytes_stay_and_what_is_stored_before_the_protection_counts() {
        let mapped = Mapped::new(8 * MIB);
        // SAFETY: bytes of the mapping, which only this thread uses.
        unsafe {
            (0..8 * MIB).step_by(4096).for_each(|at| mapped.byte(at).write(at as u8 / 16 + 1));
            let mut lifted = DetachedTables::take(mapped.at as usize, mapped.len, None);
            // Not protected yet: this store is part of the moment.
            mapped.byte(5).write(77);
            mapped.protect(mm::MprotectFlags::READ);
            let zero = std::fs::File::open("/dev/zero").unwrap();
            let page = std::slice::from_raw_parts_mut(mapped.at, 8);
            assert_eq!(rustix::io::read(&zero, page), Err(rustix::io::Errno::FAULT));
            assert_eq!(mapped.byte(5).read(), 77);
            for at in (4096..8 * MIB).step_by(4096) {
                assert_eq!(mapped.byte(at).read(), at as u8 / 16 + 1, "{at}");
            }
            if let Some(lifted) = &mut lifted {
                assert!(lifted.drop_some(2 * MIB) && lifted.drop_some(2 * MIB));
            }
            drop(lifted);
            assert_eq!(mapped.byte(4 * MIB).read(), (4 * MIB) as u8 / 16 + 1);
        }
    }

    #[test]
    fn places_lie_alike() {
        for like in [0x2000_0000_0000, 0x2000_0000_0000 + 6 * MIB, 3 * ALIKE - 4096] {
            let place = DetachTarget::like(like, 3 * MIB).unwrap();
            assert!(place.fits(like, 3 * MIB) && !place.fits(like, 3 * MIB + 4096));
            assert!(!place.fits(like + 4096, MIB) && !place.fits(place.at, 3 * MIB));
            assert!(place.at / NEAR == like / NEAR || like / NEAR == 0, "there is room near");
        }
    }

    /// Half of the neighbourhood is taken: most random places are not free.
    #[test]
    fn tables_are_moved_each_time_to_where_nothing_is() {
        let start = (1..60).map(|i| i * NEAR);
        let taken = start.map(|at| Span::reserve_at(NEAR / 2, at + NEAR / 4));
        let taken = taken.flatten().next().unwrap();
        let from = taken.base().as_ptr() as usize;
        let places: Vec<_> = (0..64).filter_map(|_| DetachTarget::like(from, 64 * ALIKE)).collect();
        assert!(places.len() >= 32, "{}", places.len());
        for place in places {
            assert!(place.fits(from, 64 * ALIKE));
            let (start, end) = (place.at, place.at + place.len);
            assert!(end <= from || from + taken.len() <= start, "nothing is there");
        }
    }

    #[test]
    fn a_place_that_is_taken_stays_as_it_is() {
        let mapped = Mapped::new(4 * MIB);
        let place = DetachTarget::like(mapped.at as usize, mapped.len).unwrap();
        let _taken = Span::reserve_at(mapped.len, place.at).unwrap();
        // SAFETY: a byte of the mapping, which only this thread uses.
        unsafe {
            mapped.byte(MIB).write(1);
            let lifted = DetachedTables::take(mapped.at as usize, mapped.len, Some(place));
            assert!(lifted.is_none_or(|lifted| lifted.at.abs_diff(place.at) >= mapped.len));
            assert_eq!(mapped.byte(MIB).read(), 1);
        }
        assert!(Span::reserve_at(mapped.len, place.at).is_err(), "it is still taken");
    }

    #[test]
    fn tables_are_dropped_in_pieces() {
        let at = std::mem::ManuallyDrop::new(Mapped::new(10 * MIB)).at as usize;
        let mut lifted = DetachedTables { at, len: 10 * MIB };
        let mut pieces = 1;
        while lifted.drop_some(4 * MIB) {
            pieces += 1;
        }
        assert_eq!((pieces, lifted.len), (3, 0));
        assert!(!lifted.drop_some(MIB), "nothing is left to drop");
    }
}
