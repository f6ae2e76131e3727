//! The bytes of areas: what they are made of, finding and opening them, the addresses that show
//! them, and the words that say what may be done with each extent.
//!
//! Imports `model`, `sys` and `namespace`.

pub(crate) mod backing;
pub(crate) mod copier;
pub(crate) mod extent_words;
pub(crate) mod lookup;
pub(crate) mod mapping;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod release;
pub(crate) mod retained;
