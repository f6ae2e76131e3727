//! Sockets: what is received, and addresses and options with their lengths.

use libc::*;
use std::mem::MaybeUninit;
use swing::tracked::prepare;

use super::room::Room;
use super::{
    SMALL, called_by, calls, in_heap, insist, own, prepare_vectors, readers, results, through,
};

/// Room for every kind of address, and for most options.
type Address = [MaybeUninit<u8>; 128];
/// Room for the messages beside the data: several descriptors, credentials.
type Control = [MaybeUninit<u8>; 1024];

readers! {
    recv(fd: c_int, to, len, flags: c_int);
    __recv_chk(fd: c_int, to, len, room: size_t, flags: c_int);
}

results! {
    socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *mut [c_int; 2]; pair) -> c_int;
}

calls! {
    recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int {
        prepare(messages.cast(), size_of::<mmsghdr>() * count as usize);
        prepare(timeout.cast(), size_of::<timespec>());
        for i in 0..count as usize {
            // SAFETY: as the function asks for.
            unsafe { prepare_message(&raw mut (*messages.add(i)).msg_hdr) };
        }
    }
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // How much of each was sent is written there.
        prepare(messages.cast(), size_of::<mmsghdr>() * count as usize);
    }
}

/// # Safety
/// A message as `recvmsg` asks for.
unsafe fn prepare_message(message: *mut msghdr) {
    // SAFETY: the caller's promise.
    unsafe {
        prepare_vectors((*message).msg_iov, (*message).msg_iovlen);
        prepare((*message).msg_control.cast(), (*message).msg_controllen);
        prepare((*message).msg_name.cast(), (*message).msg_namelen as usize);
    }
}

/// Calls with an address, or another value, and its length, which the kernel reads and writes.
///
/// # Safety
/// `len` is null or may be read and written, and so many bytes at `to`.
unsafe fn with_length<T, R: PartialEq + From<i8>>(
    to: *mut T,
    len: *mut socklen_t,
    mut call: impl FnMut(*mut T, *mut socklen_t) -> R,
) -> R {
    // SAFETY: the caller's promise.
    let (room, len_room) = unsafe {
        let room = if len.is_null() { 0 } else { *len as usize };
        (Room::with_len(to.cast::<Address>(), room), Room::new(len))
    };
    let result = if room.is_direct() {
        insist(|| {
            prepare(to.cast(), if len.is_null() { 0 } else { size_of::<Address>() });
            call(room.at().cast(), len_room.at())
        })
    } else {
        call(room.at().cast(), len_room.at())
    };
    // SAFETY: the caller's promise.
    unsafe {
        room.bring();
        len_room.bring();
    }
    result
}

called_by! { with_length:
    accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) with address, len;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int)
        with address, len;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) with address, len;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) with address, len;
    getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t)
        with value, len;
}

/// Receives data, and the address by way of the stack.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    let next =
        own!(recvfrom(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t);
    let call = |address, address_len| {
        let get = |to| {
            // SAFETY: as the function asks for.
            unsafe { next(fd, to, len, flags, address, address_len) }
        };
        if len <= SMALL && in_heap(to) {
            return through(to, len, get);
        }
        insist(|| {
            prepare(to.cast(), len);
            get(to)
        })
    };
    // SAFETY: as the function asks for.
    unsafe { with_length(address, address_len, call) }
}

/// As [`recvfrom`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        // What the C library does with an overflow that it has found.
        std::process::abort();
    }
    // SAFETY: the caller's promise.
    unsafe { recvfrom(fd, to, len, flags, address, address_len) }
}

/// Receives a message; address and control messages by way of the stack.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let next = own!(recvmsg(c_int, *mut msghdr, c_int) -> ssize_t);
    if message.is_null() {
        // SAFETY: an error, as the kernel has it.
        return unsafe { next(fd, message, flags) };
    }
    // SAFETY: as the function asks for; the copy of the message lives until the end.
    unsafe {
        let mut own = message.read();
        let name = Room::with_len(own.msg_name.cast::<Address>(), own.msg_namelen as usize);
        let control = Room::with_len(own.msg_control.cast::<Control>(), own.msg_controllen);
        let mut call = || {
            own = msghdr {
                msg_name: name.at().cast(),
                msg_control: control.at().cast(),
                ..message.read()
            };
            prepare_vectors(own.msg_iov, own.msg_iovlen);
            next(fd, &raw mut own, flags)
        };
        let result = insist(&mut call);
        name.bring();
        control.bring();
        if result >= 0 {
            (*message).msg_namelen = own.msg_namelen;
            (*message).msg_controllen = own.msg_controllen;
            (*message).msg_flags = own.msg_flags;
        }
        result
    }
}
