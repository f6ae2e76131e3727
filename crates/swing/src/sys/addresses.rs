//! Address ranges: reserving, mapping file ranges over them, protection, population.
//!
//! A [`Span`] owns a reserved range of address space; everything below happens inside it,
//! bounds-checked by assertion (an out-of-range `MAP_FIXED` would overwrite foreign memory).

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::sys::process;

/// All spans begin at multiples of this, so that huge pages fit.
pub(crate) const SPAN_ALIGN: usize = 2 << 20;

/// What a page table of huge pages maps; spans of that size or more begin at multiples of it.
const LARGE: usize = 1 << 30;

/// Where areas are placed: far from where the kernel puts libraries, stacks and heaps, so that the
/// same address is free in the processes that hook them.
const WINDOW: Range<usize> = 0x1000_0000_0000..0x5000_0000_0000;

/// A reserved span of addresses; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Span {
    base: NonNull<u8>,
    len: usize,
    /// Whether what is unmapped reads as zeros ([`Span::show_zeros`]).
    zeros: AtomicBool,
}

// SAFETY: a span is an address and a length; all operations on it are system calls that are safe
// from any thread.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// Reserves `len` bytes without memory: at `hint` when that is free, else somewhere in the
    /// window, else anywhere.
    pub(crate) fn reserve(len: usize, hint: Option<usize>) -> Result<Self, Errno> {
        assert!(len > 0 && len.is_multiple_of(SPAN_ALIGN), "spans are whole huge pages");
        if let Some(at) = hint.filter(|at| acceptable(*at, len))
            && let Ok(base) = reserve_exactly(at, len)
        {
            return Ok(Self::over(base, len));
        }
        for _ in 0..3 {
            // Page tables of large spans begin where the spans do, so that they can be moved whole.
            let align = if len < LARGE { SPAN_ALIGN } else { LARGE };
            let Some(at) = random_place(len, align) else { break };
            if let Ok(base) = reserve_exactly(at, len) {
                return Ok(Self::over(base, len));
            }
        }
        reserve_anywhere(len).map(|base| Self::over(base, len))
    }

    /// Reserves exactly these addresses, or fails: `EXIST` when they are taken, `INVAL` when no
    /// area could ever have been there.
    pub(crate) fn reserve_at(len: usize, at: usize) -> Result<Self, Errno> {
        assert!(len > 0 && len.is_multiple_of(SPAN_ALIGN), "spans are whole huge pages");
        if !acceptable(at, len) {
            return Err(Errno::INVAL);
        }
        reserve_exactly(at, len).map(|base| Self::over(base, len))
    }

    fn over(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len, zeros: AtomicBool::new(false) }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of a byte of the span; checked.
    pub(super) fn at(&self, offset: usize, len: usize) -> *mut c_void {
        assert!(offset <= self.len && len <= self.len - offset, "outside the reserved span");
        // SAFETY: the assertion keeps the result inside the reserved span.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }

    /// The address of a part of the span; checked.
    pub(crate) fn address_of(&self, offset: usize, len: usize) -> usize {
        self.at(offset, len) as usize
    }

    /// Maps a file range shared over a part of the span, replacing what was there in one step.
    pub(crate) fn map(
        &self,
        offset: usize,
        len: usize,
        file: impl AsFd,
        file_offset: u64,
        writable: bool,
    ) -> Result<(), Errno> {
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        let at = self.at(offset, len);
        // SAFETY: `at..at+len` lies in the span this object reserved and owns, so MAP_FIXED
        // replaces only its own mapping.
        unsafe { mm::mmap(at, len, prot, flags, file, file_offset) }.map(|_| ())
    }

    /// Takes the memory away from a part of the span; touching it faults, or only storing to it
    /// ([`Span::show_zeros`]).
    pub(crate) fn unmap(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let zeros = self.zeros.load(Ordering::Acquire);
        self.map_nothing(offset, len, if zeros { ProtFlags::READ } else { ProtFlags::empty() })
    }

    /// Touching a part of the span faults from now on, whatever unmapping means here.
    pub(crate) fn forbid(&self, offset: usize, len: usize) -> Result<(), Errno> {
        self.map_nothing(offset, len, ProtFlags::empty())
    }

    fn map_nothing(&self, offset: usize, len: usize, prot: ProtFlags) -> Result<(), Errno> {
        let at = self.at(offset, len);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as in `map`: only the span's own addresses are replaced.
        unsafe { mm::mmap_anonymous(at, len, prot, flags) }.map(|_| ())
    }

    /// From now on what is unmapped reads as zeros, without memory: the system's page of zeros.
    pub(crate) fn show_zeros(&self) {
        self.zeros.store(true, Ordering::Release);
    }

    pub(crate) fn protect(&self, offset: usize, len: usize, writable: bool) -> Result<(), Errno> {
        let prot =
            if writable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::READ };
        // SAFETY: only pages of this span change their protection; no reference into areas is held
        // by this crate.
        unsafe { mm::mprotect(self.at(offset, len), len, prot) }
    }

    /// Maps a file range as private copy-on-write memory over a part of the span: a forked child's
    /// own copy.
    pub(crate) fn map_private(
        &self,
        offset: usize,
        len: usize,
        file: impl AsFd,
        file_offset: u64,
    ) -> Result<(), Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`: only the span's own addresses are replaced.
        unsafe { mm::mmap(self.at(offset, len), len, prot, flags, file, file_offset) }.map(|_| ())
    }

    /// Ordinary anonymous memory over a part of the span that has none.
    pub(crate) fn map_zeros(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`: only the span's own addresses are replaced.
        unsafe { mm::mmap_anonymous(self.at(offset, len), len, prot, flags) }.map(|_| ())
    }

    /// Asks for huge pages; a kernel without them refuses, and that is fine.
    pub(crate) fn advise_huge(&self, offset: usize, len: usize) {
        // SAFETY: advice changes no contents; the range is inside the span.
        let _ = unsafe { mm::madvise(self.at(offset, len), len, Advice::LinuxHugepage) };
    }

    /// Allocates all pages of a writable range; on a full file system an error instead of a later
    /// SIGBUS.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: the range is inside the span.
        unsafe { populate(self.at(offset, len), len, Advice::LinuxPopulateWrite) }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: the span owns these addresses, and its last user is gone.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
        // Where the process has no mapping left to split a neighbour with, the addresses stay.
        assert!(matches!(unmapped, Ok(()) | Err(Errno::NOMEM)), "its own addresses: {unmapped:?}");
    }
}

/// Populates mapped pages, however often a signal interrupts that.
///
/// # Safety
/// The range is the caller's.
pub(super) unsafe fn populate(at: *mut c_void, len: usize, how: Advice) -> Result<(), Errno> {
    loop {
        // SAFETY: populating changes no contents; the range is the caller's.
        match unsafe { mm::madvise(at, len, how) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// An address from outside (an option, a manifest) is used as a hint only inside the window.
fn acceptable(at: usize, len: usize) -> bool {
    at.is_multiple_of(SPAN_ALIGN)
        && at >= WINDOW.start
        && at.checked_add(len).is_some_and(|e| e <= WINDOW.end)
}

/// Some multiple of `align` in the window with room for `len` bytes, whoever may have it.
pub(crate) fn random_place(len: usize, align: usize) -> Option<usize> {
    random_place_in(WINDOW, len, align)
}

/// As [`random_place`], between the multiples of `distance` below and above an address; `None` also
/// when they are not in the window.
pub(crate) fn random_place_near(
    address: usize,
    distance: usize,
    len: usize,
    align: usize,
) -> Option<usize> {
    debug_assert!(distance.is_multiple_of(align));
    let start = address / distance * distance;
    let range = start..start.checked_add(distance)?;
    let inside = WINDOW.start <= range.start && range.end <= WINDOW.end;
    inside.then(|| random_place_in(range, len, align)).flatten()
}

fn random_place_in(range: Range<usize>, len: usize, align: usize) -> Option<usize> {
    debug_assert!(align.is_power_of_two() && range.start.is_multiple_of(align));
    let room = (range.end - range.start).checked_sub(len)?;
    let slot = process::random_id() as usize % (room / align + 1);
    Some(range.start + slot * align)
}

fn reserve_exactly(at: usize, len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: FIXED_NOREPLACE never replaces an existing mapping.
    let got = unsafe { mm::mmap_anonymous(at as *mut c_void, len, ProtFlags::empty(), flags) };
    exactly_at(at, len, got)
}

/// The new mapping, if it is where it was to be.
fn exactly_at(
    at: usize,
    len: usize,
    got: Result<*mut c_void, Errno>,
) -> Result<NonNull<u8>, Errno> {
    let got = got?;
    if got as usize != at {
        // A kernel before 4.17 takes the address as a mere hint.
        // SAFETY: this is the mapping just made.
        let _ = unsafe { mm::munmap(got, len) };
        return Err(Errno::EXIST);
    }
    NonNull::new(got.cast()).ok_or(Errno::NOMEM)
}

pub(super) fn reserve_anywhere(len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let padded = len + SPAN_ALIGN;
    // SAFETY: an anonymous mapping at an address of the kernel's choice.
    let got =
        unsafe { mm::mmap_anonymous(null_mut(), padded, ProtFlags::empty(), flags) }? as usize;
    let base = got.next_multiple_of(SPAN_ALIGN);
    let (head, tail) = (base - got, got + padded - (base + len));
    // SAFETY: head and tail are the parts of the mapping just made that the aligned span does not
    // use.
    unsafe {
        if head > 0 {
            let _ = mm::munmap(got as *mut c_void, head);
        }
        if tail > 0 {
            let _ = mm::munmap((base + len) as *mut c_void, tail);
        }
    }
    NonNull::new(base as *mut u8).ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_hint_is_taken_and_a_used_one_is_not() {
        let first = Span::reserve(SPAN_ALIGN, None).unwrap();
        let at = first.base().as_ptr() as usize;
        assert_eq!(at % SPAN_ALIGN, 0);
        let second = Span::reserve(SPAN_ALIGN, Some(at)).unwrap();
        assert_ne!(second.base(), first.base());
        drop(first);
        let third = Span::reserve(SPAN_ALIGN, Some(at)).unwrap();
        assert_eq!(third.base().as_ptr() as usize, at);
        assert_eq!(third.len(), SPAN_ALIGN);
    }

    #[test]
    fn hostile_hints_are_ignored() {
        for hint in
            [0, 1, 4096, usize::MAX, usize::MAX & !(SPAN_ALIGN - 1), WINDOW.end - SPAN_ALIGN / 2]
        {
            let span = Span::reserve(2 * SPAN_ALIGN, Some(hint)).unwrap();
            assert_ne!(span.base().as_ptr() as usize, hint);
        }
    }

    #[test]
    #[should_panic(expected = "outside the reserved span")]
    fn nothing_is_mapped_outside() {
        let span = Span::reserve(SPAN_ALIGN, None).unwrap();
        let _ = span.unmap(SPAN_ALIGN, 4096);
    }

    #[test]
    fn reserve_anywhere_is_aligned() {
        let base = reserve_anywhere(3 * SPAN_ALIGN).unwrap();
        assert_eq!(base.as_ptr() as usize % SPAN_ALIGN, 0);
        drop(Span::over(base, 3 * SPAN_ALIGN));
    }
}
