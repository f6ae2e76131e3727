//! Functions of the C library that the heap's being in an area changes.
//!
//! Those whose buffers may lie in frozen memory are in [`swing_calls`]. Here are six more kinds:
//!
//! * **What the C library allocates for itself** and fills by system calls that nobody can
//!   intercept (streams, directories, name services) is taken from outside the heap ([`inner`]).
//! * **Closing** what is this library's own ([`descriptors`]).
//! * **Handlers of forks** ([`forks`]): the program's may use the heap.
//! * **Handlers and masks of signals** ([`signals`]), so that the heap's handler is not blocked,
//!   nor replaced.
//! * **Starts of threads** ([`threads`]): each has a stack for that handler, and one of its own;
//!   and their ends ([`last`]).
//! * **Semaphores and locks** for several processes ([`waits`]), which are made for one.
//!
//! What is here and what is not is listed in `docs/preload.md`; `tests/calls.rs` makes each call
//! with its result in frozen memory.

mod descriptors;
mod forks;
mod inner;
mod last;
mod next;
mod signals;
mod threads;
mod waits;

pub(crate) use forks::handle_forks;

/// When the heap is there.
pub(crate) fn begin() {
    inner::own_standard_input();
    signals::begin();
    threads::begin();
    last::begin();
    descriptors::look_up();
    swing_calls::commands::route_calls_by_number(descriptors::by_number);
}
