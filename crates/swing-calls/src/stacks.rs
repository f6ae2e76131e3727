//! `sigaltstack`: a stack for signal handlers that lies in an area is no good to the kernel, which
//! stores a frame there before any handler runs; where that faults it kills the process. So the
//! kernel gets other memory of the same length, and the program is told of its own.
//!
//! A thread that runs on a stack in an area, as a coroutine's from `malloc`, cannot take a fault
//! there either: [`lend`] gives it a stack for handlers that the program does not see.
//!
//! **Concurrency.** A stack is its thread's. **Fork.** The child's only thread keeps its copy.

use std::cell::Cell;
use std::ptr::null_mut;

use libc::{SS_DISABLE, c_int, c_void, stack_t};

use crate::copy::{NOWHERE, touches_area};
use crate::next::{keeping_errno, own};
use crate::slot::{Slot, Use, told};

/// What stands in for a stack in an area.
struct Stack {
    theirs: *mut c_void,
    ours: *mut c_void,
    len: usize,
}

impl Stack {
    fn new(theirs: &stack_t) -> Option<Self> {
        let (kind, access) =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        let len = theirs.ss_size;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let ours = unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) };
        (ours != libc::MAP_FAILED).then_some(Self { theirs: theirs.ss_sp, ours, len })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        keeping_errno(|| {
            let call = own!(sigaltstack(*const stack_t, *mut stack_t) -> c_int);
            let other = without();
            // SAFETY: its own mapping. When the thread ends the kernel may still have it.
            unsafe {
                let mut present: stack_t = std::mem::zeroed();
                call(std::ptr::null(), &raw mut present);
                if present.ss_sp == self.ours && call(&raw const other, null_mut()) != 0 {
                    // A handler is running on it: then it stays.
                    return;
                }
                strict_assert!(libc::munmap(self.ours, self.len) == 0, "a mapping of its own");
            }
        });
    }
}

thread_local! {
    static STACK: Cell<Option<Stack>> = const { Cell::new(None) };
    /// What the kernel has as long as the program has set none.
    static LENT: Cell<stack_t> = const { Cell::new(NONE) };
}

const NONE: stack_t = stack_t { ss_sp: null_mut(), ss_flags: SS_DISABLE, ss_size: 0 };
/// `SS_AUTODISARM` of the kernel's interface.
const FLAG_BITS: c_int = 1 << 31;

/// What the kernel gets where the program has no stack.
fn without() -> stack_t {
    LENT.get()
}

/// Gives this thread a stack for signal handlers wherever the program has set none, so that stores
/// are trapped on stacks in areas. The program is told of none.
///
/// # Safety
/// Nobody else uses so many bytes there, as long as the thread lives.
pub unsafe fn lend(at: *mut c_void, len: usize) {
    strict_assert!(len >= libc::MINSIGSTKSZ, "room for a handler");
    strict_assert!(!touches_area(at.cast(), len), "where the kernel can store");
    keeping_errno(|| {
        let call = own!(sigaltstack(*const stack_t, *mut stack_t) -> c_int);
        let lent = stack_t { ss_sp: at, ss_flags: 0, ss_size: len };
        let mut present = NONE;
        LENT.set(lent);
        // SAFETY: valid structures; the caller's promise.
        unsafe {
            let asked = call(std::ptr::null(), &raw mut present);
            if asked == 0 && present.ss_flags & SS_DISABLE != 0 {
                call(&raw const lent, null_mut());
            }
        }
    });
}

/// The C library's function of this name; the stack, and what is told, may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    let call = own!(sigaltstack(*const stack_t, *mut stack_t) -> c_int);
    let readable = new.addr() >= NOWHERE;
    // SAFETY: the caller's promise, if it is not null.
    let asked = readable.then(|| unsafe { new.read() });
    let moved = asked.filter(|stack| {
        stack.ss_flags & SS_DISABLE == 0
            && stack.ss_size >= libc::MINSIGSTKSZ
            && touches_area(stack.ss_sp.cast(), stack.ss_size)
    });
    let stack = keeping_errno(|| moved.as_ref().and_then(Stack::new));
    let lent = Some(without()).filter(|lent| !lent.ss_sp.is_null());
    let given = match (asked, &stack) {
        (Some(asked), Some(stack)) => Some(stack_t { ss_sp: stack.ours, ..asked }),
        (Some(asked), None) if asked.ss_flags & !FLAG_BITS == SS_DISABLE => lent,
        _ => None,
    };
    let mut slots = [Slot::new(old.cast(), size_of::<stack_t>(), Use::Both)];
    let told_at: *mut stack_t = slots[0].at().cast();
    // SAFETY: as the function asks for; a stack in place of another is as long.
    let result = unsafe { call(given.as_ref().map_or(new, std::ptr::from_ref), told_at) };
    let remember = |present: &Cell<Option<Stack>>| {
        let before = present.take();
        if result == 0 && told_at.addr() >= NOWHERE {
            // SAFETY: the kernel has just stored there.
            let told = unsafe { &mut *told_at };
            if let Some(stack) = before.as_ref().filter(|s| s.ours == told.ss_sp) {
                told.ss_sp = stack.theirs;
            } else if lent.is_some_and(|lent| lent.ss_sp == told.ss_sp) {
                *told = NONE;
            }
        }
        let changed = result == 0 && !new.is_null();
        // What stood in for the one before goes.
        present.set(if changed { stack } else { before });
    };
    // A thread's first use of it allocates, and that may wait for others.
    let present = keeping_errno(|| STACK.try_with(remember));
    debug_assert!(present.is_ok() || result != 0 || new.is_null(), "set while the thread ends");
    told(result, &mut slots, result.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use swing::{Area, AreaOptions, ByteLen, Namespace, Publish};

    const LEN: usize = 64 << 10;

    fn area(home: &std::path::Path) -> Arc<Area> {
        let namespace = Namespace::open(home).unwrap();
        let options = AreaOptions::with_reserve(ByteLen::mib(64));
        let area = namespace.create_unnamed(&options).unwrap();
        area.track().unwrap();
        Arc::new(area)
    }

    fn present() -> stack_t {
        // SAFETY: zeros are valid, and overwritten.
        unsafe {
            let mut now: stack_t = std::mem::zeroed();
            assert_eq!(sigaltstack(std::ptr::null(), &raw mut now), 0);
            now
        }
    }

    #[test]
    fn a_stack_in_an_area_is_the_programs_but_not_the_kernels() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let area = area(home.path());
        std::thread::spawn(move || {
            let before = present();
            // SAFETY: inside the area, where nothing else is.
            let at = unsafe { area.base().as_ptr().add(4 << 20) };
            let mine = stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: LEN };
            let mut told = before;
            // SAFETY: valid structures.
            assert_eq!(unsafe { sigaltstack(&raw const mine, &raw mut told) }, 0);
            assert_eq!(told.ss_sp, before.ss_sp);
            area.publish(Publish::Shared, b"").unwrap();
            // SAFETY: zeros are valid; the handler only asks where it is.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_its_stack as extern "C" fn(c_int) as usize;
                action.sa_flags = libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, null_mut()), 0);
                assert_eq!(libc::raise(libc::SIGURG), 0);
            }
            assert_eq!((present().ss_sp, present().ss_size), (mine.ss_sp, LEN));
            for _ in 0..3 {
                // SAFETY: valid structures.
                assert_eq!(unsafe { sigaltstack(&raw const mine, &raw mut told) }, 0);
                assert_eq!(told.ss_sp, mine.ss_sp, "a stack that was set is told");
            }
            // SAFETY: as above.
            assert_eq!(unsafe { sigaltstack(&raw const before, &raw mut told) }, 0);
            assert_eq!(present().ss_sp, before.ss_sp);
            // SAFETY: as above. Left set: the thread's end takes it away.
            assert_eq!(unsafe { sigaltstack(&raw const mine, null_mut()) }, 0);
        })
        .join()
        .unwrap();
    }

    extern "C" fn on_its_stack(_signal: c_int) {
        assert_eq!(present().ss_flags & libc::SS_ONSTACK, libc::SS_ONSTACK);
    }

    #[test]
    fn wrong_stacks_are_refused_as_elsewhere() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let area = area(home.path());
        let before = present();
        let at = area.base().as_ptr().cast();
        for (flags, len) in [(0, 100), (77, LEN)] {
            let wrong = stack_t { ss_sp: at, ss_flags: flags, ss_size: len };
            // SAFETY: a valid structure.
            assert_eq!(unsafe { sigaltstack(&raw const wrong, null_mut()) }, -1);
            assert_eq!(present().ss_sp, before.ss_sp);
        }
        let nowhere = std::ptr::dangling();
        // SAFETY: the kernel refuses it.
        assert_eq!(unsafe { sigaltstack(nowhere, null_mut()) }, -1);
        assert_eq!(crate::next::errno(), libc::EFAULT);
    }
}
