//! Errors of the log in the words of this crate.

use std::path::{Path, PathBuf};

use swing_tier::{Cause, CommitError, IoError, OpenError, ReadError};
use swingdb_common::error::{Error, StoreProblem};

/// What is said of a directory that another program has its files in.
pub(crate) const NOT_A_DATABASE: &str = "the directory holds no database but something else, such \
                                         as an object heap; choose an empty one";

/// An error about the store in `path`.
pub(crate) fn problem(path: &Path, problem: StoreProblem, message: impl Into<String>) -> Error {
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
            std::io::ErrorKind::NotADirectory => StoreProblem::NotAStore,
            _ => StoreProblem::Io,
        },
        _ => StoreProblem::Io,
    }
}

fn is_read_only_file_system(error: &IoError) -> bool {
    let kind = |errno| std::io::Error::from_raw_os_error(errno).kind();
    matches!(error.cause, Cause::Os(errno) if kind(errno) == std::io::ErrorKind::ReadOnlyFilesystem)
}

fn io(path: &Path, error: &IoError) -> Error {
    if error.cause == Cause::Forked {
        return Error::Forked;
    }
    let kind = kind_of(error);
    let advice = match kind {
        StoreProblem::Full => "; make room on that disk",
        StoreProblem::ReadOnly if is_read_only_file_system(error) => {
            "; the file system is read-only: swingdb restore reads a store there"
        }
        StoreProblem::ReadOnly => "; make the directory writable for this user",
        StoreProblem::NotAStore => "; choose a directory",
        _ => "",
    };
    problem(path, kind, format!("{error}{advice}"))
}

pub(crate) fn open_error(path: &Path, error: OpenError) -> Error {
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
    let text = match error {
        OpenError::NotALog { path } => format!("{} holds no store", path.display()),
        other => other.to_string(),
    };
    problem(path, kind, text)
}

pub(crate) fn read_error(path: &Path, error: ReadError) -> Error {
    match &error {
        ReadError::Io(failure) => io(path, failure),
        _ => problem(path, StoreProblem::Damaged, error.to_string()),
    }
}

pub(crate) fn commit_error(path: &Path, error: CommitError) -> Error {
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
pub(crate) fn in_store(path: &Path, error: Error) -> Error {
    match error {
        Error::Corrupt { message, .. } if message.contains("format version") => {
            problem(path, StoreProblem::Version, message)
        }
        Error::Corrupt { message, .. } if message == NOT_A_DATABASE => {
            problem(path, StoreProblem::NotAStore, message)
        }
        Error::Corrupt { message, .. } => problem(path, StoreProblem::Damaged, message),
        other => other,
    }
}

/// The directory as an absolute path, also when it does not exist yet.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let whole = std::path::absolute(path).map_err(|e| Error::io(path, e))?;
    Ok(whole.canonicalize().unwrap_or(whole))
}
