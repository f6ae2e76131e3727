//! Functions of texts, byte strings and UUIDs.

pub(crate) mod accents;
pub mod blobs;
pub mod captures;
pub mod enums;
pub mod format;
pub mod like_pattern;
pub(crate) mod patterns;
pub mod regexp_replace;
pub mod reports;
pub(crate) mod reversed;
pub mod texts;
pub mod uuids;
