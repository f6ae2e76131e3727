//! What can go wrong, one small enum an operation.
//!
//! Every failure of the device names the file, the offset and length in bytes, and the operating
//! system's reason. Inside the crate one [`Fault`] travels; at the public boundary it becomes the
//! operation's own type.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::units::{Epoch, RecordId};

/// Why a request to the operating system failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system's error number.
    Os(i32),
    /// The file ended, or the device took no more: so many bytes were moved.
    Short {
        /// Bytes moved.
        moved: u64,
    },
    /// The process has forked since the file or queue was opened; open them anew in the child.
    Forked,
    /// The program has closed the file's descriptor, which it did not open; open the file anew.
    Closed,
}

impl Cause {
    /// The cause that a failed call of the standard library or of `rustix` reports.
    pub fn of(error: &io::Error) -> Self {
        Cause::Os(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Whether the file system, a quota or a limit has no room for more bytes.
    pub fn is_full(self) -> bool {
        matches!(self, Cause::Os(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
    }
}

/// A request to the operating system failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("cannot {action} {}{}: {}", path.display(), place(*offset, *len), reason(*cause))]
pub struct IoError {
    /// What was tried, as an infinitive: "read", "write", "sync", ...
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// Where in the file, in bytes, if the request had a place.
    pub offset: Option<u64>,
    /// How many bytes, if the request had a length.
    pub len: Option<u64>,
    /// Why.
    pub cause: Cause,
}

impl IoError {
    /// A failure without a place in the file.
    pub fn new(action: &'static str, path: &Path, cause: Cause) -> Self {
        IoError { action, path: path.to_owned(), offset: None, len: None, cause }
    }

    /// A failure of a call of the standard library or of `rustix`.
    pub fn from_os(action: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::new(action, path, Cause::of(&error.into()))
    }

    /// The same failure, at `len` bytes from `offset`.
    pub fn at(mut self, offset: u64, len: u64) -> Self {
        (self.offset, self.len) = (Some(offset), Some(len));
        self
    }
}

fn place(offset: Option<u64>, len: Option<u64>) -> String {
    match (offset, len) {
        (Some(offset), Some(len)) => format!(" ({len} bytes at offset {offset})"),
        _ => String::new(),
    }
}

fn reason(cause: Cause) -> String {
    match cause {
        Cause::Os(errno) => io::Error::from_raw_os_error(errno).to_string(),
        Cause::Short { moved } => format!("only {moved} bytes were moved"),
        Cause::Forked => "the process has forked; open it anew in the child".to_owned(),
        Cause::Closed => {
            "the program has closed its descriptor, which it did not open; open it anew".to_owned()
        }
    }
}

/// Bytes of a file are not what was written there.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{} is damaged at offset {offset} ({len} bytes): {detail}; restore it from a copy",
    path.display()
)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the wrong bytes begin.
    pub offset: u64,
    /// How many bytes the failed check covers.
    pub len: u64,
    /// What was expected, and what was found.
    pub detail: String,
}

/// A log could not be opened or created. Nothing has been changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is no log in the directory.
    #[error("{} holds no log; create one first", path.display())]
    NotALog {
        /// The directory.
        path: PathBuf,
    },
    /// A log is to be created where files of one are already.
    #[error(
        "{} holds a log already, or files of one ({file}); choose another directory",
        path.display()
    )]
    AlreadyThere {
        /// The directory.
        path: PathBuf,
        /// One of the files.
        file: String,
    },
    /// Another process, or another handle of this one, has the log open.
    #[error("{} is in use by process {pid}; close it there first", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it open; zero if it did not say.
        pid: u32,
    },
    /// The directory belongs to another user, who could not use what we would write there.
    #[error("{} belongs to user {owner}; open it as that user, or read-only", path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// Another version wrote the log.
    #[error("{} has format version {found}; this library reads version {known}", path.display())]
    Version {
        /// The root file.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The version that this library reads and writes.
        known: u32,
    },
    /// A file that the newest state needs is not there.
    #[error("{} is missing; restore it from a copy of the whole directory", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Bytes of the log are not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// Options that make no sense together; the text says which.
    #[error("{0}")]
    Options(&'static str),
}

/// A record could not be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The record's bytes are not what was written. They have not been handed out.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// No such record is visible in the state that was asked.
    #[error("{id} does not exist at {epoch}")]
    NoRecord {
        /// The record that was asked for.
        id: RecordId,
        /// The state that was asked.
        epoch: Epoch,
    },
    /// The buffer has another length than the record.
    #[error("{id} has {len} bytes, the buffer has {given}")]
    Length {
        /// The record.
        id: RecordId,
        /// Its length in bytes.
        len: u64,
        /// The buffer's length in bytes.
        given: u64,
    },
}

/// A commit, or a write that prepares one, failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// The operating system refused. The log shows the state before, now and after a crash.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is no room. The log shows the state before; it goes on working when there is room.
    #[error("no room left: {0}; free space, or free records and commit, then try again")]
    Full(IoError),
    /// The commit failed, and so did taking it back. This handle takes no more commits. The state
    /// before or the new one, whole, is there after the log is opened again.
    #[error("the commit may or may not have happened: {0}; open the log again to see")]
    Unknown(IoError),
    /// An earlier commit ended as [`CommitError::Unknown`], or a check inside the log has failed.
    #[error("an earlier commit, or a check inside the log, failed half way; open the log again")]
    Broken,
    /// The file that holds records of this batch failed meanwhile, so they may be lost.
    #[error(
        "{} failed after records of this batch were written; make the batch anew",
        path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// The log is open for reading only.
    #[error("the log is open for reading only")]
    ReadOnly,
    /// A record that the batch frees or a checkpoint that it releases is not there.
    #[error("{what} does not exist")]
    NotThere {
        /// Which one.
        what: String,
    },
    /// A named maximum was reached.
    #[error("{what} would be {value}, at most {limit} are allowed")]
    Limit {
        /// What there would be too much of.
        what: &'static str,
        /// How much it would be.
        value: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A record that was to be moved is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// Everything that can go wrong inside; becomes the error of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Io(IoError),
    Damaged(Damage),
}

impl Fault {
    pub(crate) fn damaged(path: &Path, offset: u64, len: u64, detail: impl Into<String>) -> Self {
        Fault::Damaged(Damage { path: path.to_owned(), offset, len, detail: detail.into() })
    }
}

impl From<IoError> for Fault {
    fn from(error: IoError) -> Self {
        Fault::Io(error)
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Fault::Damaged(damage)
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io(error) => OpenError::Io(error),
            Fault::Damaged(damage) => OpenError::Damaged(damage),
        }
    }
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io(error) => ReadError::Io(error),
            Fault::Damaged(damage) => ReadError::Damaged(damage),
        }
    }
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io(error) if error.cause.is_full() => CommitError::Full(error),
            Fault::Io(error) => CommitError::Io(error),
            Fault::Damaged(damage) => CommitError::Damaged(damage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_file_place_and_reason() {
        let error = IoError::new("read", Path::new("/d/d-1"), Cause::Os(libc::EIO)).at(4096, 512);
        let text = error.to_string();
        assert!(text.contains("cannot read /d/d-1 (512 bytes at offset 4096)"), "{text}");
        assert!(text.contains("os error 5"), "{text}");
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let full = IoError::new("write", Path::new("x"), Cause::Os(libc::ENOSPC));
        assert!(matches!(CommitError::from(Fault::Io(full)), CommitError::Full(_)));
        let broken = IoError::new("write", Path::new("x"), Cause::Os(libc::EIO));
        assert!(matches!(CommitError::from(Fault::Io(broken)), CommitError::Io(_)));
    }
}
