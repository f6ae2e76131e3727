//! Tracked areas: plain stores are copy-on-write by themselves.
//!
//! After [`crate::Area::track`] any store by any thread, in Rust, C or a vectorised loop of NumPy,
//! works without a call of [`crate::Area::make_writable`]: a store into an extent that a publish
//! has frozen is trapped by the processor, and the SIGSEGV handler of this module makes the extent
//! private, as the barrier would have done. The first touch of an extent without memory gives
//! zeros.
//!
//! # How a handler may do that
//!
//! The faulting thread can be anywhere and hold any lock, its allocator's too. A helper thread that
//! does the work instead would need those locks; so would this thread. Therefore nothing in the
//! handler allocates or locks:
//!
//! * Where the next version of each extent goes is **decided ahead**, under the area's lock,
//!   whenever that changes ("armed"), and kept in the extent's word
//!   (`memory/extent_words.rs`).
//! * The handler **claims** the extent by compare-and-swap of the word (`FAULTING`), so exactly one
//!   thread copies and the others sleep on the word; it fills the planned plane through a scratch
//!   mapping, and moves that over the old version in one system call (`trap/resolve.rs`).
//! * It **logs** the extent in a lock-free list. Who takes the area's lock next writes down what
//!   was logged (`area/absorb.rs`); a publish does so before it assigns its epoch.
//!
//! # The moment of a publish
//!
//! A publish of a tracked area closes a gate (`trap/gate.rs`), write-protects every private
//! extent, and opens it again. A thread that faults meanwhile copies but does not proceed to its
//! store before the gate opens. So, at the instant when the last extent has been protected, memory
//! is exactly what the publish shows: each store of each thread was executed before that instant
//! and is in it, or after it and is not. No store of a thread is missing while a later one of it,
//! or one of another thread that saw it, is there. What may be half done is a change that takes
//! several machine stores; [`crate::Area::hold_stores`] stops everybody for as long as a program
//! needs to see to that.
//!
//! # Limits
//!
//! * A *system call* that writes into a frozen extent fails with EFAULT instead of faulting: pass
//!   its buffer through [`prepare`] or [`crate::Area::make_writable`] first.
//! * A thread that blocks SIGSEGV, or whose own stack lies in a tracked area without an alternate
//!   signal stack, is killed by the kernel at its first trapped store.
//! * The memory of Rust's global allocator must not lie in a tracked area: the tables of this crate
//!   are in it.
//! * A signal handler of the program may store, and call [`prepare`], whatever it has interrupted.
//!   If that was the allocator, or another call of this crate, it must call neither of these: it
//!   might wait for itself.
//! * Reading an absent extent gives it memory, as writing does.
//!
//! # Crashes, forks
//!
//! A fault that is none of a tracked area goes to the handler that was there before
//! (`trap/signal.rs`). A store that finds no memory says so on standard error and dies by
//! SIGSEGV, unless [`on_shortage`] finds a way; it is never a SIGBUS. A forked child gets the state
//! of the fork as ordinary private memory at the same addresses: it may read and write it, and
//! cannot publish it. No other thread's store gets through the gate before there is a child.

pub(crate) mod chores;
pub(crate) mod copy_ahead;
pub(crate) mod early;
mod give_back;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod track;

pub use crate::trap::pins::{MAX_PINNED, Pin, pin, unpin};
pub use crate::trap::resolve::{is_tracked, prepare};
pub use crate::trap::served::{Fills, Serves, is_served, set_filler, set_served};
pub use crate::trap::shortage::{ShortageHandler, StoreShortage, on_shortage};
pub use crate::trap::signal::rearm;
