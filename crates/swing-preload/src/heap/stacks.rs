//! Stacks for signal handlers, outside of the heap: one for each thread.
//!
//! Calls that close the heap to stores, as `fork` does and `free` may, run there when the thread's
//! own stack lies in the heap ([`on_other_stack`]).
//!
//! **Concurrency.** A handler stack belongs to its thread until the thread is gone, which only the
//! kernel knows for sure. Then the next thread takes the stack by one compare-and-swap. All are in
//! a list that only grows, by one compare-and-swap, too. **Fork.** The child's only thread keeps
//! its own. **Limits.** [`LOOKS`] stacks are checked for a free one before another is made.

use std::cell::Cell;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libc::*;

use swing_calls::{lend, strict_assert};

/// Address space of a stack for handlers; memory is used as it is stored to. The program's handlers
/// of SIGSEGV run there, too.
const LEN: usize = 256 << 10;
const PAGE: usize = 4096;
const LOOKS: usize = 4;

/// Owners that are no threads.
const NOBODY: pid_t = 0;
const STARTING: pid_t = -1;

/// The upper end of a stack for handlers.
pub(crate) struct Stack {
    /// A thread, or [`NOBODY`] or [`STARTING`].
    owner: AtomicI32,
    next: *mut Stack,
    /// What the thread shall do.
    pub(crate) call: Cell<usize>,
    pub(crate) with: Cell<*mut c_void>,
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
    pub(crate) fn take() -> Option<&'static Self> {
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
    pub(crate) fn enter(&'static self) {
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

    pub(crate) fn give_back(&self) {
        strict_assert!(self.owner.swap(NOBODY, Ordering::AcqRel) == STARTING, "never entered");
    }
}

/// The only thread of a child has another number than in its parent.
pub(super) fn in_child() {
    // SAFETY: what is in the list stays there.
    if let Some(stack) = unsafe { MINE.get().as_ref() } {
        stack.owner.store(thread_id(), Ordering::Release);
    }
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
