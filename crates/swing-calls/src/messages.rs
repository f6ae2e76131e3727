//! `recvmmsg` and `sendmmsg`: the kernel stores into a list while it takes or sends one message
//! after the other, so a fault in the middle loses messages, or sends some twice. Where anything
//! lies in an area, each message is received or sent by a call of its own, as the kernel does it.

use libc::*;

use crate::copy::{NOWHERE, touches_area};
use crate::next::{errno, own, set_errno};
use crate::sockets::recvmsg;

/// The most messages that the kernel takes at once.
const MAX_MESSAGES: usize = 1024;
const NANOS: i64 = 1_000_000_000;

/// The list of a call, if it or what it points to lies in an area.
///
/// # Safety
/// `messages` points to `count` of them, or the call will fail as well.
unsafe fn in_area(messages: *mut mmsghdr, count: c_uint) -> Option<usize> {
    let count = (count as usize).min(MAX_MESSAGES);
    if messages.addr() < NOWHERE || count == 0 {
        return None;
    }
    if touches_area(messages.cast(), count * size_of::<mmsghdr>()) {
        return Some(count);
    }
    let touched = |i| {
        // SAFETY: the caller's promise.
        let head = unsafe { (*messages.add(i)).msg_hdr };
        let own =
            [(head.msg_name, head.msg_namelen as usize), (head.msg_control, head.msg_controllen)];
        let mut vectors = 0..head.msg_iovlen.min(crate::fill::MAX_VECTORS);
        own.iter().any(|(at, len)| touches_area(at.cast(), *len))
            || (head.msg_iov.addr() >= NOWHERE
                && vectors.any(|i| {
                    // SAFETY: as above.
                    let vector = unsafe { head.msg_iov.add(i).read() };
                    touches_area(vector.iov_base.cast(), vector.iov_len)
                }))
    };
    (0..count).any(touched).then_some(count)
}

fn now() -> i64 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid result.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.saturating_mul(NANOS).saturating_add(time.tv_nsec)
}

/// When the time is over that a caller gives; an error if it is none.
///
/// # Safety
/// `timeout` is null or a time.
unsafe fn deadline(timeout: *const timespec) -> Result<Option<i64>, c_int> {
    if timeout.is_null() {
        return Ok(None);
    }
    if timeout.addr() < NOWHERE {
        return Err(EFAULT);
    }
    // SAFETY: the caller's promise.
    let time = unsafe { timeout.read() };
    if time.tv_sec < 0 || !(0..NANOS).contains(&time.tv_nsec) {
        return Err(EINVAL);
    }
    let nanos = time.tv_sec.saturating_mul(NANOS).saturating_add(time.tv_nsec);
    Ok(Some(now().saturating_add(nanos)))
}

/// Receives several messages; they, and all that they point to, may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: as the function asks for.
    let some = match unsafe { (in_area(messages, count), deadline(timeout)) } {
        (None, _) if !touches_area(timeout.cast(), size_of::<timespec>()) => {
            let call = own!(recvmmsg(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int);
            // SAFETY: as the function asks for.
            return unsafe { call(fd, messages, count, flags, timeout) };
        }
        (_, Err(code)) => {
            set_errno(code);
            return -1;
        }
        (some, Ok(end)) => (some.unwrap_or((count as usize).min(MAX_MESSAGES)), end),
    };
    let ((some, end), mut flags, mut done) = (some, flags, 0);
    while done < some {
        // SAFETY: as the function asks for.
        let one = unsafe { messages.add(done) };
        // SAFETY: as above.
        let got = unsafe { recvmsg(fd, &raw mut (*one).msg_hdr, flags & !MSG_WAITFORONE) };
        if got < 0 {
            break;
        }
        // SAFETY: as above; a list in an area bears stores.
        unsafe { (*one).msg_len = got as c_uint };
        done += 1;
        if flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        if let Some(end) = end {
            let left = (end - now()).max(0);
            // SAFETY: as above.
            unsafe { timeout.write(timespec { tv_sec: left / NANOS, tv_nsec: left % NANOS }) };
            if left == 0 {
                break;
            }
        }
        // SAFETY: as above.
        if unsafe { (*one).msg_hdr.msg_flags } & MSG_OOB != 0 {
            break;
        }
    }
    counted(done, some)
}

/// What a call returns that has done so many.
fn counted(done: usize, of: usize) -> c_int {
    strict_assert!(done <= of && of <= MAX_MESSAGES, "no more messages than there are");
    if done == 0 && of > 0 { -1 } else { done as c_int }
}

/// Sends several messages; they, and all that they point to, may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: as the function asks for.
    let Some(some) = (unsafe { in_area(messages, count) }) else {
        let call = own!(sendmmsg(c_int, *mut mmsghdr, c_uint, c_int) -> c_int);
        // SAFETY: as the function asks for.
        return unsafe { call(fd, messages, count, flags) };
    };
    let mut done = 0;
    while done < some {
        // SAFETY: as the function asks for.
        let (one, sent) = unsafe {
            let one = messages.add(done);
            (one, crate::sending::sendmsg(fd, &raw const (*one).msg_hdr, flags))
        };
        if sent < 0 {
            strict_assert!(errno() != 0, "a call that fails says why");
            break;
        }
        done += 1;
        // SAFETY: as above; a list in an area bears stores.
        let asked = unsafe {
            (*one).msg_len = sent as c_uint;
            let head = (*one).msg_hdr;
            (0..head.msg_iovlen).map(|i| (*head.msg_iov.add(i)).iov_len).sum::<usize>()
        };
        if (sent as usize) < asked {
            // No room for the rest, so none for the next.
            break;
        }
    }
    counted(done, some)
}
