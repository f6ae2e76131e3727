//! Errors of the database as those of ADBC: a status, a SQLSTATE and a message.

use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use arrow::error::ArrowError;

/// The error of a call.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// What the database reports.
pub(crate) fn of_database(error: swingdb::Error) -> Error {
    let mut made = Error::with_message_and_status(error.to_string(), status(&error));
    for (place, letter) in made.sqlstate.iter_mut().zip(swingdb::sqlstate(&error).bytes()) {
        *place = letter as c_char;
    }
    made
}

/// What Arrow reports, which may be the database's.
pub(crate) fn of_arrow(error: ArrowError) -> Error {
    of_database(swingdb::Error::from(error))
}

/// A call that makes no sense now.
pub(crate) fn state(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidState)
}

/// An argument or option that is wrong.
pub(crate) fn argument(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidArguments)
}

/// What the driver does not do.
pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    let mut error = Error::with_message_and_status(message, Status::NotImplemented);
    for (place, letter) in error.sqlstate.iter_mut().zip("0A000".bytes()) {
        *place = letter as c_char;
    }
    error
}

/// An option that the driver does not know or that has no value.
pub(crate) fn unknown_option(name: &str) -> Error {
    Error::with_message_and_status(format!("there is no option {name:?}"), Status::NotFound)
}

fn status(error: &swingdb::Error) -> Status {
    use swingdb::Error as E;
    match error {
        E::Parse { .. } | E::Plan { .. } => Status::InvalidArguments,
        E::NotFound { .. } => Status::NotFound,
        E::AlreadyExists { .. } => Status::AlreadyExists,
        E::Constraint { .. } => Status::Integrity,
        E::Conversion { .. } | E::Import { .. } | E::Execution { .. } => Status::InvalidData,
        E::Transaction { .. } | E::NotShared { .. } | E::Closed { .. } | E::Forked => {
            Status::InvalidState
        }
        E::Io { .. }
        | E::Store { .. }
        | E::TemporaryFile { .. }
        | E::MemoryGone { .. }
        | E::Busy { .. } => Status::IO,
        E::Interrupted => Status::Cancelled,
        E::TimedOut { .. } => Status::Timeout,
        E::NotAllowed { .. } => Status::Unauthorized,
        E::Unsupported { .. } => Status::NotImplemented,
        E::Corrupt { .. } | E::Internal { .. } => Status::Internal,
        E::InStatement { error, .. } => status(error),
        _ => Status::Unknown,
    }
}
