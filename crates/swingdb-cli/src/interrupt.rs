//! Ctrl-C ends the running statement.
//!
//! The shell goes on after it. Other commands fail with it, and so end in order: an export takes
//! its unfinished file away first. A command that does not hear of it, because it runs no statement
//! or waits for something, is ended by the second Ctrl-C.

use crate::failure::INTERRUPTED;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use swingdb::Connection;

type Interrupt = Box<dyn Fn() + Send>;

/// What to do when Ctrl-C arrives.
static RUNNING: Mutex<Option<Interrupt>> = Mutex::new(None);
static INSTALLED: OnceLock<()> = OnceLock::new();
/// Whether the next Ctrl-C ends the program.
static LAST: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C interrupts what this session runs; the second one ends the program.
pub fn attach_once(connection: &Connection) {
    let handle = connection.interrupt_handle();
    install(Box::new(move || {
        if LAST.swap(true, Ordering::AcqRel) {
            swingdb::exit_now(INTERRUPTED);
        }
        handle.interrupt();
    }));
}

/// From now on Ctrl-C interrupts what this session runs.
pub fn attach(connection: &Connection) {
    let handle = connection.interrupt_handle();
    install(Box::new(move || handle.interrupt()));
}

fn install(interrupt: Interrupt) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    *running = Some(interrupt);
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
