//! Where shells keep the statements that were typed: one file for all of them.

use std::path::PathBuf;

/// Lines that the file has at most.
pub const HISTORY_LINES: usize = 10_000;

/// `$SWINGDB_HISTORY`, else `.swingdb_history` in the home directory; `None`: nothing is kept.
pub fn history_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SWINGDB_HISTORY") {
        return (!path.is_empty()).then(|| path.into());
    }
    std::env::home_dir().map(|home| home.join(".swingdb_history"))
}
