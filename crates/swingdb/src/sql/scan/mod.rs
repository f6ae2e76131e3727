//! TODO

pub(crate) mod disk;
pub(crate) mod filter;
pub(crate) mod pruning;
pub(crate) mod source;
pub(crate) mod statistics;
pub(crate) mod stream;
pub(crate) mod table;
