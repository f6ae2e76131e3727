//! What a process does once, also when a fork comes in its middle.
//!
//! A child of `std::sync::Once` would wait for a thread that only its parent has.

use std::sync::atomic::{AtomicU32, Ordering};

/// Done, or not yet, or being done by the process of this number.
#[derive(Debug)]
pub(crate) struct Once(AtomicU32);

const NOT_YET: u32 = 0;
/// No process has this number.
const DONE: u32 = u32::MAX;

impl Once {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NOT_YET))
    }

    /// Runs `act` unless it has been run; waits while another thread runs it. A child that was
    /// forked in the middle runs it again: so it must do no harm to have been run, wholly or in
    /// part, before.
    pub(crate) fn call(&self, act: impl FnOnce()) {
        if self.0.load(Ordering::Acquire) == DONE {
            return;
        }
        let me = std::process::id();
        let mut seen = NOT_YET;
        while let Err(now) = self.0.compare_exchange(seen, me, Ordering::SeqCst, Ordering::SeqCst) {
            match now {
                DONE => return,
                now if now == me => std::thread::yield_now(),
                // Not yet, or begun by a process that this one was forked from.
                now => seen = now,
            }
        }
        act();
        self.0.store(DONE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn one_of_many_threads_does_it_and_all_wait() {
        let (once, count) = (Once::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    once.call(|| {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                    assert_eq!(count.load(Ordering::SeqCst), 1);
                });
            }
        });
    }

    #[test]
    fn what_another_process_has_begun_is_done_here() {
        let another = Once(AtomicU32::new(std::process::id() + 1));
        let mut count = 0;
        another.call(|| count += 1);
        another.call(|| count += 1);
        assert_eq!(count, 1);
    }
}
