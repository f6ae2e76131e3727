//! Functions of texts, byte strings and UUIDs.

pub mod blobs;
pub mod format;
pub mod reports;
pub mod texts;
pub mod uuids;
