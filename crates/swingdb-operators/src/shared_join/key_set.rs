//! The keys of the build side as a set of bits, for scans of the probe side: [`KeySet`].
//!
//! Tables number their rows, so that the keys of a join are mostly whole numbers of one range. A
//! bit for each number of it is exact, and takes a few percent of the memory of the table: a scan
//! looks into a processor's cache where it would wait for memory.

use arrow::array::{Array, BooleanArray};

use super::direct::Range;
use super::keys;
use super::marks::Marks;

/// Bytes of a set for each row of the table: a range with more numbers is told by the table itself.
const BYTES_OF_ROW: usize = 16;

/// Whole numbers of a range.
#[derive(Debug)]
pub(crate) struct KeySet {
    range: Range,
    marks: Marks,
}

impl KeySet {
    /// Bytes of a set for the numbers of a range, if it is worth it for so many rows.
    pub(crate) fn bytes(range: &Range, rows: usize) -> Option<usize> {
        let bytes = Marks::bytes(range.span as usize + 1);
        (bytes / BYTES_OF_ROW <= rows).then_some(bytes)
    }

    /// A set without any number.
    pub(crate) fn new(range: Range) -> Self {
        Self { range, marks: Marks::new(range.span as usize + 1) }
    }

    /// Adds keys that are not NULL, all of which are in the range. `offsets` is scratch space.
    pub(crate) fn add(&self, keys: &dyn Array, offsets: &mut Vec<u64>) {
        if keys::offsets(keys, self.range.least, offsets).is_none() {
            debug_assert!(false, "keys are whole numbers");
        }
        let nulls = keys.nulls();
        for (row, &offset) in offsets.iter().enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                self.marks.set(offset as u32);
            }
        }
    }

    /// Which of the keys are in the set; NULL never is. `None` where they are no whole numbers.
    pub(crate) fn contains(&self, keys: &dyn Array) -> Option<BooleanArray> {
        let span = u64::from(self.range.span);
        let known = |offset: u64| offset <= span && self.marks.has(offset as u32);
        let found = keys::each_offset(keys, self.range.least, known)?;
        Some(BooleanArray::new(
            match keys.nulls() {
                Some(nulls) => &found & nulls.inner(),
                None => found,
            },
            None,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int16Array, Int64Array, UInt64Array};

    use super::*;

    fn set_of(least: i64, greatest: i64) -> Option<KeySet> {
        Range::new(least, greatest, 0).map(KeySet::new)
    }

    #[test]
    fn it_has_what_was_added() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for (least, greatest) in [(-5, 5), (0, 0), (i64::MIN, i64::MIN + 900), (-300, 32_000)] {
            let numbers = |random: &mut fastrand::Rng, from: i64, to: i64| {
                let number = |random: &mut fastrand::Rng| random.i64(from..=to);
                (0..200).map(|_| (random.u8(..4) > 0).then(|| number(random))).collect::<Vec<_>>()
            };
            let added = numbers(&mut random, least, greatest);
            let asked = numbers(&mut random, least.saturating_sub(10), greatest + 10);
            let Some(set) = set_of(least, greatest) else { panic!("too wide") };
            set.add(&Int64Array::from(added.clone()), &mut Vec::new());
            let known = added.iter().flatten().copied().collect::<HashSet<_>>();
            let expected = asked.iter().map(|key| key.is_some_and(|key| known.contains(&key)));
            let found = set.contains(&Int64Array::from(asked.clone()));
            assert_eq!(found, Some(expected.collect::<Vec<_>>().into()));
        }
    }

    #[test]
    fn numbers_have_any_width_and_sign() {
        let of = |keys: ArrayRef, least: i64, greatest: i64| {
            let Some(set) = set_of(least, greatest) else { panic!("too wide") };
            set.add(keys.as_ref(), &mut Vec::new());
            set.contains(keys.as_ref()).map(|found| found.true_count())
        };
        assert_eq!(of(Arc::new(Int16Array::from(vec![-7, i16::MAX])), -7, 32_767), Some(2));
        let large = [u64::MAX, u64::MAX - 3].to_vec();
        assert_eq!(of(Arc::new(UInt64Array::from(large)), -4, -1), Some(2));
        assert!(set_of(i64::MIN, i64::MAX).is_none());
    }

    #[test]
    fn a_sparse_range_gets_none() {
        let bytes = |least, greatest, rows| {
            Range::new(least, greatest, 0).and_then(|range| KeySet::bytes(&range, rows))
        };
        assert_eq!(bytes(1, 6_400, 1_000), Some(800));
        assert_eq!(bytes(0, 1 << 31, 1_000_000), None);
        assert_eq!(bytes(0, i64::MAX, usize::MAX), None);
    }
}
