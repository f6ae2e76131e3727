//! Mutex and condition variable of the standard library without poisoning.
//!
//! The standard ones are single futex words without any process-wide table. That matters at a fork:
//! the fork handler takes every area's lock, and the child releases its copy. The release must not
//! touch anything that a thread missing in the child may have held.
//!
//! A thread that panics while it holds an area's lock has met a broken invariant, and may have left
//! a change half done. A caller that may continue in spite of this asks [`Mutex::is_poisoned`]; no
//! caller may for an area.

use std::sync::{
    Condvar as StdCondvar, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError, TryLockError,
};

pub(crate) type MutexGuard<'a, T> = StdGuard<'a, T>;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(StdMutex<T>);

#[derive(Debug, Default)]
pub(crate) struct Condvar(StdCondvar);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(StdMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether a thread has panicked with the lock held.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.0.is_poisoned()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
