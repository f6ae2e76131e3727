//! TODO

pub(crate) mod asof;
pub(crate) mod asof_condition;
pub(crate) mod expressions;
pub(crate) mod one_input;
pub(crate) mod shared;
