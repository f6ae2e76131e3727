//! Ending a running statement from another thread.
//!
//! Every statement runs under a [`CancelToken`]; the session knows the tokens of its running
//! statements and of results still being read. [`InterruptHandle::interrupt`] cancels them all:
//! waiting consumers wake at once with [`Error::Interrupted`], and the tasks that compute are
//! aborted at their next pause. An interrupt with nothing running does nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Ends the statements a session is running; see
/// [`Connection::interrupt_handle`](crate::Connection::interrupt_handle).
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    running: Arc<Running>,
}

impl InterruptHandle {
    /// Ends the running statement with [`Error::Interrupted`], within about 100 ms.
    pub fn interrupt(&self) {
        for token in self.running.tokens.lock().iter().filter_map(Weak::upgrade) {
            token.cancel();
        }
    }
}

/// The statements of a session that an interrupt reaches.
#[derive(Debug, Default)]
pub(crate) struct Running {
    tokens: Mutex<Vec<Weak<Cancel>>>,
}

impl Running {
    /// A token for a statement that starts now; forgotten when its last clone is dropped.
    pub(crate) fn start(self: &Arc<Self>) -> CancelToken {
        let token = Arc::new(Cancel::default());
        let mut tokens = self.tokens.lock();
        tokens.retain(|t| t.strong_count() > 0);
        tokens.push(Arc::downgrade(&token));
        CancelToken(token)
    }

    pub(crate) fn handle(self: &Arc<Self>) -> InterruptHandle {
        InterruptHandle { running: Arc::clone(self) }
    }
}

#[derive(Debug, Default)]
struct Cancel {
    cancelled: AtomicBool,
    wake: Notify,
}

impl Cancel {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }
}

/// Tells a statement that it is to end.
#[derive(Clone, Debug)]
pub(crate) struct CancelToken(Arc<Cancel>);

impl CancelToken {
    /// Whether the statement is to end; long loops ask at least every 10 ms.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// [`Error::Interrupted`] when the statement is to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Ends when the statement is to end.
    pub(crate) async fn cancelled(&self) {
        let mut woken = std::pin::pin!(self.0.wake.notified());
        // Registered before the flag is read, so that a cancel in between is not missed.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_reaches_what_runs_and_nothing_that_starts_later() {
        let running = Arc::new(Running::default());
        let first = running.start();
        running.handle().interrupt();
        let second = running.start();
        assert!(matches!(first.check(), Err(Error::Interrupted)));
        assert!(second.check().is_ok());
        drop(first);
        assert_eq!(running.tokens.lock().iter().filter(|t| t.strong_count() > 0).count(), 1);
    }
}
