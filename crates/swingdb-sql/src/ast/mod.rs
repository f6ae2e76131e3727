//! Shared ground for all that works on syntax trees: walking, building, names.

pub(crate) mod asof;
pub mod build;
pub mod create;
pub mod insert;
pub mod merge;
pub mod names;
pub(crate) mod pivot;
pub(crate) mod select_items;
pub mod shown_names;
pub mod stars;
pub mod walk;
