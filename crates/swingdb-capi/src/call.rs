//! What each exported function runs in, and the pointers that it gets.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::error::{Code, Failure, Result, note};

/// Runs a call: 0, or the number of its error.
pub(crate) fn call(run: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => note(failure),
        Err(_) => note(Failure::new(Code::Internal, "a panic in the library")),
    }
}

/// A text that the program gave; `None`: null.
///
/// # Safety
/// `text` is null or ends with a zero, and stays as it is during `'a`.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// A text that has to be there.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn needed<'a>(what: &str, given: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(what, given) }?.ok_or_else(|| Failure::argument(format!("{what} is null")))
}

/// What a handle points to.
///
/// # Safety
/// `handle` is null, or came from [`hand_out`] and was not given back; nobody changes it meanwhile.
pub(crate) unsafe fn handle<'a, T>(what: &str, handle: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is null")))
}

/// As [`handle`], to be changed.
///
/// # Safety
/// As [`handle`], and nobody reads it meanwhile.
pub(crate) unsafe fn handle_mut<'a, T>(what: &str, handle: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is null")))
}

/// Where a result goes; looked at before anything is done.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn place<T>(out: *mut T) -> Result<Place<T>> {
    match NonNull::new(out) {
        Some(out) => Ok(Place(out)),
        None => Err(Failure::argument("the place for the result is null")),
    }
}

/// A place for a result that may be written.
pub(crate) struct Place<T>(NonNull<T>);

impl<T> Place<T> {
    /// Writes the result, without reading what was there.
    pub(crate) fn set(self, value: T) {
        // SAFETY: `place` was promised memory that may be written.
        unsafe { self.0.write(value) };
    }
}

/// Gives a value to the program.
pub(crate) fn hand_out<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a value back; `None`: null.
///
/// # Safety
/// `handle` is null, or came from [`hand_out`] and was not given back.
pub(crate) unsafe fn take_back<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: from `Box::into_raw`, and nobody uses it any more, by the caller's promise.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
