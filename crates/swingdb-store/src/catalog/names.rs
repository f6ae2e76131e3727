//! Names of what a database has: which are possible, and what to do with one that is taken.

use swingdb_common::error::{Error, Result};

/// The schema that always exists.
pub(crate) const MAIN: &str = "main";

/// Longest name of a schema, table, view, macro, sequence or column, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// What to do when the name to be created is taken. A name belongs to either a table or a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// [`Error::AlreadyExists`].
    Fail,
    /// Leave the existing one; the call returns `false`.
    Skip,
    /// Drop the existing one of the same kind first.
    Replace,
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let len = name.len();
        return Err(Error::plan(format!(
            "a name of {len} bytes; 1 to {MAX_NAME_BYTES} are possible"
        )));
    }
    Ok(())
}
