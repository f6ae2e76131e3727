//! The text of a thread's last error. The C libraries of areas and of databases have this module in
//! common, each with texts of its own: `libswingdb` includes it by its path.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Remembers the text of a failure; a zero in it would end it.
pub(crate) fn remember(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending, as one that runs what `atexit` was told, keeps no text.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The text of this thread's last failure; valid until its next one.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn the_text_is_this_threads_and_has_no_zero() {
        remember("a\0b");
        // SAFETY: valid until the next failure of this thread.
        let mine = unsafe { CStr::from_ptr(last()) };
        std::thread::spawn(|| remember("theirs")).join().unwrap();
        assert_eq!(mine, c"a b");
    }
}
