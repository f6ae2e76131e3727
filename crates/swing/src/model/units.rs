//! Newtypes for the quantities of this crate, so that an offset, a length, an index and an epoch
//! cannot be mixed up.
//!
//! All are plain 64-bit (or 32-bit) numbers without invariants of their own; checks against an
//! area's geometry happen where they are used.
//!
//! ```
//! use swing::{AreaOffset, ByteLen};
//! let end = AreaOffset(4096) + ByteLen(10);
//! assert_eq!(end - AreaOffset(4096), ByteLen(10));
//! ```

use std::fmt;
use std::ops::{Add, Sub};

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl $name {
            /// The plain number.
            #[inline]
            pub const fn get(self) -> $repr {
                self.0
            }
        }
    };
}

newtype!(
    /// A position in an area, in bytes from its base address. The same byte has the same offset in
    /// every process.
    AreaOffset(u64)
);
newtype!(
    /// A length in bytes.
    ByteLen(u64)
);
newtype!(
    /// The number of a publish of one area; it grows by at least one with every publish and never
    /// repeats within an area.
    Epoch(u64)
);
newtype!(
    /// The system-wide unique, random, never reused identity of an area. A name may be given again,
    /// an id never.
    AreaId(u64)
);
newtype!(
    /// The index of an extent: first those of the small zone, then those of the data zone.
    ExtentId(u32)
);

impl AreaOffset {
    /// The offset as a number of bytes to add to a base address.
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl ByteLen {
    /// 1024 bytes times `n`.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// 1024 x 1024 bytes times `n`.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// 1024 x 1024 x 1024 bytes times `n`.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
    /// The length as `usize`, which on the 64-bit targets of this crate loses nothing.
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

const _: () = assert!(size_of::<usize>() == 8, "areas of this size need 64-bit addresses");

impl Add<ByteLen> for AreaOffset {
    type Output = AreaOffset;
    #[inline]
    fn add(self, len: ByteLen) -> AreaOffset {
        debug_assert!(self.0.checked_add(len.0).is_some(), "offsets are far below 2^64");
        AreaOffset(self.0 + len.0)
    }
}

impl Sub for AreaOffset {
    type Output = ByteLen;
    #[inline]
    fn sub(self, other: AreaOffset) -> ByteLen {
        debug_assert!(self >= other, "a length is never negative");
        ByteLen(self.0 - other.0)
    }
}

impl Add for ByteLen {
    type Output = ByteLen;
    #[inline]
    fn add(self, other: ByteLen) -> ByteLen {
        debug_assert!(self.0.checked_add(other.0).is_some(), "lengths are far below 2^64");
        ByteLen(self.0 + other.0)
    }
}

/// One published state: of which area, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateId {
    /// The area: another one that is made under the same name has another id.
    pub area: AreaId,
    /// Its epoch: each state of an area has a greater one than those before.
    pub epoch: Epoch,
}

impl StateId {
    /// Whether whoever has the state `seen` has something to gain by this one, which the name leads
    /// to now: it is a later one, or the area has been removed and made anew since.
    pub fn is_news_to(self, seen: Option<StateId>) -> bool {
        seen.is_none_or(|seen| seen.area != self.area || seen.epoch < self.epoch)
    }
}

impl Epoch {
    /// Epochs that an area can have. What comes from a file is compared with it, so that the next
    /// epoch always is a number; an area that publishes all the time does not come to the end.
    pub(crate) const POSSIBLE: std::ops::RangeInclusive<Epoch> = Epoch(1)..=Epoch(u64::MAX >> 1);

    /// The epoch after this one.
    #[inline]
    pub const fn next(self) -> Epoch {
        debug_assert!(self.0 < u64::MAX, "no area lives that long");
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for AreaOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for AreaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extent {}", self.0)
    }
}

impl fmt::Display for ByteLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        match n {
            n if n >= 10 << 30 => write!(f, "{} GiB", n >> 30),
            n if n >= 10 << 20 => write!(f, "{} MiB", n >> 20),
            n if n >= 10 << 10 => write!(f, "{} KiB", n >> 10),
            n => write!(f, "{n} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_for_humans() {
        assert_eq!(ByteLen(17).to_string(), "17 B");
        assert_eq!(ByteLen::kib(12).to_string(), "12 KiB");
        assert_eq!(ByteLen::mib(12).to_string(), "12 MiB");
        assert_eq!(ByteLen::gib(12).to_string(), "12 GiB");
        assert_eq!(AreaOffset(255).to_string(), "0xff");
        assert_eq!(AreaId(255).to_string(), "00000000000000ff");
        assert_eq!(Epoch(7).next().to_string(), "8");
        assert_eq!(ExtentId(3).to_string(), "extent 3");
    }

    #[test]
    fn another_areas_state_is_news_whatever_its_epoch() {
        let state = |area, epoch| StateId { area: AreaId(area), epoch: Epoch(epoch) };
        assert!(state(1, 1).is_news_to(None));
        assert!(state(1, 8).is_news_to(Some(state(1, 7))));
        assert!(!state(1, 7).is_news_to(Some(state(1, 7))));
        assert!(!state(1, 6).is_news_to(Some(state(1, 7))));
        assert!((1..9).all(|epoch| state(2, epoch).is_news_to(Some(state(1, 7)))));
    }

    #[test]
    fn offsets_and_lengths_combine() {
        let a = AreaOffset(10) + ByteLen(5);
        assert_eq!(a, AreaOffset(15));
        assert_eq!(a - AreaOffset(10), ByteLen(5));
        assert_eq!(ByteLen(1) + ByteLen(2), ByteLen(3));
        assert_eq!(AreaOffset(9).as_usize(), 9);
        assert_eq!(ByteLen(9).as_usize(), 9);
        assert_eq!(Epoch(4).get(), 4);
    }
}
