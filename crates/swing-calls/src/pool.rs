//! Scratch buffers of one size, which calls use in place of buffers in areas; kept for the next
//! call.
//!
//! **Concurrency.** Taking and giving are single atomic operations on a fixed table: any thread,
//! any signal handler, no lock. A scratch buffer belongs to one caller from [`take`] to [`give`].
//! **Fork.** The child has copies of its own. **Limits.** [`KEPT`] buffers are kept; only the parts
//! that were stored to have memory.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of a scratch buffer: the longest buffer that is replaced. Datagrams are always shorter.
pub(crate) const SCRATCH_BYTES: usize = 1 << 20;
const KEPT: usize = 8;

static SCRATCH: [AtomicPtr<u8>; KEPT] = [const { AtomicPtr::new(null_mut()) }; KEPT];

/// A scratch buffer of [`SCRATCH_BYTES`] bytes, page-aligned; null when the kernel has no memory.
/// Changes `errno`.
pub(crate) fn take() -> *mut u8 {
    for kept in &SCRATCH {
        if kept.load(Ordering::Relaxed).is_null() {
            continue;
        }
        let scratch = kept.swap(null_mut(), Ordering::Acquire);
        if !scratch.is_null() {
            return scratch;
        }
    }
    map(SCRATCH_BYTES)
}

/// Only what is stored to takes memory.
fn map(len: usize) -> *mut u8 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping of its own, at an address that the kernel chooses.
    let scratch = unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) };
    if scratch == libc::MAP_FAILED { null_mut() } else { scratch.cast() }
}

/// As [`map`], of what will be stored to from one end to the other: in huge pages, where there are
/// such, the kernel does not have to come for each small one.
fn map_long(len: usize) -> *mut u8 {
    let scratch = map(len);
    if !scratch.is_null() {
        // SAFETY: the mapping just made; an advice changes no contents. Without it all works, too.
        unsafe { libc::madvise(scratch.cast(), len, libc::MADV_HUGEPAGE) };
    }
    scratch
}

fn unmap(scratch: *mut u8, len: usize) {
    // SAFETY: mapped with this length; nobody uses it any more.
    let done = unsafe { libc::munmap(scratch.cast(), len) };
    debug_assert_eq!(done, 0, "a scratch buffer is a mapping");
}

/// Memory for one call, of any length; above [`SCRATCH_BYTES`] it is a mapping of its own. It has
/// no destructor, so that a cancelled thread can unwind over it.
pub(crate) struct Scratch {
    at: *mut u8,
    /// Bytes of its own mapping; 0: it is from [`take`].
    own: usize,
}

impl Scratch {
    /// `None` when the kernel has no memory. Changes `errno`.
    pub(crate) fn of(len: usize) -> Option<Self> {
        let own = if len > SCRATCH_BYTES { len } else { 0 };
        let at = if own > 0 { map_long(own) } else { take() };
        (!at.is_null()).then_some(Self { at, own })
    }

    pub(crate) fn at(&self) -> *mut u8 {
        self.at
    }

    /// Changes `errno`.
    pub(crate) fn give_back(self) {
        match self.own {
            0 => give(self.at),
            len => unmap(self.at, len),
        }
    }
}

/// Gives a scratch buffer back that [`take`] gave; changes `errno`.
pub(crate) fn give(scratch: *mut u8) {
    strict_assert!(
        !scratch.is_null() && scratch.addr().is_multiple_of(4096),
        "a scratch buffer from `take`"
    );
    for kept in &SCRATCH {
        debug_assert_ne!(
            kept.load(Ordering::Relaxed),
            scratch,
            "a scratch buffer is given back once"
        );
        let (free, put) = (null_mut(), Ordering::Release);
        if kept.compare_exchange(free, scratch, put, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    unmap(scratch, SCRATCH_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_room_has_one_owner_at_a_time() {
        std::thread::scope(|scope| {
            for id in 1..=6_u8 {
                scope.spawn(move || {
                    for round in 0..2000_usize {
                        let buffers: Vec<_> = (0..round % 4 + 1).map(|_| take()).collect();
                        for scratch in &buffers {
                            assert!(!scratch.is_null());
                            // SAFETY: the scratch buffer is this thread's.
                            unsafe {
                                scratch.write(id);
                                scratch.add(SCRATCH_BYTES - 1).write(id);
                            }
                        }
                        std::thread::yield_now();
                        for scratch in buffers {
                            // SAFETY: as above.
                            unsafe {
                                assert_eq!(
                                    (scratch.read(), scratch.add(SCRATCH_BYTES - 1).read()),
                                    (id, id)
                                );
                            }
                            give(scratch);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn more_rooms_than_are_kept_come_and_go() {
        let buffers: HashSet<_> = (0..3 * KEPT).map(|_| take()).collect();
        assert_eq!(buffers.len(), 3 * KEPT, "no scratch buffer has two owners");
        buffers.into_iter().for_each(give);
    }
}
