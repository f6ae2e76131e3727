//! `libswing.so` and `libswing.a`: what `include/swing.h` declares, and functions of the C library
//! that have the kernel store into the program's memory.
//!
//! A plain store into a part of an area that somebody has hooked is trapped and works. The kernel's
//! own stores are not: a system call that would store there fails with `EFAULT`, and what it took,
//! a datagram, a line of the terminal, a dead child, is lost. So `read`, `recv`, `fread` and their
//! relatives ([`calls`], [`special`], [`streams`]) are defined here as well, and so are `write`,
//! `send` and theirs ([`sending`]), which load from parts of areas that may have no memory yet. A
//! program that is linked with this library calls these, and so do the libraries it uses, because
//! the dynamic linker finds them before those of the C library. They do what the C library does, by
//! calling it; only when a buffer lies in an area, the kernel stores somewhere else, and what came
//! is stored into the area from there, see [`bounce`].
//!
//! This is a crate of its own so that others that contain the C interface (the Python extension) do
//! not define `read`.
//!
//! **Concurrency.** As the C library's functions; async-signal-safe where those are. Cancellation
//! points stay such: nothing on these stacks has to be torn down, so a cancelled thread unwinds
//! through them, and may leave up to [`bounce::MAX_BOUNCE`] bytes of address space behind.
//! **Crash, fork.** No state but addresses of functions.

mod bounce;
mod calls;
mod next;
mod sending;
mod special;
mod streams;

use swing_capi as _;
