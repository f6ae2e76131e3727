//! Errors as a client sees them: a code of gRPC, the database's message, and its SQLSTATE in the
//! metadata.

use swingdb::Error;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// The metadata with the SQLSTATE of an error.
pub const SQLSTATE: &str = "x-swingdb-sqlstate";

/// An error of the database.
pub fn of_database(error: &Error) -> Status {
    let mut status = Status::new(code(error), error.to_string());
    let state = MetadataValue::from_static(swingdb::sqlstate(error));
    status.metadata_mut().insert(SQLSTATE, state);
    status
}

/// An error of Arrow, which may be the database's.
pub fn of_arrow(error: arrow::error::ArrowError) -> Status {
    of_database(&Error::from(error))
}

fn code(error: &Error) -> Code {
    match error {
        Error::Parse { .. }
        | Error::Plan { .. }
        | Error::Conversion { .. }
        | Error::Import { .. }
        | Error::Constraint { .. } => Code::InvalidArgument,
        Error::NotFound { .. } => Code::NotFound,
        Error::AlreadyExists { .. } => Code::AlreadyExists,
        Error::OutOfMemory { .. }
        | Error::LimitReached { .. }
        | Error::TemporaryFile { is_full: true, .. } => Code::ResourceExhausted,
        Error::Busy { .. } | Error::Refused { .. } => Code::Unavailable,
        Error::Transaction { .. } | Error::NotShared { .. } | Error::Closed { .. } => {
            Code::FailedPrecondition
        }
        Error::Interrupted => Code::Cancelled,
        Error::TimedOut { .. } => Code::DeadlineExceeded,
        Error::NotAllowed { .. } => Code::PermissionDenied,
        Error::Unsupported { .. } => Code::Unimplemented,
        Error::Execution { .. } => Code::InvalidArgument,
        Error::InStatement { error, .. } => code(error),
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb::ObjectKind;

    #[test]
    fn errors_have_a_code_a_message_and_a_sqlstate() {
        let missing =
            Error::NotFound { kind: ObjectKind::Table, name: "x".into(), suggestion: None };
        let inner = Error::InStatement { line: 2, error: Box::new(missing) };
        let status = of_database(&inner);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.metadata().get(SQLSTATE).unwrap(), "42P01");
        assert_eq!(status.message(), inner.to_string());
        assert_eq!(of_database(&Error::Interrupted).code(), Code::Cancelled);
    }
}
