//! Error numbers. The text of a thread's last error is in [`last_error`].
//!
//! The numbers are part of the binary interface: they never change their meaning.

use std::ffi::{CStr, c_int};
use std::fmt::Display;

use swing::{CreateError, DeriveError, HookError, PublishError, TrackError};
use swing_malloc::{AllocError, FreeError, HeapError};

use crate::last_error;

/// Why a call failed; the number that C sees is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Argument = -1,
    NotFound = -2,
    Refused = -3,
    NoMemory = -4,
    NoAddresses = -5,
    AddressTaken = -6,
    NoTokens = -7,
    Forked = -8,
    Io = -9,
    Corrupt = -10,
    Busy = -11,
    Internal = -12,
    Exists = -13,
    Stale = -14,
    NoObject = -15,
    DiskFull = -16,
}

impl Code {
    pub(crate) const ALL: [Code; 16] = [
        Code::Argument,
        Code::NotFound,
        Code::Refused,
        Code::NoMemory,
        Code::NoAddresses,
        Code::AddressTaken,
        Code::NoTokens,
        Code::Forked,
        Code::Io,
        Code::Corrupt,
        Code::Busy,
        Code::Internal,
        Code::Exists,
        Code::Stale,
        Code::NoObject,
        Code::DiskFull,
    ];

    pub(crate) fn text(self) -> &'static CStr {
        match self {
            Code::Argument => c"an argument is not possible",
            Code::NotFound => c"no such area, or its owner has ended",
            Code::Refused => c"the owner refuses hooks at the moment",
            Code::NoMemory => c"out of memory",
            Code::NoAddresses => c"out of addresses or mappings",
            Code::AddressTaken => c"the origin's addresses are in use in this process",
            Code::NoTokens => c"all 4095 tokens are in use",
            Code::Forked => c"the area belongs to the parent process",
            Code::Io => c"a system call failed",
            Code::Corrupt => c"a file is damaged",
            Code::Busy => c"busy; try again",
            Code::Internal => c"a mistake in the library",
            Code::Exists => c"another area has the name, or the area has its allocator already",
            Code::Stale => c"the owner has not given its state of this moment",
            Code::NoObject => c"no object of the heap has this number",
            Code::DiskFull => c"the disk is full, or the heap's limit on it is reached",
        }
    }
}

/// A failure with its explanation.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: Code,
    pub text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl Display) -> Self {
        assert!((code as i32) < 0, "zero is success");
        Self { code, text: text.to_string() }
    }
}

macro_rules! convert {
    ($error:ident { $($variant:ident => $code:ident),* $(,)? }) => {
        impl From<$error> for Failure {
            fn from(e: $error) -> Self {
                #[allow(unreachable_patterns)]
                let code = match &e {
                    $($error::$variant { .. } => Code::$code,)*
                    _ => Code::Io,
                };
                Failure::new(code, e)
            }
        }
    };
}

convert!(CreateError { AlreadyExists => Busy, Owned => Busy, OutOfMemory => NoMemory,
    AddressSpace => NoAddresses, TooManyMappings => NoAddresses, OutOfRange => Argument,
    Limit => NoAddresses, Forked => Forked, Broken => Internal });
convert!(HookError { NotFound => NotFound, NotShared => Refused, NotHookable => Refused,
    Contended => Busy, NotFresh => Stale, Corrupt => Corrupt, AddressSpace => NoAddresses,
    TooManyMappings => NoAddresses, AddressTaken => AddressTaken, MemoryGone => NotFound });
convert!(DeriveError { AlreadyExists => Busy, Owned => Busy, Corrupt => Corrupt,
    OutOfMemory => NoMemory, AddressSpace => NoAddresses, TooManyMappings => NoAddresses,
    AddressTaken => AddressTaken, Limit => NoAddresses, Forked => Forked, Broken => Internal });
convert!(TrackError { OutOfMemory => NoMemory, AddressSpace => NoAddresses,
    TooManyMappings => NoAddresses, Limit => NoAddresses, Forked => Forked, Broken => Internal });
convert!(PublishError { OutOfMemory => NoMemory, AddressSpace => NoAddresses,
    TooManyMappings => NoAddresses, Pinned => Busy, Forked => Forked, Broken => Internal });
convert!(HeapError { Options => Argument, ZoneTooSmall => Argument, Write => NoMemory,
    NoHeap => Argument, Version => Corrupt, Geometry => Corrupt, Corrupt => Corrupt });
convert!(FreeError { NotAllocated => Argument, Length => Argument, Corrupt => Corrupt,
    Write => NoMemory });

impl From<AllocError> for Failure {
    fn from(e: AllocError) -> Self {
        let code = match &e {
            AllocError::Alignment { .. } | AllocError::Length { len: 0 } => Code::Argument,
            AllocError::Corrupt { .. } => Code::Corrupt,
            // Among them a block longer than the area.
            _ => Code::NoMemory,
        };
        Failure::new(code, e)
    }
}

/// Remembers the text, gives the number.
pub(crate) fn note(failure: Failure) -> c_int {
    last_error::remember(&failure.text);
    failure.code as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(failure: impl Into<Failure>) -> Code {
        failure.into().code
    }

    #[test]
    fn each_number_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<&CStr> = Code::ALL.map(Code::text).into();
        assert_eq!(texts.len(), Code::ALL.len());
        for (i, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as i32, -1 - i as i32, "numbers never change");
        }
    }

    #[test]
    fn what_a_program_can_wait_for_is_busy() {
        let name = || "a".to_owned();
        assert_eq!(code(CreateError::AlreadyExists { name: name() }), Code::Busy);
        assert_eq!(code(HookError::Contended { name: name() }), Code::Busy);
        let owned = DeriveError::Owned { name: name(), pid: 1, command: name() };
        assert_eq!(code(owned), Code::Busy);
    }

    #[test]
    fn allocators_errors_tell_mistakes_from_shortage() {
        assert_eq!(code(AllocError::Length { len: 0 }), Code::Argument);
        assert_eq!(code(AllocError::Length { len: 1 << 60 }), Code::NoMemory);
        assert_eq!(code(AllocError::Exhausted { len: 8, largest: 4 }), Code::NoMemory);
        assert_eq!(code(FreeError::NotAllocated { offset: 8 }), Code::Argument);
        let damaged = FreeError::Corrupt { at: 8, found: 1, rule: "rule" };
        assert_eq!(code(damaged), Code::Corrupt);
    }
}
