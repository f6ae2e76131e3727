//! TODO

pub(crate) mod limits;
pub(crate) mod machine;
