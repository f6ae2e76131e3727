//! Semaphores, locks and what else threads wait for, made for several processes (`pshared`).
//!
//! The kernel finds who waits for such a one by its memory, which a store exchanges for other
//! memory after a hook: a wake-up would be missed. In the heap, which is no other process's, they
//! are made for this process alone, whose waits go by the address.

use libc::*;
use swing::tracked::is_tracked;

use super::next::own;

/// Makes a semaphore.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_init(sem: *mut sem_t, pshared: c_int, value: c_uint) -> c_int {
    let init = own!(c"sem_init": sem_init(*mut sem_t, c_int, c_uint) -> c_int);
    let pshared = if is_tracked(sem.cast()) { 0 } else { pshared };
    // SAFETY: the caller's promise.
    unsafe { init(sem, pshared, value) }
}

macro_rules! made_for_one {
    ($($text:literal $name:ident($kind:ty, $attributes:ty $(, $more:ident: $more_kind:ty)?)
        $get:ident $set:ident;)*) => {$(
        /// Makes what threads wait for.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            at: *mut $kind,
            attributes: *const $attributes
            $(, $more: $more_kind)?
        ) -> c_int {
            let init =
                own!($text: $name(*mut $kind, *const $attributes $(, $more_kind)?) -> c_int);
            // SAFETY: the caller's promise: attributes are null or valid, and so is a copy.
            unsafe {
                let mut pshared = PTHREAD_PROCESS_PRIVATE;
                if !is_tracked(at.cast())
                    || attributes.is_null()
                    || $get(attributes, &mut pshared) != 0
                    || pshared == PTHREAD_PROCESS_PRIVATE
                {
                    return init(at, attributes $(, $more)?);
                }
                let mut copy = attributes.read();
                $set(&mut copy, PTHREAD_PROCESS_PRIVATE);
                init(at, &copy $(, $more)?)
            }
        }
    )*};
}

made_for_one! {
    c"pthread_mutex_init" pthread_mutex_init(pthread_mutex_t, pthread_mutexattr_t)
        pthread_mutexattr_getpshared pthread_mutexattr_setpshared;
    c"pthread_cond_init" pthread_cond_init(pthread_cond_t, pthread_condattr_t)
        pthread_condattr_getpshared pthread_condattr_setpshared;
    c"pthread_rwlock_init" pthread_rwlock_init(pthread_rwlock_t, pthread_rwlockattr_t)
        pthread_rwlockattr_getpshared pthread_rwlockattr_setpshared;
    c"pthread_barrier_init" pthread_barrier_init(
        pthread_barrier_t, pthread_barrierattr_t, count: c_uint
    ) pthread_barrierattr_getpshared pthread_barrierattr_setpshared;
}
