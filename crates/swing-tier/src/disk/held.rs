//! A lock on a file that a forked child does not have.
//!
//! The kernel gives a `flock` up with the last reference to the open file that has it. A child that
//! a program forks inherits the descriptor, and would hold the lock as long as it lives. A mapping
//! is a reference too, and one that a child need not get: so the locked file is mapped, without
//! access and not for children, and its descriptor closed. Overlay file systems map another file
//! than was opened; there the descriptor stays, as it does for a lock that is shared.
//!
//! Between the lock and the closing of its descriptor, forks wait ([`Taking`]).

use std::fs::File;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::disk::gate::Gate;
use crate::process::ProcessMark;

/// What is mapped.
const LEN: usize = 4096;

/// A held lock; given up when dropped.
#[derive(Debug)]
pub(crate) enum HeldLock {
    /// By a mapping at this address, of this process.
    Mapped(usize, ProcessMark),
    /// By a descriptor, opened by this process.
    Open(File, ProcessMark),
}

impl HeldLock {
    /// Holds the shared lock that `file` has.
    pub(crate) fn shared(file: File) -> Self {
        HeldLock::Open(file, ProcessMark::current())
    }

    /// Holds the exclusive lock that `file` has; `again` opens the same file.
    pub(crate) fn exclusive(file: File, again: impl FnOnce() -> Option<File>) -> Self {
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let mapped = unsafe {
            rustix::mm::mmap(null_mut(), LEN, ProtFlags::empty(), MapFlags::SHARED, &file, 0)
        };
        let mark = ProcessMark::current();
        let Ok(address) = mapped else { return HeldLock::Open(file, mark) };
        let mapping = HeldLock::Mapped(address as usize, mark);
        // SAFETY: the mapping was just made, and nobody else knows it.
        let private = unsafe { rustix::mm::madvise(address, LEN, Advice::LinuxDontFork) };
        let Some(other) = again().filter(|_| private.is_ok()) else {
            return HeldLock::Open(file, mark);
        };
        drop(file);
        match rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive) {
            // The mapping does not hold it. Nobody had a chance to take it that is not told so.
            Ok(()) => HeldLock::Open(other, mark),
            Err(_) => mapping,
        }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        match self {
            // A forked child has nothing there, or something of its own.
            HeldLock::Mapped(address, mark) if !mark.is_stale() => {
                // SAFETY: the mapping was made by `exclusive`, in this process, and is unmapped
                // once.
                let _ = unsafe { rustix::mm::munmap(*address as *mut _, LEN) };
            }
            // Also for the children that have inherited the descriptor.
            HeldLock::Open(file, mark) if !mark.is_stale() => {
                let _ = rustix::fs::flock(&*file, FlockOperation::Unlock);
            }
            HeldLock::Mapped(..) | HeldLock::Open(..) => {}
        }
    }
}

#[cfg(not(loom))]
static GATE: Gate = Gate::new();
#[cfg(loom)]
loom::lazy_static! {
    static ref GATE: Gate = Gate::new();
}

/// How long a fork waits for locks that are being taken; then it goes on.
const FORK_WAITS: Duration = Duration::from_secs(1);

/// While this lives, forks wait: no child inherits the descriptor of a lock that is being taken.
/// Programs that are started instead of forked close it by themselves.
#[derive(Debug)]
pub(crate) struct Taking(ProcessMark);

impl Taking {
    pub(crate) fn begin() -> Self {
        static REGISTERED: AtomicBool = AtomicBool::new(false);
        if !REGISTERED.swap(true, Ordering::AcqRel) {
            // SAFETY: the three functions only use atomics and sleep.
            unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        }
        GATE.begin_taking();
        Taking(ProcessMark::current())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if !self.0.is_stale() {
            GATE.end_taking();
        }
    }
}

unsafe extern "C" fn before_fork() {
    let start = Instant::now();
    GATE.begin_fork(|| start.elapsed() >= FORK_WAITS);
}

unsafe extern "C" fn in_parent() {
    GATE.end_fork();
}

unsafe extern "C" fn in_child() {
    GATE.begin_in_child();
}
