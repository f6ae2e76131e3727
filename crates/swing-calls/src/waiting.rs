//! Waiting for many things: `poll`, `select`, `epoll`.

use libc::*;

use crate::next::own;
use crate::slot::{Slot, Use, again, calls, of, told};

/// Events that one call brings into an area; the others stay ready.
const EVENTS: c_int = 256;

/// The longest sets that are taken at their count's word; some programs make longer ones than the C
/// library's.
const MAX_SET: usize = 1 << 16;

calls! {
    poll(polls: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        polls: polls(of::<pollfd>(count as usize))
    }
    __poll_chk(polls: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
        polls: polls(of::<pollfd>(count as usize))
    }
    ppoll(
        polls: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int { polls: polls(of::<pollfd>(count as usize)) }
    __ppoll_chk(
        polls: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t
    ) -> c_int { polls: polls(of::<pollfd>(count as usize)) }
    select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int {
        read: both(set_len(count)), write: both(set_len(count)), other: both(set_len(count)),
        timeout: both(of::<timeval>(1))
    }
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        read: both(set_len(count)), write: both(set_len(count)), other: both(set_len(count))
    }
}

/// The bytes that the kernel reads and stores of a set.
fn set_len(count: c_int) -> usize {
    let len = usize::try_from(count).unwrap_or(0).div_ceil(64) * 8;
    len.min(MAX_SET)
}

/// Calls with room for at most [`EVENTS`] when the program's lies in an area.
fn with_events(
    events: *mut epoll_event,
    most: c_int,
    mut call: impl FnMut(*mut epoll_event, c_int) -> c_int,
) -> c_int {
    let some = most.clamp(0, EVENTS);
    let size = size_of::<epoll_event>();
    let mut slots = [Slot::new(events.cast(), of::<epoll_event>(some as usize), Use::Items(size))];
    let at: *mut epoll_event = slots[0].at().cast();
    let asked = if at == events && !slots[0].is_exposed() { most } else { some };
    let mut tries = 0;
    loop {
        slots.iter().for_each(Slot::prepare);
        let result = call(at, asked);
        strict_assert!(result <= asked.max(0), "no more events than there is room for");
        if !again(result.into(), &slots, &mut tries) {
            return told(result, &mut slots, result.into());
        }
    }
}

macro_rules! events {
    ($($name:ident($fd:ident, $events:ident, $most:ident $(, $arg:ident: $kind:ty)*);)*) => {$(
        /// The C library's function of this name; the events may lie in an area.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            $fd: c_int, $events: *mut epoll_event, $most: c_int $(, $arg: $kind)*
        ) -> c_int {
            let call = own!($name(c_int, *mut epoll_event, c_int $(, $kind)*) -> c_int);
            // SAFETY: as the function asks for.
            with_events($events, $most, |events, most| unsafe {
                call($fd, events, most $(, $arg)*)
            })
        }
    )*};
}

events! {
    epoll_wait(fd, events, most, timeout: c_int);
    epoll_pwait(fd, events, most, timeout: c_int, mask: *const sigset_t);
    epoll_pwait2(fd, events, most, timeout: *const timespec, mask: *const sigset_t);
}
