//! Arrays for one key that is a whole number from a dense range: no hash, no comparison.
//!
//! The range is cut into parts of equally many numbers. Where each number occurs once, as keys of
//! tables do, a part has for each number its row ([`Unique`]). Otherwise it has for each number
//! where its rows begin and end ([`Many`]).

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;

use super::keys;
use super::pairs::{Pairs, Span};
use super::scattered::Scattered;

/// A range of whole numbers in parts.
#[derive(Debug)]
pub(crate) struct Dense<P> {
    parts: Vec<P>,
    range: Range,
}

/// The numbers that a table knows, and how they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: i64,
    /// The greatest number, less the least.
    pub(crate) span: u32,
    /// Each part has `1 << shift` numbers.
    pub(crate) shift: u32,
}

impl Range {
    /// A range in about `1 << part_bits` parts. `None` where it has more than 2^32 numbers.
    pub(crate) fn new(least: i64, greatest: i64, part_bits: u32) -> Option<Self> {
        let span = u32::try_from(greatest.wrapping_sub(least) as u64).ok()?;
        let bits = u32::BITS - span.leading_zeros();
        Some(Self { least, span, shift: bits.saturating_sub(part_bits) })
    }

    pub(crate) fn parts(&self) -> usize {
        (u64::from(self.span) >> self.shift) as usize + 1
    }

    /// How many numbers a part has.
    fn numbers(&self, part: usize) -> usize {
        let most = 1 << self.shift;
        let from = (part as u64) << self.shift;
        most.min((u64::from(self.span) - from + 1) as usize)
    }

    /// The place of an offset in its part.
    fn place(&self, offset: u64) -> usize {
        (offset & ((1 << self.shift) - 1)) as usize
    }
}

/// The rows of numbers that occur at most once: one more than the row's number, or zero.
#[derive(Debug)]
pub(crate) struct Unique(Vec<u32>);

impl Unique {
    /// `None` where a number occurs twice.
    pub(crate) fn new(scattered: &[Scattered], part: usize, range: &Range) -> Option<Self> {
        let mut rows = vec![0; range.numbers(part)];
        for (offset, row) in scattered.iter().flat_map(|rows| rows.of_part(part)) {
            let slot = &mut rows[range.place(offset)];
            if *slot != 0 {
                return None;
            }
            *slot = row + 1;
        }
        Some(Self(rows))
    }

    /// Bytes that all parts of a range take.
    pub(crate) fn bytes_of(range: &Range) -> usize {
        (range.span as usize + 1) * size_of::<u32>()
    }
}

impl Dense<Unique> {
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.0.len() * size_of::<u32>()).sum()
    }

    /// Spans whose start is the row itself.
    pub(crate) fn find(
        &self,
        keys: &[ArrayRef],
        valid: Option<&NullBuffer>,
        offsets: &mut Vec<u64>,
        spans: &mut Vec<Span>,
    ) {
        self.each(keys, valid, offsets, |probe, number, part, place| {
            let row = part.0[place];
            if row != 0 {
                spans.push(Span { probe, part: number, start: row - 1, end: row });
            }
        });
    }
}

/// The rows of numbers that occur several times.
#[derive(Debug)]
pub(crate) struct Many {
    /// For each number, behind a zero, where its rows end.
    ends: Vec<u32>,
    rows: Vec<u32>,
}

impl Many {
    pub(crate) fn new(scattered: &[Scattered], part: usize, range: &Range) -> Self {
        let all = || scattered.iter().flat_map(|rows| rows.of_part(part));
        let mut ends = vec![0; range.numbers(part) + 1];
        for (offset, _) in all() {
            ends[range.place(offset) + 1] += 1;
        }
        let mut start = 0;
        for end in &mut ends[1..] {
            start += std::mem::replace(end, start);
        }
        let mut rows = vec![0; start as usize];
        for (offset, row) in all() {
            let end = &mut ends[range.place(offset) + 1];
            rows[*end as usize] = row;
            *end += 1;
        }
        Self { ends, rows }
    }

    /// Bytes that all parts of a range take with so many rows.
    pub(crate) fn bytes_of(range: &Range, rows: usize) -> usize {
        (range.span as usize + range.parts() + 1 + rows) * size_of::<u32>()
    }
}

impl Dense<Many> {
    pub(crate) fn bytes(&self) -> usize {
        let words = self.parts.iter().map(|part| part.ends.len() + part.rows.len());
        words.sum::<usize>() * size_of::<u32>()
    }

    pub(crate) fn find(
        &self,
        keys: &[ArrayRef],
        valid: Option<&NullBuffer>,
        offsets: &mut Vec<u64>,
        spans: &mut Vec<Span>,
    ) {
        self.each(keys, valid, offsets, |probe, number, part, place| {
            let (start, end) = (part.ends[place], part.ends[place + 1]);
            if start < end {
                spans.push(Span { probe, part: number, start, end });
            }
        });
    }

    pub(crate) fn list(&self, span: &Span, pairs: &mut Pairs) {
        let rows = &self.parts[span.part as usize].rows[span.start as usize..span.end as usize];
        pairs.build.extend_from_slice(rows);
        pairs.probe.resize(pairs.build.len(), span.probe);
    }
}

impl<P> Dense<P> {
    pub(crate) fn new(parts: Vec<P>, range: Range) -> Self {
        debug_assert_eq!(parts.len(), range.parts());
        Self { parts, range }
    }

    /// Calls `found` with each valid row whose key is in the range: its number, the part's number,
    /// the part, and the place there.
    fn each(
        &self,
        keys: &[ArrayRef],
        valid: Option<&NullBuffer>,
        offsets: &mut Vec<u64>,
        mut found: impl FnMut(u32, u32, &P, usize),
    ) {
        let [key] = keys else { return };
        if keys::offsets(key.as_ref(), self.range.least, offsets).is_none() {
            debug_assert!(false, "keys of both sides have one type");
            return;
        }
        for (row, &offset) in offsets.iter().enumerate() {
            let is_known = offset <= u64::from(self.range.span);
            if is_known && valid.is_none_or(|valid| valid.is_valid(row)) {
                let part = (offset >> self.range.shift) as usize;
                found(row as u32, part as u32, &self.parts[part], self.range.place(offset));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_completely() {
        for (least, greatest) in [(0, 0), (-5, 5), (i64::MIN, i64::MIN + 70_000), (7, 1 << 32)] {
            for bits in [0, 1, 4, 8] {
                let Some(range) = Range::new(least, greatest, bits) else { panic!("too wide") };
                assert!(range.parts() <= 1 << bits, "{range:?}");
                let numbers = (0..range.parts()).map(|part| range.numbers(part)).sum::<usize>();
                assert_eq!(numbers, range.span as usize + 1, "{range:?}");
            }
        }
        assert_eq!(Range::new(i64::MIN, i64::MAX, 4), None);
        assert_eq!(Range::new(0, 1 << 32, 4), None);
    }
}
