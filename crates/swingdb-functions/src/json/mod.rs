//! Functions of JSON, which is text.

pub mod parts;
pub mod paths;
pub mod to_json;
