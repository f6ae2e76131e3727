//! Shared ground for all that works on syntax trees: walking, building, names.

pub(crate) mod build;
pub(crate) mod create;
pub(crate) mod names;
pub(crate) mod stars;
pub(crate) mod walk;
