//! Starts of threads: each thread gets a stack for signal handlers outside of the heap, which the
//! program does not see.
//!
//! A store on a stack in the heap, such as a coroutine's, is trapped like any other, but the heap's
//! handler needs another stack to run on. We cannot know which threads will ever use such a stack.
//! A stack in the heap that would be a whole thread's is replaced by an ordinary one, because the C
//! library keeps the thread's state there, and the kernel stores into it. Calls that close the heap
//! to stores, as
//! `fork` does and `free` may, run on the stack for handlers ([`on_other_stack`]).
//!
//! **Concurrency.** A handler stack belongs to its thread until the thread is gone, which only the
//! kernel knows for sure. Then the next thread takes the stack by one compare-and-swap. All are in
//! a list that only grows, by one compare-and-swap, too. **Fork.** The child's only thread keeps
//! its own. **Limits.** [`LOOKS`] stacks are checked for a free one before another is made.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libc::*;

use swing_calls::{lend, strict_assert};

use super::{last, own};
use crate::heap;

/// Address space of a stack for handlers; memory is used as it is stored to. The program's handlers
/// of SIGSEGV run there, too.
const LEN: usize = 256 << 10;
const PAGE: usize = 4096;
const LOOKS: usize = 4;

/// Owners that are no threads.
const NOBODY: pid_t = 0;
const STARTING: pid_t = -1;

/// The upper end of a stack for handlers.
struct Stack {
    /// A thread, or [`NOBODY`] or [`STARTING`].
    owner: AtomicI32,
    next: *mut Stack,
    /// What the thread shall do.
    call: Cell<usize>,
    with: Cell<*mut c_void>,
}

static NEWEST: AtomicPtr<Stack> = AtomicPtr::new(null_mut());
/// Where the next look for a free one begins.
static CURSOR: AtomicPtr<Stack> = AtomicPtr::new(null_mut());

thread_local! {
    static MINE: Cell<*const Stack> = const { Cell::new(null()) };
}

fn thread_id() -> pid_t {
    // SAFETY: asks only.
    unsafe { gettid() }
}

/// Whether a thread of this process has ended, also for the kernel.
fn is_gone(thread: pid_t) -> bool {
    // SAFETY: asks only.
    let asked = unsafe { tgkill(getpid(), thread, 0) };
    asked != 0 && std::io::Error::last_os_error().raw_os_error() == Some(ESRCH)
}

impl Stack {
    /// One that no thread uses; `None` when there is no memory.
    fn take() -> Option<&'static Self> {
        let found = (0..LOOKS).find_map(|_| {
            let mut at = CURSOR.load(Ordering::Acquire);
            if at.is_null() {
                at = NEWEST.load(Ordering::Acquire);
            }
            // SAFETY: what is in the list stays there.
            let stack: &'static Self = unsafe { at.as_ref() }?;
            CURSOR.store(stack.next, Ordering::Release);
            stack.claim().then_some(stack)
        });
        found.or_else(Self::new)
    }

    fn claim(&self) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        let free = owner == NOBODY || (owner != STARTING && is_gone(owner));
        let (order, other) = (Ordering::AcqRel, Ordering::Relaxed);
        free && self.owner.compare_exchange(owner, STARTING, order, other).is_ok()
    }

    /// Below it is a page that nobody may touch.
    fn new() -> Option<&'static Self> {
        let kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let at = unsafe { mmap(null_mut(), LEN, PROT_READ | PROT_WRITE, kind, -1, 0) };
        if at == MAP_FAILED {
            return None;
        }
        let stack = at.wrapping_byte_add(LEN - size_of::<Self>()).cast::<Self>();
        strict_assert!(stack.is_aligned(), "its end is a page's");
        let (owner, call, with) = (AtomicI32::new(STARTING), Cell::new(0), Cell::new(null_mut()));
        // SAFETY: nobody else knows this mapping.
        unsafe {
            mprotect(at, PAGE, PROT_NONE);
            stack.write(Self { owner, next: null_mut(), call, with });
        }
        let mut newest = NEWEST.load(Ordering::Acquire);
        loop {
            // SAFETY: nobody looks at it before it is in the list.
            unsafe { (*stack).next = newest };
            let (order, other) = (Ordering::AcqRel, Ordering::Acquire);
            match NEWEST.compare_exchange_weak(newest, stack, order, other) {
                // SAFETY: written above, and never unmapped.
                Ok(_) => return Some(unsafe { &*stack }),
                Err(other) => newest = other,
            }
        }
    }

    /// From now on the kernel calls this thread's handlers here.
    fn enter(&'static self) {
        strict_assert!(self.owner.load(Ordering::Acquire) == STARTING, "one thread's");
        self.owner.store(thread_id(), Ordering::Release);
        MINE.set(self);
        let range = self.range();
        // SAFETY: the stack is this thread's as long as it lives.
        unsafe { lend(range.start as *mut c_void, range.len()) };
    }

    /// The addresses of the stack proper.
    fn range(&self) -> Range<usize> {
        let end = (&raw const *self).addr() & !15;
        end.next_multiple_of(PAGE) - LEN + PAGE..end
    }

    fn give_back(&self) {
        strict_assert!(self.owner.swap(NOBODY, Ordering::AcqRel) == STARTING, "never entered");
    }
}

/// For the main thread.
pub(super) fn begin() {
    if let Some(stack) = Stack::take() {
        stack.enter();
    }
}

/// The only thread of a child has another number than in its parent.
pub(crate) fn in_child() {
    // SAFETY: what is in the list stays there.
    if let Some(stack) = unsafe { MINE.get().as_ref() } {
        stack.owner.store(thread_id(), Ordering::Release);
    }
    last::in_child();
}

/// Runs `work` on this thread's stack for handlers, if it has one. A handler that interrupts it
/// goes on below it.
#[cold]
#[inline(never)]
pub(crate) fn on_other_stack<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: what is in the list stays there.
    let Some(stack) = (unsafe { MINE.get().as_ref() }) else { return work() };
    let (mut work, mut result) = (Some(work), None);
    let mut run = || result = work.take().map(|work| work());
    let mut run: &mut dyn FnMut() = &mut run;
    // SAFETY: the stack is this thread's, which runs in the heap and so not there; `run` is what
    // `call` expects, and unwinds into nobody's code.
    unsafe { switch(stack.range().end, call, (&raw mut run).cast()) };
    result.unwrap_or_else(|| swing_calls::broken("swing: not so: what was called returned\n"))
}

extern "C" fn call(run: *mut c_void) {
    // SAFETY: from `on_other_stack`.
    unsafe { (*run.cast::<&mut dyn FnMut()>())() };
}

/// # Safety
/// `end` is the end of a stack that nobody uses; `call` may be called with `with`.
#[cfg(target_arch = "x86_64")]
unsafe fn switch(end: usize, call: extern "C" fn(*mut c_void), with: *mut c_void) {
    // SAFETY: the register that keeps the stack's pointer is one that functions preserve.
    unsafe {
        std::arch::asm!(
            "xchg rsp, r12", "call {call}", "mov rsp, r12",
            call = in(reg) call, in("rdi") with, inout("r12") end => _, clobber_abi("C"),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn switch(_end: usize, call: extern "C" fn(*mut c_void), with: *mut c_void) {
    call(with);
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
