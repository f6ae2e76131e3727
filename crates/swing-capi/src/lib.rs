//! The C interface of SWING: what `include/swing.h` declares.
//!
//! An area is known by its *token*, a number from 1 to 4095 that is unique in its namespace as long
//! as the process that has the area lives ([`tokens`]). [`areas`] keeps what this process has;
//! [`calls`] is the interface itself, `heap_calls` its part for the allocator; `object_calls` and
//! `pointer_calls`, of `include/fgmm.h`, are the object heap; [`error`] turns the
//! errors of the layers below into numbers and a text for each thread. `include/swing_compat.h` and
//! `include/original/swing.h` give the same calls other names, inline, so that the library exports
//! one set of symbols only.
//!
//! **Concurrency.** Any thread may call anything; releasing an area while another thread uses it is
//! the program's mistake, as with `munmap`. **Crash.** Locks go with the process; what it leaves in
//! the namespace is taken away by whoever creates or hooks an area next. **fork.** The child starts
//! without areas; the memory it inherited is a private copy.

mod areas;
mod blocks;
pub mod calls;
mod error;
mod heap_calls;
mod hold;
mod hooks;
mod last_error;
mod names;
mod object_calls;
mod pointer_calls;
mod shared_heap_calls;
mod tokens;
