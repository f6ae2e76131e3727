//! What a user says about files: [`ImportOptions`], [`ExportOptions`], and [`encoding`].

pub(crate) mod encoding;
mod import_export;

pub use encoding::TextEncoding;
pub use import_export::*;
