//! Calls about the mapping of one extent, by its address: for the fault handler, and for whoever
//! copies beside it.
//!
//! They allocate nothing and take no lock, so all of them are async-signal-safe. The caller has
//! claimed the extent.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use crate::sys::addresses::{SPAN_ALIGN, populate, reserve_anywhere};
use crate::sys::file;
use crate::sys::strict::strict_assert;

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

/// Maps a populated range of a file over an extent.
pub(crate) fn map_over(
    at: usize,
    len: usize,
    file: BorrowedFd<'_>,
    offset: u64,
    writable: bool,
) -> Result<(), Errno> {
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
    let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
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
}
