//! Making new versions of extents: filled where nobody sees them, and then shown in place of the
//! old ones in one step.
//!
//! All who make a version do it here: the write barrier, a trapped store, copying ahead, and a
//! publish that joins runs. They differ in who claims the extents, and in what the words say
//! afterwards; that is theirs.
//!
//! Memory is allocated before anybody may store into it (INV-AREA-9), so a full file system is an
//! error (`NOSPC`) and not a SIGBUS at some later store. Readers of the range find the same bytes
//! all the time.
//!
//! **Concurrency.** The caller has claimed the extents. Only system calls: nothing is allocated, no
//! lock is taken, so a trapped store may do all of it.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::sys::copy_bytes::{self, CopyFor};
use crate::sys::kept_file::KeptFile;
use crate::sys::{extent_mapping, file};

/// How much is copied through one scratch mapping, where many extents are made at once.
pub(crate) const COPY_STEP: u64 = 32 << 20;

/// Neighbouring extents of one length, and where in a file their new versions lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The address of the first.
    pub at: usize,
    pub len: usize,
    pub file: &'a KeptFile,
    pub offset: u64,
    /// There is memory already, with old bytes in it.
    pub spare: bool,
}

/// What a new version holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The bytes that the address shows now.
    Copied(CopyFor),
    Zeros,
    /// Whatever: the caller overwrites all of it.
    Unspecified,
}

/// The way of filling a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through a scratch mapping of whole huge pages, which moves over the old version. Writing the
    /// file would give small pages. `small_pages`: the file cannot have huge ones.
    Mapping { small_pages: bool },
    /// By writing the file, which spares the kernel filling new pages with zeros, and takes no lock
    /// of the address space.
    File,
}

/// A version that nobody sees yet.
#[derive(Debug)]
pub(crate) enum Made {
    /// Mapped at this address.
    Scratch(usize),
    /// In the file only.
    InFile,
}

/// Makes new versions.
///
/// # Safety
/// For [`Contents::Copied`] the range is mapped readable, and nobody stores there: it is frozen,
/// and claimed by the caller.
pub(crate) unsafe fn make(
    target: &Target<'_>,
    contents: Contents,
    route: Route,
) -> Result<Made, Errno> {
    let Route::Mapping { small_pages } = route else {
        // SAFETY: the caller's promise.
        return unsafe { write_file(target, contents) }.map(|()| Made::InFile);
    };
    let Target { at, len, file, offset, spare } = *target;
    let there = spare && small_pages;
    let scratch = extent_mapping::scratch(len, file.here()?.as_fd(), offset, there)?;
    // SAFETY: the scratch range is this call's own, writable and populated; the old version is the
    // caller's promise.
    unsafe {
        match contents {
            Contents::Copied(reader) => {
                copy_bytes::copy_far(at as *const u8, scratch as *mut u8, len, reader);
            }
            Contents::Zeros if spare => std::ptr::write_bytes(scratch as *mut u8, 0, len),
            // Fresh memory reads as zeros.
            Contents::Zeros | Contents::Unspecified => {}
        }
    }
    Ok(Made::Scratch(scratch))
}

/// Fills the file's range.
///
/// # Safety
/// As of [`make`].
unsafe fn write_file(target: &Target<'_>, contents: Contents) -> Result<(), Errno> {
    let Target { at, len, file, offset, spare } = *target;
    let len64 = len as u64;
    if !matches!(contents, Contents::Copied(_)) {
        if spare && contents == Contents::Zeros {
            file::punch_quietly(file.here()?.as_fd(), offset, len64)?;
        }
        return file::allocate(file.here()?.as_fd(), offset, len64).map_err(memory_is_full);
    }
    // SAFETY: the caller's promise.
    let old = unsafe { std::slice::from_raw_parts(at as *const u8, len) };
    if !file::may_reach(offset + len64) {
        return extent_mapping::write_mapped(old, file.here()?.as_fd(), offset)
            .map_err(memory_is_full);
    }
    let mut done = 0;
    while done < len {
        match rustix::io::pwrite(file.here()?, &old[done..], offset + done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(memory_is_full(e)),
        }
    }
    Ok(())
}

/// Shows finished versions in place of the old ones, in one step. Where it fails the old ones are
/// shown as before.
pub(crate) fn place(target: &Target<'_>, made: &Made, writable: bool) -> Result<(), Errno> {
    let Target { at, len, file, offset, .. } = *target;
    match made {
        Made::Scratch(scratch) => {
            if !writable {
                extent_mapping::set_writable(*scratch, len, false)?;
            }
            extent_mapping::move_over(*scratch, at, len)
        }
        Made::InFile => extent_mapping::map_over(at, len, file.here()?.as_fd(), offset, writable),
    }
}

/// Ends the scratch mapping of a version that is in the file as well.
pub(crate) fn leave_in_file(target: &Target<'_>, made: Made) -> Made {
    if let Made::Scratch(scratch) = made {
        extent_mapping::drop_scratch(scratch, target.len);
    }
    Made::InFile
}

/// Drops versions that will not be used, or could not be finished: memory that they took must not
/// stay.
pub(crate) fn discard(target: &Target<'_>, made: Option<Made>) {
    if let Some(made) = made {
        leave_in_file(target, made);
    }
    if !target.spare {
        let punch = |f: crate::sys::kept_file::Here<'_>| {
            file::punch_quietly(f.as_fd(), target.offset, target.len as u64)
        };
        let _ = target.file.here().and_then(punch);
    }
}

/// A file system reports a lack of memory in several ways.
fn memory_is_full(e: Errno) -> Errno {
    match e {
        Errno::FAULT | Errno::NOSPC | Errno::NOMEM | Errno::HWPOISON | Errno::DQUOT => Errno::NOSPC,
        e => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::addresses::{SPAN_ALIGN, Span};
    use crate::sys::kept_file::Access;

    const LEN: usize = SPAN_ALIGN;

    /// A span whose begin shows the first part of a file of two parts; the byte of the second.
    fn shown(old: u8, spare: Option<u8>) -> (Span, KeptFile) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file::write_all(&file, &vec![old; LEN], std::path::Path::new("")).unwrap();
        file.set_len(2 * LEN as u64).unwrap();
        if let Some(byte) = spare {
            file::write_at(&file, &vec![byte; LEN], LEN as u64, std::path::Path::new("")).unwrap();
        }
        let file = KeptFile::new(file, Access::Write).unwrap();
        let span = Span::reserve(LEN, None).unwrap();
        span.map(0, LEN, file.here().unwrap(), 0, false).unwrap();
        (span, file)
    }

    /// Each contents by each route, into memory that is there and into new memory: what is shown,
    /// and whether it may be written, is the same whichever way it was made.
    #[test]
    fn all_ways_show_the_same() {
        let copied = Contents::Copied(CopyFor::Storing);
        let routes = [
            Route::File,
            Route::Mapping { small_pages: false },
            Route::Mapping { small_pages: true },
        ];
        for route in routes {
            for (contents, expected) in
                [(copied, Some(7)), (Contents::Zeros, Some(0)), (Contents::Unspecified, None)]
            {
                for spare in [None, Some(9)] {
                    for writable in [false, true] {
                        let (span, file) = shown(7, spare);
                        let at = span.base().as_ptr() as usize;
                        let spare = spare.is_some();
                        let target =
                            Target { at, len: LEN, file: &file, offset: LEN as u64, spare };
                        // SAFETY: mapped above, and nobody else uses it.
                        let made = unsafe { make(&target, contents, route) }.unwrap();
                        // SAFETY: the old version, until the new one is shown.
                        assert_eq!(unsafe { (at as *const u8).read_volatile() }, 7);
                        place(&target, &made, writable).unwrap();
                        // SAFETY: the new version.
                        let seen = unsafe { std::slice::from_raw_parts(at as *const u8, LEN) };
                        if let Some(byte) = expected {
                            assert!(seen.iter().all(|b| *b == byte), "{contents:?} {route:?}");
                        }
                        assert_eq!(extent_mapping::is_writable(at), writable, "{route:?}");
                        let facts = file::facts(file.here().unwrap(), std::path::Path::new(""));
                        assert!(facts.unwrap().allocated >= 2 * LEN as u64, "all has memory");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_used_takes_no_memory_and_what_was_spare_stays() {
        for route in [Route::File, Route::Mapping { small_pages: false }] {
            for spare in [None, Some(9)] {
                let (span, file) = shown(7, spare);
                let at = span.base().as_ptr() as usize;
                let spare = spare.is_some();
                let target = Target { at, len: LEN, file: &file, offset: LEN as u64, spare };
                // SAFETY: mapped above, and nobody else uses it.
                let made = unsafe { make(&target, Contents::Copied(CopyFor::Ahead), route) };
                discard(&target, made.ok());
                let facts = file::facts(file.here().unwrap(), std::path::Path::new("")).unwrap();
                let parts = if spare { 2 } else { 1 };
                assert_eq!(facts.allocated, parts * LEN as u64, "{route:?} {spare}");
                // SAFETY: the old version is shown still.
                assert_eq!(unsafe { (at as *const u8).read_volatile() }, 7);
            }
        }
    }
}
