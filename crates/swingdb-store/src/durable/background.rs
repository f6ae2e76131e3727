//! A thread that works beside a database until it is done, or told to end: [`Background`].

use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use swingdb_common::error::{Error, Result};

/// The thread, once it was started.
#[derive(Debug, Default)]
pub(super) struct Background {
    stopped: Mutex<bool>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Starts `work`, which asks now and then whether it is to end.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        *self.thread.lock() = Some(thread.map_err(Error::from)?);
        Ok(())
    }

    /// Whether the thread is to end.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.lock()
    }

    /// Waits for so long, or until the thread is to end; whether it is.
    pub fn pause(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.wake.wait_for(&mut stopped, time);
        }
        *stopped
    }

    /// Tells the thread to end, and waits until it has.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
        let thread = self.thread.lock().take();
        // The thread itself may be the last that held the database.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
