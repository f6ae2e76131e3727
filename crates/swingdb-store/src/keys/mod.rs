//! Rows by their keys: which rows have one, and that no two rows have the same.
//!
//! [`unique`] keeps the hashes of all keys of a constraint in the process, [`locate`] finds rows
//! with certain keys. Both hash and compare keys as [`bytes`], and ask the [`bounds`] of segments
//! first.

pub(crate) mod bounds;
pub(crate) mod bytes;
pub(crate) mod locate;
pub(crate) mod unique;
