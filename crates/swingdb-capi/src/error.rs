//! Error numbers, and the text of a thread's last error.
//!
//! The numbers are part of the binary interface: they never change their meaning. Each names what a
//! program does about it; the text says what has happened.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;

use swingdb::{Error, StoreProblem};

use crate::last_error;

/// Why a call failed; the number that C sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Argument = -1,
    Sql = -2,
    NotFound = -3,
    Exists = -4,
    Constraint = -5,
    Conversion = -6,
    NoMemory = -7,
    Busy = -8,
    Transaction = -9,
    Io = -10,
    Damaged = -11,
    DiskFull = -12,
    Mismatch = -13,
    Unknown = -14,
    Interrupted = -15,
    NotSupported = -16,
    Forked = -17,
    Closed = -18,
    Internal = -19,
}

impl Code {
    pub(crate) const ALL: [Code; 19] = [
        Code::Argument,
        Code::Sql,
        Code::NotFound,
        Code::Exists,
        Code::Constraint,
        Code::Conversion,
        Code::NoMemory,
        Code::Busy,
        Code::Transaction,
        Code::Io,
        Code::Damaged,
        Code::DiskFull,
        Code::Mismatch,
        Code::Unknown,
        Code::Interrupted,
        Code::NotSupported,
        Code::Forked,
        Code::Closed,
        Code::Internal,
    ];

    pub(crate) fn text(self) -> &'static CStr {
        match self {
            Code::Argument => c"an argument is not possible",
            Code::Sql => c"the statement is wrong",
            Code::NotFound => c"a name does not exist, or was not shared yet",
            Code::Exists => c"the name is taken",
            Code::Constraint => c"a constraint is violated",
            Code::Conversion => c"a value does not fit its type",
            Code::NoMemory => c"out of memory",
            Code::Busy => c"somebody else has it open for writing; try again",
            Code::Transaction => c"the statement does not fit the state of the transaction",
            Code::Io => c"the operating system or the device failed",
            Code::Damaged => c"the database or its store is damaged, or of another version",
            Code::DiskFull => c"the disk is full; the commit was rolled back",
            Code::Mismatch => c"the database in memory and the store do not belong together",
            Code::Unknown => c"a commit failed half way; close the database and open it again",
            Code::Interrupted => c"interrupted, or over a limit of the session",
            Code::NotSupported => c"not supported, or not allowed",
            Code::Forked => c"the database was opened before a fork",
            Code::Closed => c"the database is closed",
            Code::Internal => c"a mistake in the library",
        }
    }
}

/// A failure with its explanation.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl Display) -> Self {
        Self { code, text: text.to_string() }
    }

    pub(crate) fn argument(text: impl Display) -> Self {
        Self::new(Code::Argument, text)
    }
}

fn of_store(problem: StoreProblem) -> Code {
    match problem {
        StoreProblem::InUse => Code::Busy,
        StoreProblem::Full => Code::DiskFull,
        StoreProblem::Missing | StoreProblem::Damaged | StoreProblem::Version => Code::Damaged,
        StoreProblem::Mismatch => Code::Mismatch,
        StoreProblem::Unknown => Code::Unknown,
        _ => Code::Io,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Parse { .. } | Error::Plan { .. } | Error::Execution { .. } => Code::Sql,
            Error::NotFound { .. } | Error::NotShared { .. } | Error::MemoryGone { .. } => {
                Code::NotFound
            }
            Error::AlreadyExists { .. } => Code::Exists,
            Error::Constraint { .. } => Code::Constraint,
            Error::Conversion { .. } => Code::Conversion,
            Error::OutOfMemory { .. } => Code::NoMemory,
            Error::Busy { .. } | Error::Refused { .. } => Code::Busy,
            Error::Transaction { .. } => Code::Transaction,
            Error::TemporaryFile { is_full: true, .. } => Code::DiskFull,
            Error::TemporaryFile { .. } | Error::Io { .. } | Error::Import { .. } => Code::Io,
            Error::Store { problem, .. } => of_store(*problem),
            Error::Corrupt { .. } => Code::Damaged,
            Error::Interrupted | Error::TimedOut { .. } | Error::LimitReached { .. } => {
                Code::Interrupted
            }
            Error::NotAllowed { .. } | Error::Unsupported { .. } => Code::NotSupported,
            Error::Forked => Code::Forked,
            Error::Closed { .. } => Code::Closed,
            _ => Code::Internal,
        };
        Failure::new(code, error)
    }
}

/// Remembers the text, gives the number.
pub(crate) fn note(failure: Failure) -> c_int {
    last_error::remember(&failure.text);
    failure.code as c_int
}

/// The text of this thread's last failure; valid until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn swingdb_last_error() -> *const c_char {
    last_error::last()
}

/// What a number means, in a few words.
#[unsafe(no_mangle)]
pub extern "C" fn swingdb_strerror(code: c_int) -> *const c_char {
    let found = Code::ALL.into_iter().find(|known| *known as c_int == code);
    match found {
        Some(code) => code.text().as_ptr(),
        None if code == 0 => c"success".as_ptr(),
        None => c"no error of this library".as_ptr(),
    }
}
