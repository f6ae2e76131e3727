//! The locks and atomics by which threads agree, so that a model checker can stand in for them:
//! built with `--cfg loom` (`make test-concurrency`) they are those of `loom`, which runs a model
//! once for each order of its threads' steps. Otherwise they are those of the standard library.
//!
//! Whoever writes one word and then looks at another needs a `fence` in between: `loom` takes
//! sequentially consistent loads and stores for weaker ones.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// Whether a thread has panicked with the lock held: what it protects may be half changed. In a
/// model a panic ends everything.
pub(crate) fn is_poisoned<T>(mutex: &Mutex<T>) -> bool {
    #[cfg(not(loom))]
    let poisoned = mutex.is_poisoned();
    #[cfg(loom)]
    let (_, poisoned) = (mutex, false);
    poisoned
}
