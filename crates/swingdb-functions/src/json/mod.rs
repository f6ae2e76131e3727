//! Functions of JSON, which is text.

pub(crate) mod edits;
pub mod marks;
pub mod parts;
pub mod paths;
pub mod rows;
pub mod to_json;
