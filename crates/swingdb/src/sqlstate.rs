//! The SQLSTATE of errors, for protocols whose clients look for it: [`sqlstate`].

use swingdb_common::error::{ConstraintKind, Error, ObjectKind, StoreProblem};

/// The five letters and digits that PostgreSQL has for an error.
pub fn sqlstate(error: &Error) -> &'static str {
    match error {
        Error::Parse { .. } => "42601",
        Error::Plan { .. } => "42000",
        Error::NotFound { kind, .. } => not_found(*kind),
        Error::NotShared { .. } => "55000",
        Error::AlreadyExists { kind, .. } => match kind {
            ObjectKind::Table | ObjectKind::View => "42P07",
            ObjectKind::Schema => "42P06",
            ObjectKind::Column => "42701",
            ObjectKind::Database => "42P04",
            ObjectKind::Function | ObjectKind::Macro | ObjectKind::TableMacro => "42723",
            ObjectKind::Statement => "42P05",
            _ => "42710",
        },
        Error::Constraint { kind, .. } => match kind {
            ConstraintKind::NotNull => "23502",
            ConstraintKind::Check => "23514",
            ConstraintKind::ForeignKey => "23503",
            _ => "23505",
        },
        Error::Conversion { .. } => "22P02",
        Error::Import { .. } => "22000",
        Error::OutOfMemory { .. } => "53200",
        Error::Busy { .. } => "55P03",
        Error::Refused { .. } => "57P03",
        Error::Transaction { .. } => "25000",
        Error::Store { problem: StoreProblem::Full, .. }
        | Error::TemporaryFile { is_full: true, .. } => "53100",
        Error::TemporaryFile { .. }
        | Error::Io { .. }
        | Error::Store { .. }
        | Error::MemoryGone { .. } => "58030",
        Error::Corrupt { .. } => "XX001",
        Error::Interrupted | Error::TimedOut { .. } => "57014",
        Error::LimitReached { .. } => "54000",
        Error::NotAllowed { .. } => "42501",
        Error::Forked | Error::Closed { .. } => "57P01",
        Error::Unsupported { .. } => "0A000",
        Error::Execution { .. } => "22000",
        Error::InStatement { error, .. } => sqlstate(error),
        _ => "XX000",
    }
}

fn not_found(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence => "42P01",
        ObjectKind::Column => "42703",
        ObjectKind::Function | ObjectKind::Macro | ObjectKind::TableMacro => "42883",
        ObjectKind::Schema => "3F000",
        ObjectKind::Database => "3D000",
        ObjectKind::Statement => "26000",
        ObjectKind::File => "58P01",
        _ => "42704",
    }
}
