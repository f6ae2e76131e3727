//! Errors of areas and namespaces in the words of the database.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use swing::{IoFailure, NameError, NamespaceError, RemoveError};

use crate::error::{Error, ObjectKind};

fn io_error(failure: IoFailure) -> Error {
    let text = format!("cannot {}: {}", failure.action, failure.source);
    let source = Arc::new(io::Error::new(failure.source.kind(), text));
    Error::Io { path: Some(failure.path), source }
}

fn out_of_memory(needed: u64, file_system: PathBuf, free: u64) -> Error {
    Error::OutOfMemory { needed, free, file_system: Some(file_system) }
}

/// The program has closed a descriptor that it did not open.
pub fn descriptor_lost(path: PathBuf) -> Error {
    let text = "this program has closed this file of the database, which it did not open, or has \
                put another one at its number; leave descriptors of libraries open, or open the \
                database again";
    Error::Io { path: Some(path), source: Arc::new(io::Error::other(text)) }
}

impl From<NamespaceError> for Error {
    fn from(error: NamespaceError) -> Self {
        match error {
            NamespaceError::OutOfMemory { needed, file_system, free } => {
                out_of_memory(needed.0, file_system, free.0)
            }
            NamespaceError::DescriptorLost { path } => descriptor_lost(path),
            NamespaceError::Io(failure) => io_error(failure),
            other => Error::internal(other.to_string()),
        }
    }
}

impl From<RemoveError> for Error {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::NotFound { name } => {
                Error::NotFound { kind: ObjectKind::Database, name, suggestion: None }
            }
            RemoveError::Owned { name, pid, command } => {
                let command = Some(command).filter(|c| !c.is_empty());
                Error::Busy { name, pid: Some(pid), command }
            }
            RemoveError::OutOfMemory { needed, file_system, free } => {
                out_of_memory(needed.0, file_system, free.0)
            }
            RemoveError::DescriptorLost { path } => descriptor_lost(path),
            RemoveError::Io(failure) => io_error(failure),
            other => Error::internal(other.to_string()),
        }
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Error::plan(format!("this is no name for a database: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_busy_database_is_named() {
        let owned = RemoveError::Owned { name: "taxi".into(), pid: 7, command: "loader".into() };
        let error = Error::from(owned);
        assert!(matches!(&error, Error::Busy { pid: Some(7), .. }), "{error}");
        let failure = IoFailure {
            action: "open",
            path: "/dev/shm/x".into(),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        let error = Error::from(NamespaceError::Io(failure));
        assert!(error.to_string().starts_with("/dev/shm/x: cannot open"), "{error}");
    }
}
