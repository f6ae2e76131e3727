//! Calls whose arguments are of any kind and length: `ioctl`, `fcntl`, `prctl`, `semctl` and
//! `syscall`.

use std::sync::OnceLock;

use libc::*;
use swing::tracked;

use crate::next::Next;
use crate::slot::{Slot, Use, again};

/// The most that the number of an `ioctl` says about the size of its argument; so much is made
/// writable whatever it says, because older numbers say nothing, and other calls neither.
const COMMAND_BYTES: usize = 1 << 14;

fn exposed(argument: usize) -> Slot {
    // What is no address in an area is no address to us.
    let len = if tracked::is_tracked(argument as *const u8) { COMMAND_BYTES } else { 0 };
    Slot::new(argument as *mut c_void, len, Use::Exposed)
}

macro_rules! commands {
    ($($name:ident($($arg:ident: $kind:ty),*; $($last:ident),*);)*) => {$(
        /// Makes its arguments writable, as far as they are addresses. What those point to in turn
        /// stays as it is. (The C library's takes any number of arguments, and looks at these.)
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $kind),*, $($last: usize),*) -> c_int {
            static NEXT: Next = Next::new(crate::name!($name));
            type Call = unsafe extern "C-unwind" fn($($kind),*, ...) -> c_int;
            // SAFETY: the C library's function of this name has this signature.
            let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
            let slots = [$(exposed($last)),*];
            let mut tries = 0;
            loop {
                slots.iter().for_each(Slot::prepare);
                // SAFETY: as the function asks for.
                let result = unsafe { call($($arg),*, $($last),*) };
                if !again(result.into(), &slots, &mut tries) {
                    return result;
                }
            }
        }
    )*};
}

commands! {
    ioctl(fd: c_int, request: c_ulong; argument);
    fcntl(fd: c_int, command: c_int; argument);
    fcntl64(fd: c_int, command: c_int; argument);
    prctl(option: c_int; a, b, c, d);
    semctl(id: c_int, number: c_int, command: c_int; argument);
}

/// The operation of a futex: one that waits or wakes in an area goes by the address, as it does
/// where memory is private. By default it goes by the memory, which a store exchanges for other
/// memory after a hook: who waits would not be found.
fn by_address(futex: usize, operation: usize) -> usize {
    const ALONE: [c_int; 4] = [FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET];
    let command = operation as c_int & FUTEX_CMD_MASK;
    match ALONE.contains(&command) && tracked::is_tracked(futex as *const u8) {
        true => operation | FUTEX_PRIVATE_FLAG as usize,
        false => operation,
    }
}

/// Does a system call that a program asks for by its number, where it is no matter of the kernel
/// alone. `None`: it is.
pub type CallByNumber = unsafe fn(number: c_long, a: usize, b: usize, c: usize) -> Option<c_long>;

static BY_NUMBER: OnceLock<CallByNumber> = OnceLock::new();

/// Has `syscall` ask `call` first, from now on. The first one stays.
pub fn route_calls_by_number(call: CallByNumber) {
    BY_NUMBER.get_or_init(|| call);
}

/// A system call by its number: what an argument that lies in an area points to is made writable, a
/// piece of it, when the call fails with EFAULT.
/// (The C library's takes any number of arguments, and looks at six.)
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    static NEXT: Next = Next::new(c"syscall");
    // SAFETY: the caller's promise.
    if let Some(done) = BY_NUMBER.get().and_then(|call| unsafe { call(number, a, b, c) }) {
        return done;
    }
    let b = if number == SYS_futex { by_address(a, b) } else { b };
    type Call = unsafe extern "C-unwind" fn(c_long, ...) -> c_long;
    // SAFETY: the C library's function of this name has this signature.
    let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
    // SAFETY: as the function asks for.
    let result = unsafe { call(number, a, b, c, d, e, f) };
    if result != -1 || crate::next::errno() != EFAULT {
        return result;
    }
    let slots = [a, b, c, d, e, f].map(exposed);
    let mut tries = 0;
    while again(-1, &slots, &mut tries) {
        slots.iter().for_each(Slot::prepare);
        // SAFETY: as the function asks for.
        let result = unsafe { call(number, a, b, c, d, e, f) };
        if result != -1 || crate::next::errno() != EFAULT {
            return result;
        }
    }
    -1
}
