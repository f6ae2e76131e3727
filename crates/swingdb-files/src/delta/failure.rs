//! Errors about a table, or a file of its log.

use std::path::Path;

use swingdb_common::error::Error;

/// A table, or a file of its log, that is not as the protocol has it.
pub(super) fn broken(path: &Path, message: impl Into<String>) -> Error {
    Error::Import { path: path.to_path_buf(), line: None, message: message.into() }
}
