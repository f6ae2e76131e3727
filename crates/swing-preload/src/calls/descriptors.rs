//! Functions that close descriptors, or put something else at their numbers: this library's own are
//! not the program's to close ([`swing::descriptors`]).
//!
//! A number that is not open is answered with `EBADF` as ever, without asking the kernel to close
//! it: it could be this library's by then. To the program this library's numbers are not open
//! either; where it closes all there are, they stay.

use libc::*;
use swing::descriptors;

use super::next::own;
use crate::heap;

/// Fails as a function of the C library.
fn fail(code: c_int) -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *__errno_location() = code };
    -1
}

/// What `syscall` does for a program that asks for one of these by its number.
///
/// # Safety
/// As the function of its name.
#[allow(non_upper_case_globals)]
pub(super) unsafe fn by_number(number: c_long, a: usize, b: usize, c: usize) -> Option<c_long> {
    // SAFETY: the caller's promise.
    let done = unsafe {
        match number {
            SYS_close => close(a as c_int),
            SYS_close_range => close_range(a as c_uint, b as c_uint, c as c_int),
            #[cfg(target_arch = "x86_64")]
            SYS_dup2 => dup2(a as c_int, b as c_int),
            SYS_dup3 => dup3(a as c_int, b as c_int, c as c_int),
            _ => return None,
        }
    };
    Some(done.into())
}

/// Signal handlers may call these: what they call is known before.
pub(super) fn look_up() {
    // SAFETY: no number of a descriptor.
    unsafe {
        close(-1);
        dup2(-1, -1);
    }
}

/// Closes a descriptor.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let call = own!(c"close": close(c_int) -> c_int);
    // SAFETY: the caller's promise.
    let close = || unsafe { call(fd) };
    if heap::is_inside() || descriptors::is_library_at_work() {
        return descriptors::close_own(fd, close);
    }
    if descriptors::is_programs(fd) { close() } else { fail(EBADF) }
}

/// Calls `each` with the parts of a range of numbers that hold none of this library's, until one
/// fails.
fn between_own(first: c_uint, last: c_uint, each: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    let mut from = first;
    loop {
        let own = c_int::try_from(from).ok().and_then(descriptors::next_own);
        let Some(own) = own.map(|own| own as c_uint).filter(|own| *own <= last) else {
            return if from <= last { each(from, last) } else { 0 };
        };
        if from < own && each(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
}

/// Closes all descriptors of a range but this library's.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let call = own!(c"close_range": close_range(c_uint, c_uint, c_int) -> c_int);
    // SAFETY: the caller's promise.
    let close = |first, last| unsafe { call(first, last, flags) };
    if first > last { close(first, last) } else { between_own(first, last, close) }
}

/// Closes all descriptors from a number on but this library's.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: the caller's promise.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Makes `to` the same as `from`.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    let call = own!(c"dup2": dup2(c_int, c_int) -> c_int);
    // SAFETY: the caller's promise.
    let done = descriptors::unless_own(to, || unsafe { call(from, to) });
    done.unwrap_or_else(|| fail(EBUSY))
}

/// As [`dup2`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    let call = own!(c"dup3": dup3(c_int, c_int, c_int) -> c_int);
    // SAFETY: the caller's promise.
    let done = descriptors::unless_own(to, || unsafe { call(from, to, flags) });
    done.unwrap_or_else(|| fail(EBUSY))
}
