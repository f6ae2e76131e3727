//! CPU affinity of the responder: it runs on the processor of the thread that stores.
//!
//! A publish takes write access from all threads of the owner. For each range of addresses the
//! kernel interrupts every processor that runs one of them, which takes 20 to 50 us in a virtual
//! machine. Waking the responder costs one such interrupt in any case. If the responder runs on the
//! processor where a trapped store copied last, and a single thread stores, it takes write access
//! without another interrupt; the hooker has the other processor for itself.
//!
//! Sometimes the scheduler does not interrupt the storing thread for the responder: it lets the
//! thread finish its time slice, and looks again some milliseconds later. Then the hooker moves the
//! responder to its own processor. If that happens often (kernels that preempt lazily), or stores
//! come from other processors by then, the affinity is useless. Each request carries the time when
//! it was sent: after several late requests the responder runs wherever the scheduler likes.
//!
//! **Concurrency.** The keeper moves the responder, so the responder need not be awake. Both take a
//! lock, and the responder takes it to leave, so its thread number is never another thread's.

use std::sync::Arc;
use std::time::Duration;

use crate::sys::process::{self, Processors};
use crate::sys::sync::Mutex;

/// A request that is seen later than this has waited for the processor.
const LATE: Duration = Duration::from_micros(200);
/// A longer wait is no time: the request carried none.
const NO_TIME: Duration = Duration::from_secs(10);
/// The affinity is given up when late requests outnumber others by this.
const MOST_LATE: u32 = 4;
/// Requests after which it is tried again.
const TRY_AGAIN: u32 = 256;

/// The processor of a responder, shared with whoever moves it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affinity(Arc<Mutex<Option<ResponderThread>>>);

/// The living thread that the affinity is of.
#[derive(Debug)]
struct ResponderThread {
    thread: i32,
    /// Where the thread may run in any case.
    anywhere: Processors,
    at: Option<u32>,
    late: u32,
    /// Requests until the affinity is set again.
    given_up: u32,
}

impl Affinity {
    /// The calling thread takes the affinity, until the result is dropped.
    pub(crate) fn take(&self) -> AffinityGuard {
        let thread = Processors::of(0).map(|anywhere| ResponderThread {
            thread: process::thread_id(),
            anywhere,
            at: None,
            late: 0,
            given_up: 0,
        });
        *self.0.lock() = thread;
        AffinityGuard(self.clone())
    }

    /// Moves it to a processor; if somebody else is about to, later.
    pub(crate) fn move_to(&self, processor: u32) {
        if let Some(mut affinity) = self.0.try_lock()
            && let Some(thread) = affinity.as_mut()
        {
            thread.move_to(processor);
        }
    }
}

impl ResponderThread {
    fn move_to(&mut self, processor: u32) {
        let wanted = self.given_up == 0 && self.at != Some(processor);
        if let Some(one) = Processors::only(processor).filter(|_| wanted) {
            self.at = one.set(self.thread).then_some(processor);
        }
    }

    /// A request was seen so long after it had been sent, and answered on this processor.
    fn asked(&mut self, waited: Duration, here: Option<u32>) {
        self.given_up = self.given_up.saturating_sub(1);
        // Whoever asks moves the thread also when it was its answer that took long.
        let moved = self.at.is_some() && self.at != here;
        let late = waited >= LATE;
        if !late {
            self.late = self.late.saturating_sub(1);
        }
        if late || moved {
            self.anywhere.set(self.thread);
            let guard = self.at.take().is_some();
            self.late += u32::from(late && guard && waited < NO_TIME);
        }
        if self.late >= MOST_LATE {
            (self.late, self.given_up) = (0, TRY_AGAIN);
        }
    }
}

/// The affinity of the thread that holds this guard.
#[derive(Debug)]
pub(crate) struct AffinityGuard(Affinity);

impl AffinityGuard {
    /// See [`ResponderThread::asked`].
    pub(crate) fn asked(&self, waited: Duration) {
        if let Some(thread) = self.0.0.lock().as_mut() {
            thread.asked(waited, process::processor());
        }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_responder_is_where_it_was_moved_to_until_requests_come_late() {
        std::thread::spawn(|| {
            let before = Processors::of(0).unwrap();
            let here = process::processor().unwrap();
            let affinity = Affinity::default();
            affinity.move_to(here);
            assert_eq!(Processors::of(0).unwrap(), before, "nobody has it yet");
            let guard = affinity.take();
            let only = Processors::only(here).unwrap();
            let is_at = || Processors::of(0).unwrap();
            affinity.move_to(here);
            assert_eq!(is_at(), only);
            for _ in 0..20 {
                before.set(process::thread_id());
                guard.asked(LATE);
                affinity.move_to(here);
                assert_eq!(is_at(), only, "now and then a request is late");
                guard.asked(Duration::from_micros(1));
                guard.asked(NO_TIME);
                assert_eq!(is_at(), before, "not a time");
            }
            for _ in 0..MOST_LATE {
                affinity.move_to(here);
                guard.asked(LATE);
            }
            assert_eq!(is_at(), before);
            for _ in 0..TRY_AGAIN {
                affinity.move_to(here);
                assert_eq!(is_at(), before);
                guard.asked(Duration::ZERO);
            }
            only.set(process::thread_id());
            guard.asked(LATE);
            assert_eq!(is_at(), before, "somebody has moved it");
            affinity.move_to(here);
            assert_eq!(is_at(), only);
            before.set(process::thread_id());
            affinity.0.lock().as_mut().unwrap().asked(Duration::ZERO, None);
            affinity.move_to(here);
            assert_eq!(is_at(), only, "somebody has moved it, although it was not late");
            drop(guard);
            before.set(process::thread_id());
            affinity.move_to(here);
            assert_eq!(is_at(), before, "it has left");
        })
        .join()
        .unwrap();
    }
}
