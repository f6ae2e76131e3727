//! Starts of threads: each thread gets a stack for signal handlers outside of the heap, which the
//! program does not see ([`crate::heap::Stack`]).
//!
//! A store on a stack in the heap, such as a coroutine's, is trapped like any other, but the heap's
//! handler needs another stack to run on. We cannot know which threads will ever use such a stack.
//! A stack in the heap that would be a whole thread's is replaced by an ordinary one, because the C
//! library keeps the thread's state there, and the kernel stores into it.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::*;

use super::last;
use super::next::own;
use crate::heap::{self, Stack, on_other_stack};

/// For the main thread.
pub(super) fn begin() {
    if let Some(stack) = Stack::take() {
        stack.enter();
    }
}

/// Creates a child process.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    let next = own!(c"fork": fork() -> pid_t);
    // SAFETY: as the function asks for.
    let all = || unsafe { next() };
    if heap::on_heap() { on_other_stack(all) } else { all() }
}

type Routine<R> = extern "C-unwind" fn(*mut c_void) -> R;

/// The first that a thread does. It may be cancelled inside of `call`: nothing is to be torn down.
extern "C-unwind" fn start<R>(stack: *mut c_void) -> R {
    // SAFETY: from `with_stack`; what is in the list stays there.
    let stack = unsafe { &*stack.cast::<Stack>() };
    let (call, with) = (stack.call.get(), stack.with.get());
    stack.enter();
    last::begin_thread();
    // SAFETY: the program's routine, of this type.
    let call = unsafe { std::mem::transmute::<usize, Routine<R>>(call) };
    call(with)
}

/// Has `create` start a thread with this routine, or with one that gives it a stack before.
fn with_stack<R>(
    call: Routine<R>,
    with: *mut c_void,
    create: impl FnOnce(Routine<R>, *mut c_void) -> c_int,
) -> c_int {
    if heap::is_inside() || swing::descriptors::is_library_at_work() {
        // It ends with the process.
        last::begin_own();
        return create(call, with);
    }
    let stack = if heap::exists() { Stack::take() } else { None };
    let Some(stack) = stack else { return create(call, with) };
    stack.call.set(call as usize);
    stack.with.set(with);
    last::expect();
    let refused = create(start::<R>, (&raw const *stack).cast_mut().cast());
    if refused != 0 {
        last::expect_no_more();
        stack.give_back();
    }
    refused
}

/// Starts a thread; one on a stack in the heap gets another stack of that length.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    out: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine<*mut c_void>,
    with: *mut c_void,
) -> c_int {
    let next = own!(
        c"pthread_create":
        pthread_create(
            *mut pthread_t, *const pthread_attr_t, Routine<*mut c_void>, *mut c_void
        ) -> c_int
    );
    // SAFETY: the caller's promise.
    let mut other = unsafe { attributes.as_ref() }.and_then(elsewhere);
    let given = other.as_ref().map_or(attributes, std::ptr::from_ref);
    // SAFETY: as above; the other attributes are as good.
    let result = with_stack(routine, with, |call, with| unsafe { next(out, given, call, with) });
    if let Some(other) = &mut other {
        // SAFETY: made by `elsewhere`.
        unsafe { pthread_attr_destroy(other) };
    }
    result
}

/// C11's start of a thread.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    out: *mut pthread_t,
    routine: Routine<c_int>,
    with: *mut c_void,
) -> c_int {
    let next =
        own!(c"thrd_create": thrd_create(*mut pthread_t, Routine<c_int>, *mut c_void) -> c_int);
    // SAFETY: as the function asks for.
    with_stack(routine, with, |call, with| unsafe { next(out, call, with) })
}

/// The same attributes with another stack, if they have one in the heap.
fn elsewhere(from: &pthread_attr_t) -> Option<pthread_attr_t> {
    let (mut at, mut len) = (null_mut(), 0);
    // SAFETY: valid attributes and results, here and below.
    let known = unsafe { pthread_attr_getstack(from, &raw mut at, &raw mut len) } == 0;
    if !known || len == 0 || heap::offset(at.cast()).is_none() {
        return None;
    }
    let mut new = MaybeUninit::<pthread_attr_t>::uninit();
    let mut number = 0;
    // SAFETY: zeros are valid.
    let mut priority: sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut processors: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut mask: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above. What cannot be asked stays as it is by default.
    unsafe {
        if pthread_attr_init(new.as_mut_ptr()) != 0 {
            return None;
        }
        let mut new = new.assume_init();
        pthread_attr_setstacksize(&raw mut new, len);
        macro_rules! copy {
            ($($get:ident, $set:ident, $value:ident;)*) => {$(
                if $get(from, &raw mut $value) == 0 {
                    $set(&raw mut new, $value);
                }
            )*};
        }
        copy! {
            pthread_attr_getdetachstate, pthread_attr_setdetachstate, number;
            pthread_attr_getinheritsched, pthread_attr_setinheritsched, number;
            pthread_attr_getschedpolicy, pthread_attr_setschedpolicy, number;
        }
        if pthread_attr_getschedparam(from, &raw mut priority) == 0 {
            pthread_attr_setschedparam(&raw mut new, &raw const priority);
        }
        let size = size_of::<cpu_set_t>();
        // All of them: none were set.
        if pthread_attr_getaffinity_np(from, size, &raw mut processors) == 0
            && CPU_COUNT(&processors) < 8 * size as c_int
        {
            pthread_attr_setaffinity_np(&raw mut new, size, &raw const processors);
        }
        if pthread_attr_getsigmask_np(from, &raw mut mask) == 0 {
            pthread_attr_setsigmask_np(&raw mut new, &raw const mask);
        }
        Some(new)
    }
}

unsafe extern "C" {
    fn pthread_attr_getstack(
        attributes: *const pthread_attr_t,
        at: *mut *mut c_void,
        len: *mut size_t,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, out: *mut c_int) -> c_int;
    fn pthread_attr_getsigmask_np(attributes: *const pthread_attr_t, out: *mut sigset_t) -> c_int;
    fn pthread_attr_setsigmask_np(attributes: *mut pthread_attr_t, mask: *const sigset_t) -> c_int;
}
