//! Waiting for many things: `poll`, `select`, `epoll`.

use libc::*;
use swing::tracked::prepare;

use super::room::Room;
use super::{called_by, calls, in_heap, insist, own};

/// Events that one call brings by way of the stack; the others stay ready.
const EVENTS: usize = 256;

calls! {
    poll(polls: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>().saturating_mul(count as usize));
    }
    __poll_chk(polls: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>().saturating_mul(count as usize));
    }
    ppoll(
        polls: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>().saturating_mul(count as usize));
    }
    __ppoll_chk(
        polls: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t
    ) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>().saturating_mul(count as usize));
    }
}

/// Calls with three sets of descriptors by way of the stack. Sets of more than 1024, which some
/// programs make, stay where they are.
///
/// # Safety
/// Each is null or a set for descriptors below `count`.
unsafe fn with_sets(
    count: c_int,
    sets: [*mut fd_set; 3],
    mut call: impl FnMut([*mut fd_set; 3]) -> c_int,
) -> c_int {
    let len = (count.max(0) as usize).div_ceil(64) * 8;
    // SAFETY: the caller's promise.
    let rooms = sets.map(|set| unsafe { Room::with_len(set, len) });
    let result = insist(|| {
        for (set, room) in sets.iter().zip(&rooms) {
            if room.is_direct() {
                prepare(set.cast(), len);
            }
        }
        call([rooms[0].at(), rooms[1].at(), rooms[2].at()])
    });
    // SAFETY: the caller's promise.
    rooms.iter().for_each(|room| unsafe { room.bring() });
    result
}

/// Waits with its sets outside of the heap; the rest of the time is stored by the C library itself.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let next = own!(select(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int);
    // SAFETY: as the function asks for.
    unsafe {
        let time = Room::new(timeout);
        let result =
            with_sets(count, [read, write, except], |[r, w, e]| next(count, r, w, e, time.at()));
        time.bring();
        result
    }
}

/// As [`select`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let next = own!(
        pselect(
            c_int,
            *mut fd_set,
            *mut fd_set,
            *mut fd_set,
            *const timespec,
            *const sigset_t,
        ) -> c_int
    );
    // SAFETY: as the function asks for.
    unsafe {
        with_sets(count, [read, write, except], |[r, w, e]| next(count, r, w, e, timeout, mask))
    }
}

/// Calls with room for events outside of the heap; what finds no room there stays ready.
///
/// # Safety
/// There is room for `most` events at `events`, or the call fails.
unsafe fn with_events(
    events: *mut epoll_event,
    most: c_int,
    call: impl FnOnce(*mut epoll_event, c_int) -> c_int,
) -> c_int {
    if most <= 0 || !in_heap(events) {
        prepare(events.cast(), size_of::<epoll_event>().saturating_mul(most.max(0) as usize));
        return call(events, most);
    }
    let mut room = [epoll_event { events: 0, u64: 0 }; EVENTS];
    let result = call(room.as_mut_ptr(), most.min(EVENTS as c_int));
    let got = usize::try_from(result).unwrap_or(0).min(EVENTS);
    // SAFETY: the caller's promise; no more than `most` came.
    unsafe { std::ptr::copy_nonoverlapping(room.as_ptr(), events, got) };
    result
}

called_by! { with_events:
    epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) with events, most;
    epoll_pwait(
        fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t
    ) with events, most;
    epoll_pwait2(
        fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec,
        mask: *const sigset_t
    ) with events, most;
}
