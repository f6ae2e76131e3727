//! The locks of a scan. They are those of the standard library also in models
//! ([`crate::sync`]), which do not scan.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what each holder leaves whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
