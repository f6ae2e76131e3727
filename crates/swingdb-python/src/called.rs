//! Whether a thread of the engine is inside of a function that is written in Python.

use std::cell::Cell;

thread_local! {
    /// Whether this thread of the engine is inside of a function.
    static CALLED: Cell<bool> = const { Cell::new(false) };
}

/// As long as it lives, this thread is inside of a function.
pub struct Called {
    before: bool,
}

impl Called {
    pub fn begin() -> Self {
        Self { before: CALLED.replace(true) }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        CALLED.set(self.before);
    }
}

/// Whether this thread is inside of a function: then it must not wait for the engine, whose thread
/// it is.
pub fn is_called() -> bool {
    CALLED.get()
}
