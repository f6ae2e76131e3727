//! Whole numbers of the five widths: [`Number`]. Those without a sign, and floats, are taken as
//! the signed number of the same bytes: all that counts is that they come back.

/// A number of a fixed width, with arithmetic that wraps around.
pub(super) trait Number: Copy + Ord {
    const BYTES: usize;

    /// The numbers of little-endian bytes; a part of one at the end is left out.
    fn load(bytes: &[u8], into: &mut Vec<Self>);

    fn append(self, out: &mut Vec<u8>);

    /// From the first bytes, which are enough.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// How far it is above `base`, where that fits into 64 bits.
    fn above(self, base: Self) -> Option<u64>;

    /// The step from `before`, where that fits into 64 bits.
    fn step(self, before: Self) -> Option<i64>;

    /// The number from which a step leads to this one; wraps around.
    fn before(self, step: i64) -> Self;

    /// Writes `base` plus each of the offsets.
    fn put_offsets(base: Self, offsets: &[u64], out: &mut [u8]);

    /// Writes the numbers that one comes to from `last` by steps of `least` and more; returns the
    /// last of them.
    fn put_steps(last: Self, least: i64, steps: &[u64], out: &mut [u8]) -> Self;

    /// Writes those of `values` that `places` say; `false`: there is none in such a place.
    fn put_values(values: &[Self], places: &[u64], out: &mut [u8]) -> bool;

    /// Something well mixed of its bits.
    fn hash(self) -> u64;
}

macro_rules! number {
    ($type:ty, $bytes:literal) => {
        impl Number for $type {
            const BYTES: usize = $bytes;

            fn load(bytes: &[u8], into: &mut Vec<Self>) {
                let (all, _) = bytes.as_chunks::<$bytes>();
                into.clear();
                into.extend(all.iter().map(|bytes| Self::from_le_bytes(*bytes)));
            }

            fn append(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn above(self, base: Self) -> Option<u64> {
                u64::try_from(self.abs_diff(base)).ok()
            }

            fn step(self, before: Self) -> Option<i64> {
                i64::try_from(self.checked_sub(before)?).ok()
            }

            fn before(self, step: i64) -> Self {
                self.wrapping_sub(step as Self)
            }

            fn put_offsets(base: Self, offsets: &[u64], out: &mut [u8]) {
                let (out, _) = out.as_chunks_mut::<$bytes>();
                for (out, offset) in out.iter_mut().zip(offsets) {
                    *out = base.wrapping_add(*offset as Self).to_le_bytes();
                }
            }

            fn put_steps(mut last: Self, least: i64, steps: &[u64], out: &mut [u8]) -> Self {
                let (out, _) = out.as_chunks_mut::<$bytes>();
                for (out, step) in out.iter_mut().zip(steps) {
                    last = last.wrapping_add(least.wrapping_add(*step as i64) as Self);
                    *out = last.to_le_bytes();
                }
                last
            }

            fn put_values(values: &[Self], places: &[u64], out: &mut [u8]) -> bool {
                let (out, _) = out.as_chunks_mut::<$bytes>();
                out.iter_mut().zip(places).all(|(out, place)| {
                    let value = values.get(*place as usize);
                    value.is_some_and(|value| {
                        *out = value.to_le_bytes();
                        true
                    })
                })
            }

            fn hash(self) -> u64 {
                let wide = self as i128;
                let folded = (wide as u64) ^ ((wide >> 64) as u64).rotate_left(29);
                let mixed = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                mixed ^ mixed >> 32
            }
        }
    };
}

number!(i8, 1);
number!(i16, 2);
number!(i32, 4);
number!(i64, 8);
number!(i128, 16);
