//! A lock on a file that a forked child does not have.
//!
//! The kernel gives a `flock` up with the last reference to the open file that has it. A child that
//! a program forks inherits the descriptor, and would hold the lock as long as it lives. A mapping
//! is a reference too, and one that a child need not get: so the locked file is mapped, without
//! access and not for children, and its descriptor closed. Overlay file systems map another file
//! than was opened; there the descriptor stays.
//!
//! A shared lock is also the children's, who go on reading. So its descriptor stays, beside a
//! mapping for this process: the program may close descriptors that it did not open.
//!
//! Between the lock and the closing of its descriptor, forks wait ([`Taking`]).

use std::fs::File;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::disk::gate::Gate;
use crate::io::file::{LockNote, LockState};
use crate::io::kept::KeptFile;
use crate::process::ProcessMark;

/// What is mapped.
const LEN: usize = 4096;
/// `OVERLAYFS_SUPER_MAGIC`.
const OVERLAY: i128 = 0x794c_7630;

/// A mapping of a locked file, not for children.
#[derive(Debug)]
struct Mapped(usize, ProcessMark);

impl Mapped {
    fn new(file: &File) -> Option<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let mapped = unsafe {
            rustix::mm::mmap(null_mut(), LEN, ProtFlags::empty(), MapFlags::SHARED, file, 0)
        };
        let address = mapped.ok()?;
        let mapping = Mapped(address as usize, ProcessMark::current());
        // SAFETY: the mapping was just made, and nobody else knows it.
        unsafe { rustix::mm::madvise(address, LEN, Advice::LinuxDontFork) }.ok()?;
        Some(mapping)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A forked child has nothing there, or something of its own.
        if !self.1.is_stale() {
            // SAFETY: the mapping was made by `new`, in this process, and is unmapped once.
            let _ = unsafe { rustix::mm::munmap(self.0 as *mut _, LEN) };
        }
    }
}

/// A held lock; given up when dropped.
#[derive(Debug)]
pub(crate) struct HeldLock {
    mapped: Option<Mapped>,
    open: Option<Arc<KeptFile>>,
    mark: ProcessMark,
    /// That the directory knows of it.
    note: Option<LockNote>,
}

impl HeldLock {
    fn new(mapped: Option<Mapped>, open: Option<File>) -> Self {
        let open = open.map(|file| Arc::new(KeptFile::new(file, None)));
        HeldLock { mapped, open, mark: ProcessMark::current(), note: None }
    }

    /// Holds the shared lock that `file` has.
    pub(crate) fn shared(file: File) -> Self {
        // Others may have the lock, too, so whether a mapping holds it cannot be tried here.
        let is_overlay =
            rustix::fs::fstatfs(&file).is_ok_and(|fs| i128::from(fs.f_type) == OVERLAY);
        let mapped = Mapped::new(&file).filter(|_| !is_overlay);
        Self::new(mapped, Some(file))
    }

    /// Holds the exclusive lock that `file` has; `again` opens the same file.
    pub(crate) fn exclusive(file: File, again: impl FnOnce() -> Option<File>) -> Self {
        let Some(mapped) = Mapped::new(&file) else { return Self::new(None, Some(file)) };
        let Some(other) = again() else { return Self::new(None, Some(file)) };
        drop(file);
        match rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive) {
            // The mapping does not hold it. Nobody had a chance to take it that is not told so.
            Ok(()) => Self::new(None, Some(other)),
            Err(_) => Self::new(Some(mapped), None),
        }
    }

    /// Tells those who change files how the lock is held: by a mapping it stays, whatever happens
    /// to descriptors.
    pub(crate) fn tell(&mut self, state: &Arc<LockState>) {
        self.note = Some(state.note(self.mapped.is_some(), self.open.as_ref()));
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // First: when others may write, no lost file is opened again.
        drop(self.note.take());
        // Also for the children that have inherited the descriptor.
        let ours = self.open.as_ref().filter(|_| !self.mark.is_stale());
        if let Some(file) = ours.and_then(|file| file.here(false)) {
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
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
