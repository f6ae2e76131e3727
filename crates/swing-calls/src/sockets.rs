//! Sockets: what is received, and addresses and options with their lengths.

use libc::*;
use swing::tracked;

use crate::copy::NOWHERE;
use crate::data::check_room;
use crate::fill::{Source, fill, fill_one};
use crate::next::own;
use crate::slot::{Slot, Use, again, calls, length_of, of, told};

const LEN: usize = size_of::<socklen_t>();
/// The most messages that the kernel takes at once.
const MAX_MESSAGES: usize = 1024;

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
    let (name, control) = (name.at().cast(), control.at().cast());
    let mut tries = 0;
    loop {
        slots.iter().for_each(Slot::prepare);
        let each = |vectors: *const iovec, count: usize, _| {
            message = asked;
            (message.msg_iov, message.msg_iovlen) = (vectors.cast_mut(), count);
            (message.msg_name, message.msg_control) = (name, control);
            // SAFETY: a message whose buffers are as long as the program's.
            unsafe { call(fd, &raw mut message, flags) }
        };
        // SAFETY: the caller promised as many vectors as it says.
        let got = unsafe { fill(asked.msg_iov, asked.msg_iovlen, Source::Once, each) };
        if again(got as i64, &slots, &mut tries) {
            continue;
        }
        if got >= 0 {
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

/// Makes writable what a message points to.
///
/// # Safety
/// A message as `recvmsg` asks for.
unsafe fn prepare_message(message: *const msghdr) {
    // SAFETY: the caller's promise.
    let message = unsafe { message.read() };
    for i in 0..message.msg_iovlen.min(MAX_MESSAGES) {
        // SAFETY: as above.
        let vector = unsafe { message.msg_iov.add(i).read() };
        tracked::prepare(vector.iov_base.cast(), vector.iov_len.min(crate::pool::ROOM));
    }
    tracked::prepare(message.msg_control.cast(), message.msg_controllen);
    tracked::prepare(message.msg_name.cast(), message.msg_namelen as usize);
}

/// Defines functions with a list of messages, into which the kernel stores.
macro_rules! lists {
    ($($name:ident($($more:ident: $kind:ty)?) $prepare:ident;)*) => {$(
        /// The C library's function of this name; the messages are made writable before, and again.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int $(, $more: $kind)?
        ) -> c_int {
            let call = own!($name(c_int, *mut mmsghdr, c_uint, c_int $(, $kind)?) -> c_int);
            let some = (count as usize).min(MAX_MESSAGES);
            let mut slots = [Slot::new(messages.cast(), of::<mmsghdr>(some), Use::Exposed)];
            let mut tries = 0;
            loop {
                slots.iter().for_each(Slot::prepare);
                $(tracked::prepare($more.cast(), size_of::<timespec>());)?
                let there = messages.addr() >= NOWHERE;
                for i in (0..some).filter(|_| there) {
                    // SAFETY: as the function asks for.
                    unsafe { $prepare(&raw const (*messages.add(i)).msg_hdr) };
                }
                // SAFETY: as the function asks for.
                let result = unsafe { call(fd, messages, count, flags $(, $more)?) };
                if !again(result.into(), &slots, &mut tries) {
                    return told(result, &mut slots, result.into());
                }
            }
        }
    )*};
}

/// What a message points to is made present: the kernel loads from it.
///
/// # Safety
/// A message as `sendmsg` asks for.
unsafe fn touch_message(message: *const msghdr) {
    // SAFETY: the caller's promise.
    unsafe { crate::sending::touch_vectors((*message).msg_iov, (*message).msg_iovlen) };
}

lists! {
    recvmmsg(timeout: *mut timespec) prepare_message;
    sendmmsg() touch_message;
}
