//! A lock on a file that a forked child does not have.
//!
//! The kernel gives a `flock` up with the last reference to the open file that has it. A child that
//! a program forks inherits the descriptor, and would hold the lock as long as it lives. A mapping
//! is a reference too, and one that a child need not get: so the locked file is mapped, without
//! access and not for children, and its descriptor closed. Overlay file systems map another file
//! than was opened; there the descriptor stays.

use std::fs::File;
use std::ptr::null_mut;

use rustix::fs::FlockOperation;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::process::ProcessMark;

/// What is mapped.
const LEN: usize = 4096;

/// A held lock; given up when dropped.
#[derive(Debug)]
pub(crate) enum HeldLock {
    /// By a mapping at this address, of this process.
    Mapped(usize, ProcessMark),
    /// By a descriptor.
    Open(#[allow(dead_code, reason = "held for its drop")] File),
}

impl HeldLock {
    /// Holds the exclusive lock that `file` has; `again` opens the same file.
    pub(crate) fn of(file: File, again: impl FnOnce() -> Option<File>) -> Self {
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let mapped = unsafe {
            rustix::mm::mmap(null_mut(), LEN, ProtFlags::empty(), MapFlags::SHARED, &file, 0)
        };
        let Ok(address) = mapped else { return HeldLock::Open(file) };
        let mapping = HeldLock::Mapped(address as usize, ProcessMark::current());
        // SAFETY: the mapping was just made, and nobody else knows it.
        let private = unsafe { rustix::mm::madvise(address, LEN, Advice::LinuxDontFork) };
        let Some(other) = again().filter(|_| private.is_ok()) else {
            return HeldLock::Open(file);
        };
        drop(file);
        match rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive) {
            // The mapping does not hold it. Nobody had a chance to take it that is not told so.
            Ok(()) => HeldLock::Open(other),
            Err(_) => mapping,
        }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A forked child has nothing there, or something of its own.
        if let HeldLock::Mapped(address, mark) = *self
            && !mark.is_stale()
        {
            // SAFETY: the mapping was made by `of`, in this process, and is unmapped once.
            let _ = unsafe { rustix::mm::munmap(address as *mut _, LEN) };
        }
    }
}
