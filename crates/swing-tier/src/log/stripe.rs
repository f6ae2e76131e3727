//! Placing records for the domains of a device: stripes.
//!
//! A stripe is a stretch of a file that lies in one domain. Blocks begin at stripes, and records
//! are cut where the next stripe begins, so that each piece can be read, and checked, by the scan
//! of one domain. Short records go to the next stripe whole rather than to be cut.

use crate::log::format::{CHUNK_ALIGN, HEADER_BYTES};
use crate::units::UNIT_BYTES;

/// Without stripes small records begin at multiples of this many bytes.
const RECORD_ALIGN: usize = 8;

/// The length of stripes, in bytes; `None`: records lie as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe(pub(crate) Option<u64>);

impl Stripe {
    /// Blocks begin at multiples of this many bytes.
    pub(crate) fn block_align(self) -> u64 {
        self.0.unwrap_or(UNIT_BYTES)
    }

    /// The longest piece that never has to be cut.
    pub(crate) fn longest(self) -> usize {
        self.0.unwrap_or(0) as usize
    }

    /// Where in a block's payload a record of `len` bytes begins, behind the first `used`.
    pub(crate) fn place(self, used: usize, len: usize) -> usize {
        let Some(stripe) = self.0 else { return used.next_multiple_of(RECORD_ALIGN) };
        let start = used.next_multiple_of(CHUNK_ALIGN);
        if len <= stripe as usize && len > self.room(start) {
            return start + self.room(start);
        }
        start
    }

    /// Cuts a record that begins at `start` of a block's payload: the begin and length of each
    /// piece, counted from the record's begin.
    pub(crate) fn cut(self, start: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let piece = (len - from).min(self.room(start + from));
            let cut = (from, piece);
            from += piece;
            (piece > 0).then_some(cut)
        })
    }

    /// How many bytes there are from a place of the payload to the next stripe.
    fn room(self, at: usize) -> usize {
        match self.0 {
            None => usize::MAX,
            Some(stripe) => (stripe - (HEADER_BYTES + at as u64) % stripe) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_stripes_records_lie_as_they_come() {
        let none = Stripe(None);
        assert_eq!((none.place(13, 9000), none.block_align()), (16, 4096));
        assert_eq!(none.cut(16, 9000).collect::<Vec<_>>(), [(0, 9000)]);
    }

    #[test]
    fn records_are_cut_at_stripes_and_short_ones_not_at_all() {
        let stripe = Stripe(Some(8192));
        assert_eq!(stripe.place(0, 100), 0);
        assert_eq!(stripe.place(8000, 128), 8000, "ends with the stripe");
        assert_eq!(stripe.place(8000, 129), 8128, "8064 + 129 would cross 8192 of the block");
        assert_eq!(stripe.place(8000, 8192), 8128, "exactly one stripe");
        assert_eq!(stripe.place(100, 9000), 128, "too long for any");
        let cut: Vec<_> = stripe.cut(128, 20_000).collect();
        assert_eq!(cut, [(0, 8000), (8000, 8192), (16_192, 3808)]);
    }

    #[test]
    fn pieces_lie_in_a_stripe_and_begin_at_multiples_of_the_alignment() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
            let unit = 4096 * random.u64(1..65);
            let stripe = Stripe(Some(unit));
            let (used, len) = (random.usize(0..100_000), random.usize(1..200_000));
            let start = stripe.place(used, len);
            assert!(start >= used && start.is_multiple_of(CHUNK_ALIGN));
            let mut next = 0;
            for (from, piece) in stripe.cut(start, len) {
                assert_eq!(from, next);
                assert!(from.is_multiple_of(CHUNK_ALIGN));
                let at = HEADER_BYTES + (start + from) as u64;
                assert_eq!(at / unit, (at + piece as u64 - 1) / unit);
                next += piece;
            }
            assert_eq!(next, len);
            assert!(len as u64 > unit || stripe.cut(start, len).count() == 1);
        }
    }
}
