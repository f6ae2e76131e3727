//! Address ranges: reserving, mapping file ranges over them, protection, population.
//!
//! A [`Range`] owns a reserved span of address space; everything below happens inside it,
//! bounds-checked by assertion (an out-of-range `MAP_FIXED` would overwrite foreign memory).

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use super::file;
use super::lift::{Lifted, Place};
use super::strict::strict_assert;

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
            return Ok(Self { base, len });
        }
        for _ in 0..3 {
            // Page tables of large spans begin where the spans do, so that they can be moved whole.
            let align = if len < LARGE { SPAN_ALIGN } else { LARGE };
            let Some(at) = random_place(len, align) else { break };
            if let Ok(base) = reserve_exactly(at, len) {
                return Ok(Self { base, len });
            }
        }
        reserve_anywhere(len).map(|base| Self { base, len })
    }

    /// Reserves exactly these addresses, or fails: `EXIST` when they are taken, `INVAL` when no
    /// area could ever have been there.
    pub(crate) fn reserve_at(len: usize, at: usize) -> Result<Self, Errno> {
        assert!(len > 0 && len.is_multiple_of(SPAN_ALIGN), "spans are whole huge pages");
        if !acceptable(at, len) {
            return Err(Errno::INVAL);
        }
        reserve_exactly(at, len).map(|base| Self { base, len })
    }

    /// Reserves exactly these addresses, and maps a file range to be read over a part of them. That
    /// part is mapped first, which takes a third less time than mapping it over a reservation.
    pub(crate) fn reserve_around(
        len: usize,
        at: usize,
        part: Range<usize>,
        file: impl AsFd,
        file_offset: u64,
    ) -> Result<Self, Errno> {
        assert!(len > 0 && len.is_multiple_of(SPAN_ALIGN), "spans are whole huge pages");
        assert!(part.start < part.end && part.end <= len, "inside the span");
        if !acceptable(at, len) {
            return Err(Errno::INVAL);
        }
        let base = NonNull::new(at as *mut u8).ok_or(Errno::INVAL)?;
        let (to, shown) = (at + part.start, part.len());
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: FIXED_NOREPLACE never replaces an existing mapping.
        let got = unsafe {
            mm::mmap(to as *mut c_void, shown, ProtFlags::READ, flags, file, file_offset)
        };
        // What has been mapped when something fails is unmapped.
        let mut made = vec![Self { base: exactly_at(to, shown, got)?, len: shown }];
        for rest in [part.end..len, 0..part.start] {
            if !rest.is_empty() {
                let base = reserve_exactly(at + rest.start, rest.len())?;
                made.push(Self { base, len: rest.len() });
            }
        }
        made.into_iter().for_each(std::mem::forget);
        Ok(Self { base, len })
    }

    /// A short-lived span wherever there is room.
    pub(crate) fn reserve_scratch(len: usize) -> Result<Self, Errno> {
        reserve_anywhere(len).map(|base| Self { base, len })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of a byte of the span; checked.
    fn at(&self, offset: usize, len: usize) -> *mut c_void {
        assert!(offset <= self.len && len <= self.len - offset, "outside the reserved span");
        // SAFETY: the assertion keeps the result inside the reserved span.
        unsafe { self.base.as_ptr().add(offset).cast() }
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

    /// Takes the memory away from a part of the span; touching it faults.
    pub(crate) fn unmap(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let at = self.at(offset, len);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as in `map`: only the span's own addresses are replaced.
        unsafe { mm::mmap_anonymous(at, len, ProtFlags::empty(), flags) }.map(|_| ())
    }

    pub(crate) fn protect(&self, offset: usize, len: usize, writable: bool) -> Result<(), Errno> {
        let prot =
            if writable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::READ };
        // SAFETY: only pages of this span change their protection; no reference into areas is held
        // by this crate.
        unsafe { mm::mprotect(self.at(offset, len), len, prot) }
    }

    /// Takes the page tables of a part of the span away, which is mapped without holes: what
    /// protects it next has nothing to look at.
    pub(crate) fn lift(&self, offset: usize, len: usize, to: Option<Place>) -> Option<Lifted> {
        // SAFETY: only pages of this span lose their tables, not their memory.
        unsafe { Lifted::take(self.at(offset, len) as usize, len, to) }
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

    /// Moves what is mapped at the begin of `from` over a part of this span, page tables included.
    pub(crate) fn move_in(&self, offset: usize, len: usize, from: &Span) -> Result<(), Errno> {
        assert!(offset.is_multiple_of(SPAN_ALIGN), "page tables move as a whole");
        let target = self.at(offset, len);
        let source = from.at(0, len);
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: source and target are ranges of spans owned by the caller. The source becomes a
        // hole, which `from`'s owner closes at once by `Span::forget_moved`.
        unsafe { mm::mremap_fixed(source, len, len, flags, target) }.map(|_| ())
    }

    /// Ends a span whose first `moved` bytes have been moved away, without unmapping what may live
    /// there by now.
    pub(crate) fn forget_moved(self, moved: usize) {
        assert!(moved <= self.len, "no more moved than there was");
        let rest = self.len - moved;
        if rest > 0 {
            // SAFETY: the rest of the span is still this object's own mapping.
            let _ = unsafe { mm::munmap(self.at(moved, rest), rest) };
        }
        std::mem::forget(self);
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

/// Whether the page at an address can be written, as the kernel sees it; allocates its memory.
pub(crate) fn is_writable(address: usize) -> bool {
    let page = address & !4095;
    loop {
        // SAFETY: populating changes no contents, and asks for no page that is not mapped.
        match unsafe { mm::madvise(page as *mut c_void, 4096, Advice::LinuxPopulateWrite) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The mapping is for reading only; or it cannot be asked, before Linux 5.14. An empty
            // range is refused in the latter case alone.
            Err(Errno::INVAL) => {
                // SAFETY: nothing is populated.
                let known =
                    unsafe { mm::madvise(page as *mut c_void, 0, Advice::LinuxPopulateWrite) };
                return known.is_err();
            }
            other => return other.is_ok(),
        }
    }
}

/// Takes the write-protection off a range of a tracked area, or puts it on again. What fails may
/// have been done in part: to the mappings before the one that it failed at. These functions for
/// the fault handler allocate nothing and take no lock.
pub(crate) fn set_writable(at: usize, len: usize, writable: bool) -> Result<(), Errno> {
    debug_assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096));
    let access =
        if writable { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::READ };
    // SAFETY: the range consists of extents that the caller has claimed.
    unsafe { mm::mprotect(at as *mut c_void, len, access) }
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

/// Writes pages of a file by way of a mapping, for which no limit on lengths of files holds.
pub(crate) fn write_mapped(bytes: &[u8], file: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    let whole = bytes.len().is_multiple_of(4096) && offset.is_multiple_of(4096);
    strict_assert!(whole, "whole pages are written");
    let (access, len) = (ProtFlags::READ | ProtFlags::WRITE, bytes.len());
    // SAFETY: a mapping of its own, at an address that the kernel chooses; once it has been
    // populated it is as long as the bytes, and memory.
    unsafe {
        let at = mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, offset)?;
        let populated = populate(at, len, Advice::LinuxPopulateWrite);
        if populated.is_ok() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), len);
        }
        populated.and(mm::munmap(at, len))
    }
}

/// Maps a populated range of a file, of whole huge pages or as much as these, somewhere of its own.
/// `there`: all of it has memory already, in small pages. `NOSPC` when its file system is full.
pub(crate) fn scratch(
    len: usize,
    file: BorrowedFd<'_>,
    offset: u64,
    there: bool,
) -> Result<usize, Errno> {
    strict_assert!(len.is_multiple_of(SPAN_ALIGN), "smaller extents go another way");
    let at = map_aligned(len, file, offset)?;
    // What is there is mapped many pages at a time by reading, and as writable as the range is.
    let how = if there { Advice::LinuxPopulateRead } else { Advice::LinuxPopulateWrite };
    let populated = {
        // SAFETY: advice and population change no contents of this call's own range.
        unsafe {
            let at = at as *mut c_void;
            let _ = mm::madvise(at, len, Advice::LinuxHugepage);
            match populate(at, len, how) {
                Err(Errno::INVAL) => file::allocate(file, offset, len as u64),
                other => other,
            }
        }
        .map_err(|e| match e {
            Errno::FAULT | Errno::NOMEM | Errno::HWPOISON => Errno::NOSPC,
            e => e,
        })
    };
    if populated.is_err() {
        drop_scratch(at, len);
    }
    populated.map(|()| at)
}

/// For whom megabytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copier {
    /// For this thread, which is about to store there.
    Storing,
    /// For one on another processor.
    Ahead,
}

/// Copies megabytes that are in no cache. Async-signal-safe.
///
/// Stores past the cache spare the reading of what is overwritten, with the lines to be read asked
/// for ahead. On Intel's processors the string copy takes 1.7 times as long. On AMD's it takes
/// longer, too, but leaves the copy in the cache, where whoever waits for it stores next, which
/// makes up for that (docs/experiments.md, figure 9a).
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy_far(from: *const u8, to: *mut u8, len: usize, copier: Copier) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len, "the ranges do not overlap");
    #[cfg(target_arch = "x86_64")]
    {
        let intel = is_intel();
        let streams = (intel || copier == Copier::Ahead) && to.addr().is_multiple_of(LINE);
        let streamed = if streams { len / STREAM_STEP * STREAM_STEP } else { 0 };
        // SAFETY: the first part of the two ranges, whole steps; and what is left of them.
        unsafe {
            match intel {
                true => stream::<4>(from, to, streamed),
                false => stream::<2>(from, to, streamed),
            }
            copy_string(from.add(streamed), to.add(streamed), len - streamed);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise, whoever copies.
    unsafe {
        let _ = copier;
        std::ptr::copy_nonoverlapping(from, to, len)
    };
}

#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const STREAM_STEP: usize = 4 * LINE;
/// How far before the copy lines are asked for.
#[cfg(target_arch = "x86_64")]
const STREAM_AHEAD: usize = 1024;

/// Whether this is a processor of Intel's. Asking it leaves a virtual machine, so once only.
#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    const NO: usize = 1;
    const YES: usize = 2;
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let leaf = std::arch::x86_64::__cpuid(0);
            // The fault handler asks, too: nothing is allocated.
            let name = [*b"Genu", *b"ineI", *b"ntel"].map(u32::from_le_bytes);
            let intel = [leaf.ebx, leaf.edx, leaf.ecx] == name;
            KNOWN.store(if intel { YES } else { NO }, Ordering::Relaxed);
            intel
        }
        known => known == YES,
    }
}

/// Copies whole steps by stores past the cache, at so many places side by side: more than one keeps
/// more requests under way.
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`]; `to` is the begin of a line.
#[cfg(target_arch = "x86_64")]
unsafe fn stream<const LANES: usize>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
    };
    debug_assert!(len.is_multiple_of(STREAM_STEP));
    debug_assert!(len == 0 || to.addr().is_multiple_of(LINE));
    let lane_len = len / LANES;
    for at in (0..lane_len).step_by(LINE) {
        for lane in 0..LANES {
            let at = lane * lane_len + at;
            // SAFETY: a line of both ranges; asking for one ahead of them touches nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + STREAM_AHEAD).cast());
                let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
                (0..4).for_each(|i| _mm_stream_si128(to.add(i), line[i]));
            }
        }
    }
    // Whoever sees that the copy is finished sees the copy.
    // SAFETY: changes nothing; every processor of this kind has it.
    unsafe { _mm_sfence() };
}

/// The processor's own string copy.
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    if !std::arch::is_x86_feature_detected!("ermsb") {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
    // SAFETY: reads and writes exactly the two ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Maps a range of a file at a place for huge pages, or for a whole page table of small ones: where
/// the last one was, if that is free again. The kernel chooses such a place by itself for files
/// that can have huge pages. For others it takes four calls instead of one, each of which locks the
/// address space.
pub(super) fn map_aligned(len: usize, file: BorrowedFd<'_>, offset: u64) -> Result<usize, Errno> {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    let last = LAST.load(Ordering::Relaxed);
    let again = if last == 0 { MapFlags::empty() } else { MapFlags::FIXED_NOREPLACE };
    // SAFETY: a mapping at an address of the kernel's choice, or where nothing is mapped.
    let at = match unsafe { mm::mmap(last as *mut c_void, len, prot, flags | again, file, offset) }
    {
        Err(Errno::EXIST) => {
            // SAFETY: as above.
            unsafe { mm::mmap(null_mut(), len, prot, flags, file, offset) }?
        }
        other => other?,
    };
    if (at as usize).is_multiple_of(SPAN_ALIGN) {
        LAST.store(at as usize, Ordering::Relaxed);
        return Ok(at as usize);
    }
    // SAFETY: the mapping just made.
    let _ = unsafe { mm::munmap(at, len) };
    let at = reserve_anywhere(len)?.as_ptr().cast();
    // SAFETY: the range has just been reserved by this call.
    match unsafe { mm::mmap(at, len, prot, flags | MapFlags::FIXED, file, offset) } {
        Ok(_) => {
            LAST.store(at as usize, Ordering::Relaxed);
            Ok(at as usize)
        }
        Err(e) => {
            drop_scratch(at as usize, len);
            Err(e)
        }
    }
}

/// Ends a scratch mapping.
pub(crate) fn drop_scratch(at: usize, len: usize) {
    debug_assert!(at.is_multiple_of(SPAN_ALIGN));
    // SAFETY: made by `scratch`, and not moved away.
    let _ = unsafe { mm::munmap(at as *mut c_void, len) };
}

/// Moves a scratch mapping over an extent, page tables included.
pub(crate) fn move_over(scratch: usize, at: usize, len: usize) -> Result<(), Errno> {
    let (from, to) = (scratch as *mut c_void, at as *mut c_void);
    // SAFETY: both ranges belong to the caller: one made by `scratch`, one a claimed extent.
    unsafe { mm::mremap_fixed(from, len, len, MremapFlags::MAYMOVE, to) }.map(|_| ())
}

/// Maps a populated range of a file writable over an extent.
pub(crate) fn map_over(
    at: usize,
    len: usize,
    file: BorrowedFd<'_>,
    offset: u64,
) -> Result<(), Errno> {
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the range is an extent that the caller has claimed.
    unsafe { mm::mmap(at as *mut c_void, len, prot, flags, file, offset) }.map(|_| ())
}

/// Spares later faults in a range whose pages exist. By reading: the kernel maps many pages around
/// each then, and as writable as the range is at that moment. A step at a time, so that others who
/// change the address space get in between.
pub(crate) fn map_pages(at: usize, len: usize) {
    const STEP: usize = 256 << 10;
    debug_assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096));
    for start in (at..at + len).step_by(STEP) {
        let step = STEP.min(at + len - start);
        // SAFETY: populating changes no contents.
        let _ = unsafe { mm::madvise(start as *mut c_void, step, Advice::LinuxPopulateRead) };
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
    let slot = super::process::random_id() as usize % (room / align + 1);
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

fn reserve_anywhere(len: usize) -> Result<NonNull<u8>, Errno> {
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
    fn a_page_is_writable_when_its_mapping_is() {
        let (len, flags) = (4 * 4096, MapFlags::PRIVATE);
        // SAFETY: memory of this test's own, at an address of the kernel's choice.
        let at = unsafe {
            let at = mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ, flags).unwrap();
            let writable = MprotectFlags::READ | MprotectFlags::WRITE;
            mm::mprotect(at, 4096, writable).unwrap();
            mm::mprotect(at.byte_add(2 * 4096), 4096, MprotectFlags::empty()).unwrap();
            mm::munmap(at.byte_add(3 * 4096), 4096).unwrap();
            at as usize
        };
        let found: Vec<bool> = (0..4).map(|page| is_writable(at + page * 4096 + 7)).collect();
        assert_eq!(found, [true, false, false, false]);
        // SAFETY: the rest of it.
        unsafe { mm::munmap(at as *mut c_void, 3 * 4096).unwrap() };
    }

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
    fn far_copies_are_exact() {
        let from: Vec<u8> = (0..3 << 20).map(|i: u32| (i ^ i >> 11) as u8).collect();
        let parts = [(0, 0), (1, 1), (7, 4096), (4096, 2 << 20), (13, (3 << 20) - 13)];
        for ((start, len), copier) in
            parts.into_iter().flat_map(|part| [Copier::Storing, Copier::Ahead].map(|c| (part, c)))
        {
            for beside in [0, 1] {
                let mut to = vec![0x55u8; len + 129];
                // The begin of a line, or not.
                let at = to.as_ptr().align_offset(64) + beside;
                // SAFETY: both ranges lie in their vectors.
                unsafe {
                    copy_far(from.as_ptr().add(start), to.as_mut_ptr().add(at), len, copier);
                }
                let (before, rest) = to.split_at(at);
                let (copy, after) = rest.split_at(len);
                assert_eq!(copy, &from[start..start + len], "{start} {len} {copier:?} {beside}");
                assert!(before.iter().chain(after).all(|byte| *byte == 0x55), "nothing else");
            }
        }
    }

    #[test]
    fn a_part_is_mapped_and_the_rest_reserved_or_nothing_is() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"shown", SPAN_ALIGN as u64).unwrap();
        file.set_len(4 * SPAN_ALIGN as u64).unwrap();
        let len = 3 * SPAN_ALIGN;
        let whole = SPAN_ALIGN..2 * SPAN_ALIGN;
        let ends = [SPAN_ALIGN, 2 * SPAN_ALIGN];
        for part in [whole, 0..ends[0], ends[1]..len, 0..len] {
            let at = random_place(len, SPAN_ALIGN).unwrap();
            let around = |part: &Range<usize>| {
                Span::reserve_around(len, at, part.clone(), &file, SPAN_ALIGN as u64)
            };
            let span = around(&part).unwrap();
            assert_eq!((span.base().as_ptr() as usize, span.len()), (at, len));
            // SAFETY: mapped, and nobody writes it.
            let shown = unsafe { std::slice::from_raw_parts((at + part.start) as *const u8, 5) };
            assert_eq!(shown, b"shown");
            for taken in [0..SPAN_ALIGN, SPAN_ALIGN..ends[1], ends[1]..len] {
                assert!(reserve_exactly(at + taken.start, taken.len()).is_err(), "reserved");
            }
            drop(span);
            // Wherever something is, nothing is left behind.
            for taken in [0..SPAN_ALIGN, SPAN_ALIGN..ends[1], ends[1]..len] {
                let base = reserve_exactly(at + taken.start, taken.len()).unwrap();
                let other = Span { base, len: taken.len() };
                assert_eq!(around(&part).err(), Some(Errno::EXIST));
                drop(other);
                drop(Span { base: reserve_exactly(at, len).unwrap(), len });
            }
        }
    }

    #[test]
    fn reserve_anywhere_is_aligned() {
        let base = reserve_anywhere(3 * SPAN_ALIGN).unwrap();
        assert_eq!(base.as_ptr() as usize % SPAN_ALIGN, 0);
        drop(Span { base, len: 3 * SPAN_ALIGN });
    }
}
