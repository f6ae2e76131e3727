//! Errors of the log in the words of this crate.

use std::path::{Path, PathBuf};

use swing_tier::{Cause, CommitError, IoError, OpenError, ReadError};
use swingdb_common::error::{Error, StoreProblem};

/// An error about the store in `path`.
pub(super) fn problem(path: &Path, problem: StoreProblem, message: impl Into<String>) -> Error {
    Error::Store { path: path.to_owned(), problem, message: message.into() }
}

/// What kind of failure of the operating system it is.
fn kind_of(error: &IoError) -> StoreProblem {
    match error.cause {
        Cause::Os(errno) => match std::io::Error::from_raw_os_error(errno).kind() {
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => StoreProblem::Full,
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                StoreProblem::ReadOnly
            }
            std::io::ErrorKind::NotFound => StoreProblem::Missing,
            _ => StoreProblem::Io,
        },
        _ => StoreProblem::Io,
    }
}

fn io(path: &Path, error: &IoError) -> Error {
    if error.cause == Cause::Forked {
        return Error::Forked;
    }
    let kind = kind_of(error);
    let advice = match kind {
        StoreProblem::Full => "; make room on that disk",
        StoreProblem::ReadOnly => "; make the directory writable for this user",
        _ => "",
    };
    problem(path, kind, format!("{error}{advice}"))
}

pub(super) fn open_error(path: &Path, error: OpenError) -> Error {
    let kind = match &error {
        OpenError::Io(failure) => return io(path, failure),
        OpenError::NotALog { .. } | OpenError::AlreadyThere { .. } => StoreProblem::NotAStore,
        OpenError::InUse { .. } => StoreProblem::InUse,
        OpenError::ForeignDirectory { .. } => StoreProblem::ReadOnly,
        OpenError::Version { .. } => StoreProblem::Version,
        OpenError::Missing { .. } => StoreProblem::Missing,
        OpenError::Damaged(_) => StoreProblem::Damaged,
        _ => StoreProblem::Io,
    };
    problem(path, kind, error.to_string())
}

pub(super) fn read_error(path: &Path, error: ReadError) -> Error {
    match &error {
        ReadError::Io(failure) => io(path, failure),
        _ => problem(path, StoreProblem::Damaged, error.to_string()),
    }
}

pub(super) fn commit_error(path: &Path, error: CommitError) -> Error {
    match &error {
        CommitError::Full(failure) | CommitError::Io(failure) => io(path, failure),
        CommitError::Unknown(_) | CommitError::Broken => {
            problem(path, StoreProblem::Unknown, error.to_string())
        }
        CommitError::ReadOnly => problem(path, StoreProblem::ReadOnly, error.to_string()),
        CommitError::Damaged(_) => problem(path, StoreProblem::Damaged, error.to_string()),
        _ => problem(path, StoreProblem::Io, error.to_string()),
    }
}

/// An error of a decoder, with the store it is about.
pub(super) fn in_store(path: &Path, error: Error) -> Error {
    match error {
        Error::Corrupt { message, .. } if message.contains("format version") => {
            problem(path, StoreProblem::Version, message)
        }
        Error::Corrupt { message, .. } => problem(path, StoreProblem::Damaged, message),
        other => other,
    }
}

/// The directory as an absolute path, also when it does not exist yet.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let whole = std::path::absolute(path).map_err(|e| Error::io(path, e))?;
    Ok(whole.canonicalize().unwrap_or(whole))
}
