//! Sockets: what is received, and addresses and options with their lengths.

use libc::*;

use crate::copy::NOWHERE;
use crate::data::check_room;
use crate::fill::{Source, fill, fill_one};
use crate::next::own;
use crate::slot::{Slot, Use, again, calls, length_of, of, told};

const LEN: usize = size_of::<socklen_t>();

calls! {
    accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the function asks for a readable length.
        from: both(unsafe { length_of(from, len) }), len: both(LEN)
    }
    accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: as above.
        from: both(unsafe { length_of(from, len) }), len: both(LEN)
    }
    getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { length_of(to, len) }), len: both(LEN)
    }
    getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { length_of(to, len) }), len: both(LEN)
    }
    getsockopt(
        fd: c_int, level: c_int, option: c_int, to: *mut c_void, len: *mut socklen_t
    ) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { length_of(to, len) }), len: both(LEN)
    }
    socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int {
        ends: both(of::<c_int>(2))
    }
}

/// How much of what was asked for a call with these flags gives.
fn source(flags: c_int) -> Source {
    let all = flags & MSG_WAITALL != 0 && flags & (MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT) == 0;
    if all { Source::Whole } else { Source::Once }
}

/// Receives data; the buffer may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    let call = own!(recv(c_int, *mut c_void, size_t, c_int) -> ssize_t);
    // SAFETY: as the function asks for; a replaced buffer is as long.
    fill_one(to, len, source(flags), |to, len, _| unsafe { call(fd, to, len, flags) })
}

/// As [`recv`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller's promise.
    unsafe { recv(fd, to, len, flags) }
}

/// Receives data and the sender's address; both may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    type Len = *mut socklen_t;
    let call = own!(recvfrom(c_int, *mut c_void, size_t, c_int, *mut sockaddr, Len) -> ssize_t);
    // SAFETY: the function asks for a readable length.
    let address = unsafe { length_of(from, from_len) };
    let mut slots =
        [Slot::new(from.cast(), address, Use::Both), Slot::new(from_len.cast(), LEN, Use::Both)];
    let [from, from_len] = &mut slots;
    let (from, from_len) = (from.at().cast(), from_len.at().cast());
    let mut tries = 0;
    loop {
        slots.iter().for_each(Slot::prepare);
        let got = fill_one(to, len, source(flags), |to, len, _| {
            // SAFETY: as the function asks for; what is replaced is as long.
            unsafe { call(fd, to, len, flags, from, from_len) }
        });
        if !again(got as i64, &slots, &mut tries) {
            return told(got, &mut slots, got as i64);
        }
    }
}

/// As [`recvfrom`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller's promise.
    unsafe { recvfrom(fd, to, len, flags, from, from_len) }
}

/// Receives a message; it and all that it points to may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, to: *mut msghdr, flags: c_int) -> ssize_t {
    let call = own!(recvmsg(c_int, *mut msghdr, c_int) -> ssize_t);
    if to.addr() < NOWHERE {
        // SAFETY: the kernel refuses it.
        return unsafe { call(fd, to, flags) };
    }
    // SAFETY: the caller promised a message. The kernel gets a copy of it.
    let asked = unsafe { to.read() };
    let mut message = asked;
    let mut slots = [
        Slot::new(asked.msg_name, asked.msg_namelen as usize, Use::Both),
        Slot::new(asked.msg_control, asked.msg_controllen, Use::Both),
    ];
    let [name, control] = &mut slots;
    let (name, control) = (name.at().cast::<c_void>(), control.at().cast::<c_void>());
    strict_assert!(name.is_null() == asked.msg_name.is_null(), "room for a name, or none");
    let mut tries = 0;
    loop {
        slots.iter().for_each(Slot::prepare);
        let each = |vectors: *const iovec, count: usize, _| {
            message = asked;
            (message.msg_iov, message.msg_iovlen) = (vectors.cast_mut(), count);
            (message.msg_name, message.msg_control) = (name, control);
            // This stack may lie in an area.
            let mut slot = Slot::new((&raw mut message).cast(), size_of::<msghdr>(), Use::Both);
            // SAFETY: a message whose buffers are as long as the program's.
            let got = unsafe { call(fd, slot.at().cast(), flags) };
            strict_assert!(slot.settle(got as i64), "a message of our own");
            got
        };
        // SAFETY: the caller promised as many vectors as it says.
        let got = unsafe { fill(asked.msg_iov, asked.msg_iovlen, Source::Once, each) };
        if again(got as i64, &slots, &mut tries) {
            continue;
        }
        if got >= 0 {
            strict_assert!(message.msg_controllen <= asked.msg_controllen, "as much as fits");
            // SAFETY: the caller promised a message that may be written.
            unsafe {
                (*to).msg_namelen = message.msg_namelen;
                (*to).msg_controllen = message.msg_controllen;
                (*to).msg_flags = message.msg_flags;
            }
        }
        return told(got, &mut slots, got as i64);
    }
}
