//! Functions of the C library that have the kernel store into the program's memory, or load from
//! it, for programs whose memory lies in tracked areas. `libswing` and `libswingmalloc_preload.so`
//! consist of these functions and little more.
//!
//! A plain store into a hooked part of an area is trapped and works. The kernel's own stores are
//! not trapped: a system call that would store there fails with `EFAULT`, and its result, a
//! datagram, a line of the terminal or a dead child, is lost. So `read`, `recv`, `fread` and their
//! relatives ([`data`], [`sockets`], [`messages`], [`waiting`], [`facts`], [`streams`]) are defined
//! here as well. So are `write`, `send` and theirs ([`sending`]), which load from parts of areas
//! that may have no memory yet. A program that has this library first calls these functions, and so
//! do its other libraries.
//!
//! They call the C library's functions. If a buffer lies in an area, the kernel stores into a
//! scratch buffer ([`pool`]), and plain stores copy the result into the area ([`slot`] for
//! structures, [`fill`] for data). So no hook can come in between, and no data is lost. The few
//! arguments of unknown length ([`commands`]) are made writable before the call instead, and again
//! when it fails with `EFAULT`.
//!
//! **Oracle.** Each function returns, stores and leaves in `errno` what the C library's does with
//! ordinary memory, for good and for bad arguments. There are two exceptions. The program itself
//! loads lists of buffers, messages and lengths of addresses, so a bad address beyond the first
//! pages ends it with SIGSEGV. Data that a call has taken for a buffer that ends in unmapped memory
//! is gone, also of a file that would have stopped there.
//!
//! **Concurrency.** As the C library's functions; async-signal-safe where those are. Cancellation
//! points stay such. Nothing on these stacks has to be torn down, so a cancelled thread unwinds
//! through them. It leaves at most [`pool::SCRATCH_BYTES`] bytes of address space behind, or as
//! many as it reads of a file at once. **Crash, fork.** No state but addresses of functions and
//! unused memory.

#[macro_use]
mod check;

pub mod commands;
mod copy;
pub mod data;
pub mod facts;
mod fill;
mod messages;
mod next;
mod pool;
mod sending;
mod slot;
pub mod sockets;
mod stacks;
mod streams;
pub mod waiting;

pub use check::broken;
pub use next::Next;
pub use slot::{Slot, Use, again, telling_mask};
pub use stacks::lend;

/// Has the C library's functions that the handler of faults calls looked up before the first fault:
/// looking up is not for signal handlers.
pub extern "C" fn look_up() {
    // SAFETY: valid sets and structures; nothing is changed.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigemptyset(&raw mut set);
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const none);
        libc::syscall(libc::SYS_gettid);
    }
}
