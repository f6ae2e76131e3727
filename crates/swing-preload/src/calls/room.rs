//! Room on the stack for a result that belongs into the heap.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use swing::tracked::prepare;

use super::in_heap;

/// Where the kernel writes what is to go to `to`: room of its own when that lies in the heap.
pub(super) struct Room<T> {
    to: *mut T,
    len: usize,
    own: Option<UnsafeCell<MaybeUninit<T>>>,
}

impl<T> Room<T> {
    /// For all of a `T`. What is there already is seen by the call, which may want it.
    ///
    /// # Safety
    /// `to` is null, or a `T` may be written there.
    pub(super) unsafe fn new(to: *mut T) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::with_len(to, size_of::<T>()) }
    }

    /// For the first `len` bytes of a `T`. More than a `T` is left where it is, and made writable.
    ///
    /// # Safety
    /// `to` is null, or so many bytes may be written there.
    pub(super) unsafe fn with_len(to: *mut T, len: usize) -> Self {
        if len > size_of::<T>() || !in_heap(to) {
            prepare(to.cast(), len);
            return Self { to, len, own: None };
        }
        let own = UnsafeCell::new(MaybeUninit::uninit());
        // SAFETY: the caller's promise, and the room has at least that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(to.cast::<u8>(), own.get().cast(), len) };
        Self { to, len, own: Some(own) }
    }

    /// What to pass to the call; as long as this stays where it is.
    pub(super) fn at(&self) -> *mut T {
        self.own.as_ref().map_or(self.to, |own| own.get().cast())
    }

    /// Whether a call that fails with EFAULT may do so because of a publish.
    pub(super) fn is_direct(&self) -> bool {
        self.own.is_none() && !self.to.is_null()
    }

    /// Brings the result to its place if it differs from what is there: an extent is not copied for
    /// a call that wrote nothing.
    ///
    /// # Safety
    /// As for `new`; the call is over.
    pub(super) unsafe fn bring(&self) {
        let Some(own) = &self.own else { return };
        let from = own.get().cast::<u8>();
        // SAFETY: the caller's promise; both have `len` bytes.
        unsafe {
            if libc::memcmp(from.cast(), self.to.cast(), self.len) != 0 {
                std::ptr::copy_nonoverlapping(from, self.to.cast(), self.len);
            }
        }
    }
}
