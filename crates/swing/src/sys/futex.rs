//! Waiting for a word of memory, by the bare system call.
//!
//! Unlike the locks of the standard library it may be used in a signal handler: it allocates
//! nothing and holds nothing. Waits may end early; callers look again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn call(word: &AtomicU32, operation: i32, value: u32, time: *const libc::timespec) -> i64 {
    // SAFETY: the word is valid as long as it is borrowed; the kernel reads it and `time` only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
            std::ptr::null::<u32>(),
            0u32,
        )
    }
}

/// Sleeps while the word is `seen`, at most for `time`.
pub(crate) fn wait(word: &AtomicU32, seen: u32, time: Option<Duration>) {
    let time = time.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: libc::c_long::from(t.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |t| t as *const _);
    call(word, libc::FUTEX_WAIT, seen, time);
}

/// Wakes everybody who waits for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_time_change_or_wake() {
        let word = AtomicU32::new(1);
        wait(&word, 0, None);
        let before = std::time::Instant::now();
        wait(&word, 1, Some(Duration::from_millis(5)));
        assert!(before.elapsed() >= Duration::from_millis(4));
        wake_all(&word);
    }
}
