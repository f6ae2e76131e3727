//! Where the responder runs: on the processor of the thread that stores.
//!
//! A publish takes write access from all threads of the owner, and the kernel interrupts each
//! processor that one of them is on, which in a virtual machine takes 20 to 50 us, for each range
//! of addresses again. The responder has to be woken in any case, by one such interrupt. On the
//! processor where a trapped store has copied last it then takes write access without another one,
//! as far as a single thread stores, and whoever hooks has a processor for itself meanwhile.
//!
//! Now and then the thread that stores is not interrupted for the responder: the scheduler lets it
//! have the end of its time slice, and looks again some milliseconds later. Then whoever hooks
//! moves the responder to its own processor. Where that happens often (as with kernels that preempt
//! lazily), or stores come from elsewhere by then, the seat is of no use. Each request says when it
//! was sent: after some that were seen late the responder runs wherever the scheduler likes.
//!
//! **Concurrency.** The keeper moves the responder, so that it need not be awake; under a lock that
//! the responder takes to leave, so that its number is not another thread's.

use std::sync::Arc;
use std::time::Duration;

use crate::sys::process::{self, Processors};
use crate::sys::sync::Mutex;

/// A request that is seen later than this has waited for the processor.
const LATE: Duration = Duration::from_micros(200);
/// What is not meant to be a time.
const NO_TIME: Duration = Duration::from_secs(10);
/// So many more late requests than others, and the seat is given up.
const MOST_LATE: u32 = 4;
/// After so many requests it is tried again.
const TRY_AGAIN: u32 = 256;

/// The processor of a responder, shared with whoever moves it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat(Arc<Mutex<Option<Taken>>>);

/// The state of a seat whose thread lives.
#[derive(Debug)]
struct Taken {
    thread: i32,
    /// Where the thread may run in any case.
    anywhere: Processors,
    at: Option<u32>,
    late: u32,
    /// Requests until the seat is taken again.
    given_up: u32,
}

impl Seat {
    /// The calling thread takes the seat, until the result is dropped.
    pub(crate) fn take(&self) -> Seated {
        let taken = Processors::of(0).map(|anywhere| Taken {
            thread: process::thread_id(),
            anywhere,
            at: None,
            late: 0,
            given_up: 0,
        });
        *self.0.lock() = taken;
        Seated(self.clone())
    }

    /// Moves it to a processor; if somebody else is about to, later.
    pub(crate) fn move_to(&self, processor: u32) {
        if let Some(mut seat) = self.0.try_lock()
            && let Some(taken) = seat.as_mut()
        {
            taken.move_to(processor);
        }
    }
}

impl Taken {
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
            let seated = self.at.take().is_some();
            self.late += u32::from(late && seated && waited < NO_TIME);
        }
        if self.late >= MOST_LATE {
            (self.late, self.given_up) = (0, TRY_AGAIN);
        }
    }
}

/// A seat taken by the thread that has this.
#[derive(Debug)]
pub(crate) struct Seated(Seat);

impl Seated {
    /// See [`Taken::asked`].
    pub(crate) fn asked(&self, waited: Duration) {
        if let Some(taken) = self.0.0.lock().as_mut() {
            taken.asked(waited, process::processor());
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_where_it_was_moved_to_until_requests_come_late() {
        std::thread::spawn(|| {
            let before = Processors::of(0).unwrap();
            let here = process::processor().unwrap();
            let seat = Seat::default();
            seat.move_to(here);
            assert_eq!(Processors::of(0).unwrap(), before, "nobody has it yet");
            let seated = seat.take();
            let only = Processors::only(here).unwrap();
            let is_at = || Processors::of(0).unwrap();
            seat.move_to(here);
            assert_eq!(is_at(), only);
            for _ in 0..20 {
                before.set(process::thread_id());
                seated.asked(LATE);
                seat.move_to(here);
                assert_eq!(is_at(), only, "now and then a request is late");
                seated.asked(Duration::from_micros(1));
                seated.asked(NO_TIME);
                assert_eq!(is_at(), before, "not a time");
            }
            for _ in 0..MOST_LATE {
                seat.move_to(here);
                seated.asked(LATE);
            }
            assert_eq!(is_at(), before);
            for _ in 0..TRY_AGAIN {
                seat.move_to(here);
                assert_eq!(is_at(), before);
                seated.asked(Duration::ZERO);
            }
            only.set(process::thread_id());
            seated.asked(LATE);
            assert_eq!(is_at(), before, "somebody has moved it");
            seat.move_to(here);
            assert_eq!(is_at(), only);
            before.set(process::thread_id());
            seat.0.lock().as_mut().unwrap().asked(Duration::ZERO, None);
            seat.move_to(here);
            assert_eq!(is_at(), only, "somebody has moved it, although it was not late");
            drop(seated);
            before.set(process::thread_id());
            seat.move_to(here);
            assert_eq!(is_at(), before, "it has left");
        })
        .join()
        .unwrap();
    }
}
