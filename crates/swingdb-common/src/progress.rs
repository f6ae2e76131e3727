//! How long-running statements and imports tell their caller how far they are.
//!
//! A [`Progress`] is called from a thread of the library about ten times a second while something
//! long runs; it must return quickly and must not call back into the connection it is set on.

/// Receives progress reports; see `Connection::set_progress` of `swingdb`.
pub trait Progress: Send + Sync {
    /// `done` units are finished out of `total`, when that is known; `unit` is "rows" or "bytes".
    fn progress(&self, done: u64, total: Option<u64>, unit: &str);
}

impl<F: Fn(u64, Option<u64>, &str) + Send + Sync> Progress for F {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        self(done, total, unit);
    }
}
