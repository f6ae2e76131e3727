//! Waiting for a word of memory, by the bare system call.
//!
//! Unlike the locks of the standard library it may be used in a signal handler: it allocates
//! nothing and holds nothing. Waits may end early; callers look again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `seen`, at most for `time`.
#[cfg(not(loom))]
pub(crate) fn wait(word: &AtomicU32, seen: u32, time: Option<Duration>) {
    sleep(word, seen, time);
}

/// Wakes everybody who waits for the word.
#[cfg(not(loom))]
pub(crate) fn wake_all(word: &AtomicU32) {
    wake(word);
}

#[cfg(loom)]
pub(crate) use modelled::{wait, wake_all};

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

fn sleep(word: &AtomicU32, seen: u32, time: Option<Duration>) {
    let time = time.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: libc::c_long::from(t.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |t| t as *const _);
    call(word, libc::FUTEX_WAIT, seen, time);
}

fn wake(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
}

/// For models: threads that wait are in a list. A long wait has no end there, so that a thread that
/// nobody wakes is found; a short one is a chance for others.
#[cfg(loom)]
mod modelled {
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use crate::sys::atomics;

    const SHORT: Duration = Duration::from_millis(100);

    pub(crate) trait Word {
        fn wait(&self, seen: u32, time: Option<Duration>);
        fn wake_all(&self);
    }

    pub(crate) fn wait(word: &impl Word, seen: u32, time: Option<Duration>) {
        word.wait(seen, time);
    }

    pub(crate) fn wake_all(word: &impl Word) {
        word.wake_all();
    }

    /// What is not part of a model.
    impl Word for std::sync::atomic::AtomicU32 {
        fn wait(&self, seen: u32, time: Option<Duration>) {
            super::sleep(self, seen, time);
        }
        fn wake_all(&self) {
            super::wake(self);
        }
    }

    /// Who waits, by ticket, and for which word.
    #[derive(Default)]
    struct Queue {
        waiting: Vec<(u32, usize)>,
        tickets: u32,
    }

    loom::lazy_static! {
        static ref QUEUE: (Mutex<Queue>, Condvar) = (Mutex::new(Queue::default()), Condvar::new());
    }

    impl Word for atomics::AtomicU32 {
        fn wait(&self, seen: u32, time: Option<Duration>) {
            if time.is_some_and(|time| time < SHORT) {
                return loom::thread::yield_now();
            }
            let (queue, changed) = &*QUEUE;
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if self.load(Ordering::SeqCst) != seen {
                return;
            }
            let mine = queue.tickets;
            queue.tickets += 1;
            queue.waiting.push((mine, std::ptr::from_ref(self) as usize));
            while queue.waiting.iter().any(|(ticket, _)| *ticket == mine) {
                queue = changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        fn wake_all(&self) {
            let (queue, changed) = &*QUEUE;
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let (before, me) = (queue.waiting.len(), std::ptr::from_ref(self) as usize);
            queue.waiting.retain(|(_, word)| *word != me);
            if queue.waiting.len() < before {
                changed.notify_all();
            }
        }
    }
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
