//! The small types that keep numbers of different meaning apart.

use std::fmt;

/// The unit of placement: every block begins and ends at a multiple of this many bytes.
pub const UNIT_BYTES: u64 = 4096;

/// The most bytes one request to the device moves, and the most a block takes.
pub const MAX_BLOCK_BYTES: u64 = 512 * 1024;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number! {
    /// Names one record of a log for its whole life, wherever it lies. Never used again.
    RecordId, u64, "record "
}
number! {
    /// The number of a committed state; each is larger than the one before. Zero: the empty log.
    Epoch, u64, "epoch "
}
number! {
    /// The number of a file of a log; never used again.
    FileId, u32, "file "
}

/// A random number that each file gets when it is made. It seeds every checksum of the file, so
/// bytes of another file, or of an earlier one in the same place, never pass for its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Rounds up to whole units.
pub(crate) const fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(UNIT_BYTES)
}

/// Rounds down to whole units.
pub(crate) const fn round_down(bytes: u64) -> u64 {
    bytes - bytes % UNIT_BYTES
}

const _: () = assert!(MAX_BLOCK_BYTES.is_multiple_of(UNIT_BYTES));

/// The most requests that a queue may have in flight.
pub const MAX_QUEUE_DEPTH: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_units() {
        assert_eq!((round_up(0), round_up(1), round_up(4096)), (0, 4096, 4096));
        assert_eq!((round_down(4095), round_down(8191)), (0, 4096));
        assert_eq!(RecordId(7).to_string(), "record 7");
    }
}
