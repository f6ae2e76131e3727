//! Functions that have the kernel load from the program's memory. Where an area was never stored to
//! it has no memory yet: a load is trapped and gives zeros, but the kernel's own is not, and fails
//! with `EFAULT`. So one byte of each extent is loaded before.
//!
//! Of plain pointers to objects (`swing_heap_malloc`) a page that was loaded from may be empty
//! again when the kernel comes to it, for instance because the call waited. So a call that fails
//! with `EFAULT` loads and tries again.

use libc::*;

use crate::copy::{NOWHERE, touches_area};
use crate::fill::MAX_VECTORS;
use crate::next::{keeping_errno, own};
use crate::slot::again_after_fault;

/// No extent is shorter.
const LEAST_EXTENT: usize = swing::geometry::MIN_DATA_EXTENT.0 as usize;
const _: () = assert!(swing::geometry::SMALL_EXTENT.0 as usize >= LEAST_EXTENT);

/// Loads from each extent of a buffer that lies in an area. Whether its memory may go again.
#[inline]
fn touch(at: *const c_void, len: usize) -> bool {
    let touches = touches_area(at.cast(), len);
    if touches {
        load(at.cast(), len);
    }
    touches && swing::tracked::is_served(at.cast())
}

fn load(at: *const u8, len: usize) {
    const { assert!(LEAST_EXTENT.is_power_of_two()) };
    let Some(end) = at.addr().checked_add(len).filter(|_| len <= isize::MAX as usize) else {
        // No buffer is as long: the call shall find out.
        return;
    };
    let (mut from, mut was_inside) = (at.addr(), false);
    while from < end {
        let inside = swing::tracked::is_tracked(from as *const u8);
        if inside {
            // SAFETY: an address in an area of this process can be loaded from; the program uses
            // the area in this call, so it does not release it.
            unsafe { std::ptr::read_volatile(from as *const u8) };
        } else if was_inside {
            // Behind the area's end, however much is asked for.
            break;
        }
        was_inside = inside;
        from = (from & !(LEAST_EXTENT - 1)).saturating_add(LEAST_EXTENT);
    }
}

/// As [`touch`], of a list of buffers.
///
/// # Safety
/// `vectors` points to `count` of them, or the call will fail as well.
unsafe fn touch_vectors(vectors: *const iovec, count: usize) -> bool {
    if vectors.addr() < NOWHERE || count > MAX_VECTORS {
        return false;
    }
    let mut touched = false;
    for i in 0..count {
        // SAFETY: the caller's promise.
        let vector = unsafe { vectors.add(i).read() };
        touched |= touch(vector.iov_base, vector.iov_len);
    }
    touched
}

/// Defines functions: after the signature, what is done before the C library's one is called, and
/// says whether a fault may be that of a page that has gone since.
macro_rules! senders {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty { $before:expr })*) => {$(
        /// The C library's function of this name; what it loads may lie in areas.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> $result {
            let call = own!($name($($kind),*) -> $result);
            let mut tries = 0;
            loop {
                let touched = keeping_errno(|| $before);
                // SAFETY: the caller promised what the function asks for.
                let result = unsafe { call($($arg),*) };
                // A C int may come with anything in the upper half of its register.
                if !touched || !again_after_fault(result as i64, &mut tries) {
                    return result;
                }
            }
        }
    )*};
}

senders! {
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t { touch(from, len) }
    pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t { touch(from, len) }
    pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off64_t) -> ssize_t {
        touch(from, len)
    }
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t { touch(from, len) }
    sendto(
        fd: c_int, from: *const c_void, len: size_t, flags: c_int, to: *const sockaddr,
        to_len: socklen_t
    ) -> ssize_t { touch(from, len) }
    mq_send(queue: mqd_t, from: *const c_char, len: size_t, priority: c_uint) -> c_int {
        touch(from.cast(), len)
    }
    msgsnd(queue: c_int, from: *const c_void, len: size_t, flags: c_int) -> c_int {
        touch(from, len.saturating_add(size_of::<c_long>()))
    }
    fwrite(from: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t {
        touch(from, size.saturating_mul(count))
    }
    fwrite_unlocked(from: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t {
        touch(from, size.saturating_mul(count))
    }
    writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the function asks for as many as it is told.
        unsafe { touch_vectors(vectors, count.max(0) as usize) }
    }
    pwritev(fd: c_int, vectors: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: as above.
        unsafe { touch_vectors(vectors, count.max(0) as usize) }
    }
    pwritev64(fd: c_int, vectors: *const iovec, count: c_int, at: off64_t) -> ssize_t {
        // SAFETY: as above.
        unsafe { touch_vectors(vectors, count.max(0) as usize) }
    }
    pwritev2(fd: c_int, vectors: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        // SAFETY: as above.
        unsafe { touch_vectors(vectors, count.max(0) as usize) }
    }
    pwritev64v2(
        fd: c_int, vectors: *const iovec, count: c_int, at: off64_t, flags: c_int
    ) -> ssize_t {
        // SAFETY: as above.
        unsafe { touch_vectors(vectors, count.max(0) as usize) }
    }
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: null, or a message, which has as many vectors as it says.
        unsafe { message.as_ref() }.is_some_and(|message| {
            // SAFETY: as above.
            unsafe { touch_vectors(message.msg_iov, message.msg_iovlen) }
        })
    }
}
