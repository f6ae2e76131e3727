//! TODO

pub(crate) mod build;
pub(crate) mod walk;
