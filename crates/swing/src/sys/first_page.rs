//! The first page of a file, stored to in place.
//!
//! A reader of the file that waits for its first word finds all that was stored before that.
//!
//! **Fork.** A child has no copy of the mapping.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::sys::addresses;

/// Its length.
pub(crate) const PAGE_BYTES: usize = 4096;
/// The length of the first word.
pub(crate) const WORD_BYTES: usize = 8;

/// Where the last word lies.
pub(crate) const LAST_WORD: usize = PAGE_BYTES - WORD_BYTES;

/// A mapped page; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Page {
    at: NonNull<u8>,
}

// SAFETY: an address that only this object knows.
unsafe impl Send for Page {}

impl Page {
    /// Maps the page, which the file has already, memory included.
    pub(crate) fn map(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let at = unsafe { mm::mmap(null_mut(), PAGE_BYTES, access, MapFlags::SHARED, file, 0)? };
        let page = Self { at: NonNull::new(at.cast()).ok_or(Errno::NOMEM)? };
        // SAFETY: the mapping made above.
        unsafe {
            addresses::populate(at, PAGE_BYTES, Advice::LinuxPopulateWrite)?;
            mm::madvise(at, PAGE_BYTES, Advice::LinuxDontFork)?;
        }
        Ok(page)
    }

    /// Stores all but the first word of `bytes`, as far as they lie in the page.
    pub(crate) fn store_rest(&self, bytes: &[u8]) {
        let here = &bytes[WORD_BYTES..bytes.len().min(PAGE_BYTES)];
        // SAFETY: a range of the page. Nobody in this process reads it, and who reads the file
        // makes nothing of it before the first word says so.
        unsafe {
            let to = self.at.as_ptr().add(WORD_BYTES);
            std::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len());
        }
    }

    /// Stores the last word; the first one is stored later.
    pub(crate) fn store_last(&self, word: [u8; WORD_BYTES]) {
        // SAFETY: as in `store_rest`.
        unsafe {
            let to = self.at.as_ptr().add(LAST_WORD);
            std::ptr::copy_nonoverlapping(word.as_ptr(), to, word.len());
        }
    }

    /// Stores the first word, after all that was stored before.
    pub(crate) fn store_word(&self, word: [u8; WORD_BYTES]) {
        // SAFETY: the page is aligned, lives as long as this object, and nobody in this process
        // accesses its first word otherwise.
        let first = unsafe { AtomicU64::from_ptr(self.at.as_ptr().cast()) };
        first.store(u64::from_ne_bytes(word), Ordering::Release);
    }

    /// In a forked child, which has not got the mapping.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping that this object owns; nothing refers to it any more.
        let gone = unsafe { mm::munmap(self.at.as_ptr().cast(), PAGE_BYTES) };
        debug_assert!(gone.is_ok(), "one mapping of its own");
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let page = Page::map(file.as_fd()).unwrap();
        let long: Vec<u8> = (0..2 * PAGE_BYTES).map(|i| i as u8).collect();
        for len in [WORD_BYTES, WORD_BYTES + 1, PAGE_BYTES, PAGE_BYTES + 1, 2 * PAGE_BYTES] {
            page.store_rest(&long[..len]);
            let mut read = [1; PAGE_BYTES];
            file.read_exact_at(&mut read, 0).unwrap();
            assert_eq!(read[..WORD_BYTES], [0; WORD_BYTES]);
            let end = len.min(PAGE_BYTES);
            assert_eq!(read[WORD_BYTES..end], long[WORD_BYTES..end]);
        }
        page.store_last(*b"the last");
        page.store_word(*b"complete");
        drop(page);
        for (at, expected) in [(0, b"complete"), (LAST_WORD as u64, b"the last")] {
            let mut word = [0; WORD_BYTES];
            file.read_exact_at(&mut word, at).unwrap();
            assert_eq!(&word, expected);
        }
    }
}
