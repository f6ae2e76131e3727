//! The atomics that threads compete by, so that a model checker can stand in for them.
//!
//! Built with `--cfg loom` (`make test-concurrency`) they are those of `loom`, which runs a model
//! once for each order that its threads' steps can come in, and for each value that a load may
//! return. The models are next to what they are about (`models.rs`). Otherwise they are those of
//! the standard library.
//!
//! `loom` takes loads and stores that are sequentially consistent for acquire and release ones. A
//! fence before each makes up for it: that is how they are compiled for processors with weak
//! orders.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, fence,
};
#[cfg(not(loom))]
pub(crate) use std::{hint::spin_loop, thread::yield_now};

pub(crate) use std::sync::atomic::Ordering;

#[cfg(loom)]
pub(crate) use self::modelled::*;

/// Zeros, whose pages stay untouched: that matters for areas that reserve hundreds of gigabytes.
#[cfg(not(loom))]
pub(crate) fn zeros(len: u32) -> Box<[AtomicU32]> {
    let zeros = vec![0u32; len as usize].into_boxed_slice();
    // SAFETY: `AtomicU32` has the size, alignment and validity of `u32`.
    unsafe { Box::from_raw(Box::into_raw(zeros) as *mut [AtomicU32]) }
}

#[cfg(loom)]
#[allow(dead_code, reason = "all atomics have the same methods")]
mod modelled {
    use std::sync::atomic::Ordering;

    use loom::sync::atomic;
    pub(crate) use loom::sync::atomic::fence;
    pub(crate) use loom::{hint::spin_loop, thread::yield_now};

    pub(crate) fn zeros(len: u32) -> Box<[AtomicU32]> {
        (0..len).map(|_| AtomicU32::new(0)).collect()
    }

    fn order(order: Ordering) -> Ordering {
        if order == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
        order
    }

    /// Runs a model in each order of its threads' steps in which they are interrupted three times
    /// at most. Without a limit some models take hours.
    #[cfg(test)]
    pub(crate) fn model(act: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(act);
    }

    macro_rules! atomic {
        ($name:ident $(<$of:ident>)?, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name $(<$of>)? (atomic::$name $(<$of>)?);

            impl $(<$of>)? $name $(<$of>)? {
                pub(crate) fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }
                pub(crate) fn load(&self, o: Ordering) -> $value {
                    self.0.load(order(o))
                }
                pub(crate) fn store(&self, value: $value, o: Ordering) {
                    self.0.store(value, order(o));
                }
                pub(crate) fn swap(&self, value: $value, o: Ordering) -> $value {
                    self.0.swap(value, order(o))
                }
                pub(crate) fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    o: Ordering,
                    failed: Ordering,
                ) -> Result<$value, $value> {
                    self.0.compare_exchange(old, new, order(o), failed)
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!($name, $value);

            impl Default for $name {
                fn default() -> Self {
                    Self::new(0)
                }
            }

            impl $name {
                pub(crate) fn fetch_add(&self, n: $value, o: Ordering) -> $value {
                    self.0.fetch_add(n, order(o))
                }
                pub(crate) fn fetch_sub(&self, n: $value, o: Ordering) -> $value {
                    self.0.fetch_sub(n, order(o))
                }
                pub(crate) fn fetch_or(&self, n: $value, o: Ordering) -> $value {
                    self.0.fetch_or(n, order(o))
                }
                pub(crate) fn fetch_and(&self, n: $value, o: Ordering) -> $value {
                    self.0.fetch_and(n, order(o))
                }
                pub(crate) fn fetch_max(&self, n: $value, o: Ordering) -> $value {
                    self.0.fetch_max(n, order(o))
                }
                pub(crate) fn fetch_update(
                    &self,
                    o: Ordering,
                    failed: Ordering,
                    f: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    self.0.fetch_update(order(o), failed, f)
                }
            }
        };
    }

    number!(AtomicI32, i32);
    number!(AtomicU32, u32);
    number!(AtomicUsize, usize);
    atomic!(AtomicBool, bool);
    atomic!(AtomicPtr<T>, *mut T);

    impl Default for AtomicBool {
        fn default() -> Self {
            Self::new(false)
        }
    }
}
