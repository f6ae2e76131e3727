//! How long a call waits for an object that others use.

use std::time::{Duration, Instant};

use crate::entry::Handle;
use crate::error::HeapError;

/// Waits a little longer each time, and not for ever.
pub(crate) struct Patience {
    started: Option<Instant>,
    most: Duration,
    rounds: u32,
}

impl Patience {
    pub(crate) fn new(most: Duration) -> Self {
        Patience { started: None, most, rounds: 0 }
    }

    pub(crate) fn wait(&mut self, handle: Handle) -> Result<(), HeapError> {
        let waited = self.started.get_or_insert_with(Instant::now).elapsed();
        if waited > self.most {
            return Err(HeapError::InUse { handle, waited_ms: waited.as_millis() as u64 });
        }
        self.rounds += 1;
        match self.rounds {
            0..16 => std::hint::spin_loop(),
            16..64 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        Ok(())
    }
}
