//! The one heap of the process, and which threads are inside of this library ([`state`]); the
//! stacks of signal handlers ([`stacks`]).

mod stacks;
mod state;

pub(crate) use stacks::{Stack, on_other_stack};
pub(crate) use state::{
    address, begin, end_in_child, exists, in_program, is_inside, now, offset, on_heap, outside,
    outside_for_ever, usable, with, with_any_stack,
};
