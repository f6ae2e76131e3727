//! The atomics that gates are made of, so that a model checker can stand in for them: built with
//! `--cfg loom` (`make test-concurrency`) they are those of `loom`, otherwise those of the standard
//! library.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, fence};
#[cfg(not(loom))]
pub(crate) use std::{hint::spin_loop, thread::yield_now};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, fence};
#[cfg(loom)]
pub(crate) use loom::{hint::spin_loop, thread::yield_now};

/// The cheap half of an asymmetric fence: orders what the compiler does. Whoever makes all threads
/// pass a barrier (`membarrier`) makes a full fence of it, and so does a model.
#[inline(always)]
pub(crate) fn light_fence() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
