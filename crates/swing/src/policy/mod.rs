//! Choices that only buy speed, as functions over plain data: where versions go so that neighbours
//! stay one mapping, which extents are worth copying ahead, whether stores come in order.
//! Each can be switched off, to measure what it buys ([`switches`]).
//!
//! Whatever is chosen here, every invariant holds and every state has the same bytes; only time and
//! memory differ. Imports `model`.

pub(crate) mod alternation;
pub(crate) mod copy_ahead;
pub(crate) mod plane_choice;
pub(crate) mod store_order;
pub(crate) mod switches;
