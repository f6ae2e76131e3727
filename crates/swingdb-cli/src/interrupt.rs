//! Ctrl-C ends the running statement, not the shell.
//!
//! Only the shell installs the handler: anywhere else Ctrl-C ends the program, which loses nothing
//! that was committed.

use std::sync::{Mutex, OnceLock, PoisonError};
use swingdb::Connection;

type Interrupt = Box<dyn Fn() + Send>;

/// What to do when Ctrl-C arrives.
static RUNNING: Mutex<Option<Interrupt>> = Mutex::new(None);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// From now on Ctrl-C interrupts what this session runs.
pub fn attach(connection: &Connection) {
    let handle = connection.interrupt_handle();
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    *running = Some(Box::new(move || handle.interrupt()));
    drop(running);
    INSTALLED.get_or_init(|| {
        let handler = || {
            let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(interrupt) = running.as_ref() {
                interrupt();
            }
        };
        // Without the handler Ctrl-C ends the program, as everywhere else.
        let _ = ctrlc::set_handler(handler);
    });
}
