//! Where the partitions of one execution of an operator find each other: [`Meeting`].

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use parking_lot::Mutex;

/// The state that the partitions of an execution share. A plan may be executed again, each
/// partition once each time.
pub(crate) struct Meeting<T>(Mutex<State<T>>);

struct State<T> {
    /// Held until all partitions have it: an early one may end before a late one begins.
    held: Option<Arc<T>>,
    running: Weak<T>,
    /// Partitions that have not asked for it.
    missing: usize,
}

impl<T> Default for Meeting<T> {
    fn default() -> Self {
        Self(Mutex::new(State { held: None, running: Weak::new(), missing: 0 }))
    }
}

impl<T> fmt::Debug for Meeting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meeting {{ missing: {} }}", self.0.lock().missing)
    }
}

impl<T> Meeting<T> {
    /// The state of the execution that one of its `partitions` takes part in; the first one begins
    /// it.
    pub(crate) fn join(
        &self,
        partitions: usize,
        begin: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut state = self.0.lock();
        let running = match state.running.upgrade() {
            Some(running) if state.missing > 0 => running,
            _ => {
                let running = Arc::new(begin()?);
                *state = State {
                    held: Some(Arc::clone(&running)),
                    running: Arc::downgrade(&running),
                    missing: partitions,
                };
                running
            }
        };
        state.missing -= 1;
        if state.missing == 0 {
            state.held = None;
        }
        Ok(running)
    }
}
