//! Memory that calls use in place of buffers in areas: rooms of one size, kept for the next call.
//!
//! **Concurrency.** Taking and giving are single atomic operations on a fixed table: any thread,
//! any signal handler, no lock. A room belongs to one caller from [`take`] to [`give`]. **fork.**
//! The child has copies of its own. **Limits.** [`KEPT`] rooms are kept, of which only what was
//! stored to has memory.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The bytes of a room: the longest buffer that is replaced at once; the longest datagrams are
/// shorter.
pub(crate) const ROOM: usize = 1 << 20;
const KEPT: usize = 8;

static ROOMS: [AtomicPtr<u8>; KEPT] = [const { AtomicPtr::new(null_mut()) }; KEPT];

/// A room of [`ROOM`] bytes at the begin of a page; null when the kernel has none. Changes `errno`.
pub(crate) fn take() -> *mut u8 {
    for kept in &ROOMS {
        if kept.load(Ordering::Relaxed).is_null() {
            continue;
        }
        let room = kept.swap(null_mut(), Ordering::Acquire);
        if !room.is_null() {
            return room;
        }
    }
    map(ROOM)
}

/// Only what is stored to takes memory.
fn map(len: usize) -> *mut u8 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping of its own, at an address that the kernel chooses.
    let room = unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) };
    if room == libc::MAP_FAILED { null_mut() } else { room.cast() }
}

/// As [`map`], of what will be stored to from one end to the other: in huge pages, where there are
/// such, the kernel does not have to come for each small one.
fn map_long(len: usize) -> *mut u8 {
    let room = map(len);
    if !room.is_null() {
        // SAFETY: the mapping just made; an advice changes no contents. Without it all works, too.
        unsafe { libc::madvise(room.cast(), len, libc::MADV_HUGEPAGE) };
    }
    room
}

fn unmap(room: *mut u8, len: usize) {
    // SAFETY: mapped with this length; nobody uses it any more.
    let done = unsafe { libc::munmap(room.cast(), len) };
    debug_assert_eq!(done, 0, "a room is a mapping");
}

/// Memory for one call, however long; what is longer than [`ROOM`] is a mapping of its own. It has
/// no destructor, so that a cancelled thread can unwind over it.
pub(crate) struct Room {
    at: *mut u8,
    /// 0: from [`take`].
    own: usize,
}

impl Room {
    /// `None` when the kernel has no memory. Changes `errno`.
    pub(crate) fn of(len: usize) -> Option<Self> {
        let own = if len > ROOM { len } else { 0 };
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

/// Gives a room back that [`take`] gave; changes `errno`.
pub(crate) fn give(room: *mut u8) {
    strict_assert!(!room.is_null() && room.addr().is_multiple_of(4096), "a room from `take`");
    for kept in &ROOMS {
        debug_assert_ne!(kept.load(Ordering::Relaxed), room, "a room is given back once");
        let (free, put) = (null_mut(), Ordering::Release);
        if kept.compare_exchange(free, room, put, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    unmap(room, ROOM);
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
                        let rooms: Vec<_> = (0..round % 4 + 1).map(|_| take()).collect();
                        for room in &rooms {
                            assert!(!room.is_null());
                            // SAFETY: the room is this thread's.
                            unsafe {
                                room.write(id);
                                room.add(ROOM - 1).write(id);
                            }
                        }
                        std::thread::yield_now();
                        for room in rooms {
                            // SAFETY: as above.
                            unsafe {
                                assert_eq!((room.read(), room.add(ROOM - 1).read()), (id, id));
                            }
                            give(room);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn more_rooms_than_are_kept_come_and_go() {
        let rooms: HashSet<_> = (0..3 * KEPT).map(|_| take()).collect();
        assert_eq!(rooms.len(), 3 * KEPT, "no room has two owners");
        rooms.into_iter().for_each(give);
    }
}
