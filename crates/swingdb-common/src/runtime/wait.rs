//! How a caller's thread waits for what other threads compute.
//!
//! Waiting uses thread parking only, so it works on any thread, also inside another async runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on the caller's thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_ticking(future, Duration::MAX, || {})
}

/// As [`block_on`], calling `tick` every `period` meanwhile.
pub fn block_on_ticking<F: Future>(
    future: F,
    period: Duration,
    mut tick: impl FnMut(),
) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let mut last = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        if period == Duration::MAX {
            std::thread::park();
            continue;
        }
        let passed = last.elapsed();
        if passed >= period {
            tick();
            last = Instant::now();
            continue;
        }
        std::thread::park_timeout(period - passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_while_waiting() {
        let (begun, ticks) = (Instant::now(), std::cell::Cell::new(0));
        // Looked at again after each tick; nothing else wakes it.
        let enough = std::future::poll_fn(|_| match ticks.get() {
            5 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        block_on_ticking(enough, Duration::from_millis(10), || ticks.set(ticks.get() + 1));
        assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
    }
}
