//! Errors of areas and of the heap in them in the words of this crate, and [`corrupt`].

use std::path::Path;
use std::sync::Arc;

use swing::{
    AreaName, CreateError, DeriveError, HookError, IoFailure, MapForeignError, Namespace,
    OpenError, PublishError, WriteError,
};
use swing_malloc::{AllocError, HeapError};
use swingdb_common::area_errors::descriptor_lost;
use swingdb_common::error::{Error, ObjectKind};

/// The error for bytes of a database that are not what this program writes. The name is filled in
/// by the store.
pub(crate) fn corrupt(message: impl Into<String>) -> Error {
    Error::Corrupt { name: String::new(), message: message.into() }
}

fn io(failure: IoFailure) -> Error {
    Error::Io { path: Some(failure.path), source: Arc::new(failure.source) }
}

fn busy(name: String, pid: u32, command: String) -> Error {
    let command = Some(command).filter(|c| !c.is_empty());
    Error::Busy { name, pid: Some(pid), command }
}

fn taken(name: &str) -> Error {
    Error::AlreadyExists { kind: ObjectKind::Database, name: name.to_owned() }
}

fn missing(name: &str) -> Error {
    let kind = ObjectKind::Database;
    Error::NotFound { kind, name: name.to_owned(), suggestion: None }
}

/// Suggests one of the namespace's databases to whoever looked for one that does not exist.
pub(crate) fn suggest(error: Error, namespace: &Namespace) -> Error {
    match error {
        Error::NotFound { kind: ObjectKind::Database, name, suggestion: None } => {
            let known = namespace.names().unwrap_or_default();
            Error::not_found(ObjectKind::Database, name, known.iter().map(AreaName::as_str))
        }
        other => other,
    }
}

fn memory_gone(name: &str, link: &Path) -> Error {
    let folder = link.parent().unwrap_or(link).to_path_buf();
    Error::MemoryGone { name: name.to_owned(), folder }
}

pub(crate) fn open_error(error: OpenError, name: &str) -> Error {
    match error {
        OpenError::NotFound { .. } => missing(name),
        OpenError::Owned { name, pid, command } => busy(name, pid, command),
        OpenError::Corrupt { path, detail } => Error::Corrupt {
            name: name.to_owned(),
            message: format!("{}: {detail}", path.display()),
        },
        OpenError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        OpenError::MemoryGone { path, .. } => memory_gone(name, &path),
        OpenError::Forked => Error::Forked,
        OpenError::DescriptorLost { path } => descriptor_lost(path),
        OpenError::Io(failure) => io(failure),
        other => Error::Execution { message: other.to_string() },
    }
}

pub(crate) fn create_error(error: CreateError, name: &str) -> Error {
    match error {
        CreateError::AlreadyExists { .. } => taken(name),
        CreateError::Owned { name, pid, command } => busy(name, pid, command),
        CreateError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        CreateError::Forked => Error::Forked,
        CreateError::DescriptorLost { path } => descriptor_lost(path),
        CreateError::Io(failure) => io(failure),
        other => Error::Execution { message: other.to_string() },
    }
}

pub(crate) fn hook_error(error: HookError, name: &str) -> Error {
    match error {
        HookError::NotFound { .. } => missing(name),
        HookError::Corrupt { path, detail } => Error::Corrupt {
            name: name.to_owned(),
            message: format!("{}: {detail}", path.display()),
        },
        HookError::DescriptorLost { path } => descriptor_lost(path),
        HookError::Io(failure) => io(failure),
        HookError::MemoryGone { path, .. } => memory_gone(name, &path),
        HookError::NotShared { .. } => Error::NotShared { name: name.to_owned() },
        HookError::NotHookable { .. } | HookError::Contended { .. } => {
            Error::Refused { name: name.to_owned(), message: error.to_string() }
        }
        other => Error::Execution { message: other.to_string() },
    }
}

pub(crate) fn derive_error(error: DeriveError, name: Option<&AreaName>) -> Error {
    let name = name.map_or("(unnamed)", |n| n.as_str());
    match error {
        DeriveError::AlreadyExists { .. } => taken(name),
        DeriveError::Owned { name, pid, command } => busy(name, pid, command),
        DeriveError::Corrupt { path, detail } => Error::Corrupt {
            name: name.to_owned(),
            message: format!("{}: {detail}", path.display()),
        },
        DeriveError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        DeriveError::Forked => Error::Forked,
        DeriveError::DescriptorLost { path } => descriptor_lost(path),
        DeriveError::Io(failure) => io(failure),
        other => Error::Execution { message: other.to_string() },
    }
}

pub(crate) fn map_foreign_error(error: MapForeignError) -> Error {
    match error {
        MapForeignError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        MapForeignError::Forked => Error::Forked,
        MapForeignError::DescriptorLost { path } => descriptor_lost(path),
        MapForeignError::Io(failure) => io(failure),
        other => Error::Execution { message: other.to_string() },
    }
}

pub(crate) fn heap_error(error: HeapError) -> Error {
    match error {
        HeapError::Write(error) => write_error(error),
        other => corrupt(other.to_string()),
    }
}

/// Translates the barrier's error.
pub(crate) fn write_error(error: WriteError) -> Error {
    match error {
        WriteError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        WriteError::DescriptorLost { path } => swingdb_common::area_errors::descriptor_lost(path),
        WriteError::Forked => Error::Forked,
        WriteError::Closed => Error::Closed { what: "database" },
        other => Error::Execution { message: other.to_string() },
    }
}

/// Translates the allocator's error.
pub(crate) fn alloc_error(error: AllocError, needed: u64) -> Error {
    match error {
        AllocError::Write(error) => write_error(error),
        AllocError::Exhausted { largest, .. } => {
            Error::OutOfMemory { needed, free: largest, file_system: None }
        }
        other => corrupt(other.to_string()),
    }
}

pub(crate) fn publish_error(error: PublishError) -> Error {
    match error {
        PublishError::OutOfMemory { needed, file_system, free } => {
            Error::OutOfMemory { needed: needed.0, free: free.0, file_system: Some(file_system) }
        }
        PublishError::DescriptorLost { path } => swingdb_common::area_errors::descriptor_lost(path),
        PublishError::Forked => Error::Forked,
        PublishError::Closed => Error::Closed { what: "database" },
        other => Error::Execution { message: other.to_string() },
    }
}
