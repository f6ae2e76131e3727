//! The words of entries and of the writers' gate, so that a model checker can stand in for them:
//! built with `--cfg loom` (`make test-concurrency`) they are those of `loom`, otherwise those of
//! the standard library.
//!
//! A model makes its entries one by one: zeros, of which a part of the table consists, are no words
//! of `loom`.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;

/// Before a load that is sequentially consistent: `loom` takes it for one that acquires.
#[inline(always)]
pub(crate) fn fence_of_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
