//! Shared ground for all that works on plans: our own logical nodes, and what rewrites of
//! expressions have in common.

pub(crate) mod asof;
pub(crate) mod asof_condition;
pub(crate) mod dependencies;
pub(crate) mod expressions;
pub(crate) mod list_functions;
pub(crate) mod materialize;
pub(crate) mod named_cast;
pub(crate) mod one_input;
