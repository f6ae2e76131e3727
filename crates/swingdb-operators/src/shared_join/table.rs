//! The table of a join: from the keys of probe rows to the numbers of build rows.
//!
//! A table consists of parts, each built by one worker ([`Scattered`] are the rows for it). Looking
//! a batch up takes two steps. [`Table::find`] gives for each row of the probe side where in the
//! table its partners may be; its iterations do not depend on each other, so that the processor
//! waits for many of them at once. [`Table::pairs`] then lists the partners, as many as the caller
//! wants at a time.

use std::fmt;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use datafusion::common::{NullEquality, Result};

use super::direct::{Dense, Many, Unique};
use super::hashed::Hashed;
use super::keys;

/// The most rows of a build side: numbers of rows have 32 bits.
pub(crate) const MOST_ROWS: usize = u32::MAX as usize - 1;

/// Where the possible partners of a probe row are: a range of a part's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) probe: u32,
    pub(crate) part: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// How far the listing of pairs has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The span that is next, or under way.
    pub(crate) span: usize,
    /// Entries of it that are done.
    pub(crate) done: u32,
}

/// Rows that may be partners, as numbers of both sides.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) build: Vec<u32>,
    pub(crate) probe: Vec<u32>,
}

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.build.len()
    }

    pub(crate) fn push(&mut self, build: u32, probe: u32) {
        self.build.push(build);
        self.probe.push(probe);
    }

    /// Keeps the pairs of which a test holds.
    pub(crate) fn retain(&mut self, mut holds: impl FnMut(usize, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.build.len() {
            let (build, probe) = (self.build[at], self.probe[at]);
            self.build[kept] = build;
            self.probe[kept] = probe;
            kept += usize::from(holds(build as usize, probe as usize));
        }
        self.build.truncate(kept);
        self.probe.truncate(kept);
    }
}

/// How a table finds rows.
pub(crate) enum Table {
    /// There is no row that could match.
    Empty,
    /// One whole number from a dense range, never twice: an array of rows.
    Unique(Dense<Unique>),
    /// One whole number from a dense range: an array of lists of rows.
    Many(Dense<Many>),
    /// Any keys: hashes.
    Hashed(Hashed),
}

// Conditions that hold a table are printed; its rows must not be.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Unique(_) => "Unique",
            Self::Many(_) => "Many",
            Self::Hashed(_) => "Hashed",
        })
    }
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Whether two rows found are equal for sure: their keys need no comparison.
    pub(crate) fn is_exact(&self) -> bool {
        !matches!(self, Self::Hashed(_))
    }

    /// Where the partners of the rows of `keys` may be, in the order of the rows. `values` is
    /// scratch space.
    pub(crate) fn find(
        &self,
        keys: &[ArrayRef],
        rows: usize,
        null_equality: NullEquality,
        values: &mut Vec<u64>,
        spans: &mut Vec<Span>,
    ) -> Result<()> {
        spans.clear();
        let valid = match self {
            Self::Empty => return Ok(()),
            // A table of whole numbers has no NULL, also where NULL would match NULL.
            Self::Unique(_) | Self::Many(_) => {
                keys::matchable(keys, NullEquality::NullEqualsNothing)
            }
            Self::Hashed(_) => keys::matchable(keys, null_equality),
        };
        let valid = valid.as_ref();
        match self {
            Self::Empty => {}
            Self::Unique(table) => table.find(keys, valid, values, spans),
            Self::Many(table) => table.find(keys, valid, values, spans),
            Self::Hashed(table) => {
                keys::hashes(keys, rows, values)?;
                table.find(values, valid, spans);
            }
        }
        Ok(())
    }

    /// Lists pairs from `cursor` on until there are `limit` of them. `values` are as [`find`] left
    /// them.
    ///
    /// [`find`]: Self::find
    pub(crate) fn pairs(
        &self,
        values: &[u64],
        spans: &[Span],
        cursor: &mut Cursor,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        while let Some(span) = spans.get(cursor.span) {
            let start = span.start + cursor.done;
            let room = limit.saturating_sub(pairs.len());
            if room == 0 {
                return;
            }
            let end = span.end.min(start.saturating_add(u32::try_from(room).unwrap_or(u32::MAX)));
            self.list(values, &Span { start, end, ..*span }, pairs);
            if end < span.end {
                cursor.done = end - span.start;
            } else {
                *cursor = Cursor { span: cursor.span + 1, done: 0 };
            }
        }
    }

    /// Lists the first pair of each span, and drops the entries seen from the span.
    pub(crate) fn first_pairs(&self, values: &[u64], spans: &mut [Span], pairs: &mut Pairs) {
        for span in spans {
            let before = pairs.len();
            while span.start < span.end && pairs.len() == before {
                let one = Span { end: span.start + 1, ..*span };
                self.list(values, &one, pairs);
                span.start += 1;
            }
        }
    }

    fn list(&self, values: &[u64], span: &Span, pairs: &mut Pairs) {
        match self {
            Self::Empty => {}
            Self::Unique(_) => pairs.push(span.start, span.probe),
            Self::Many(table) => table.list(span, pairs),
            Self::Hashed(table) => table.list(values[span.probe as usize], span, pairs),
        }
    }

    /// Whether each row may have a partner; a row that has one is never left out.
    pub(crate) fn contains(
        &self,
        keys: &[ArrayRef],
        rows: usize,
        null_equality: NullEquality,
    ) -> Result<BooleanArray> {
        let (mut values, mut spans) = (Vec::new(), Vec::new());
        self.find(keys, rows, null_equality, &mut values, &mut spans)?;
        let mut found = BooleanBufferBuilder::new(rows);
        found.append_n(rows, false);
        for span in &spans {
            let may = match self {
                Self::Hashed(table) => table.may_have(values[span.probe as usize], span),
                _ => true,
            };
            if may {
                found.set_bit(span.probe as usize, true);
            }
        }
        Ok(BooleanArray::new(found.finish(), None))
    }
}

/// Some consecutive rows of the build side, sorted by the part of the table that they belong to.
#[derive(Debug)]
pub(crate) struct Scattered {
    /// The hash, or the offset, of each row.
    values: Vec<u64>,
    rows: Vec<u32>,
    /// Where the rows of each part end.
    ends: Vec<u32>,
}

impl Scattered {
    /// Sorts rows numbered from `first` by `value >> shift`, and leaves out the rows that are not
    /// `valid`. The rows of a part keep their order.
    pub(crate) fn new(
        values: &[u64],
        first: u32,
        valid: Option<&NullBuffer>,
        shift: u32,
        parts: usize,
    ) -> Self {
        let part = |value: u64| value.checked_shr(shift).unwrap_or(0) as usize;
        let is_valid = |at: usize| valid.is_none_or(|valid| valid.is_valid(at));
        let mut ends = vec![0; parts];
        for (at, value) in values.iter().enumerate() {
            if is_valid(at) {
                ends[part(*value)] += 1;
            }
        }
        let mut all = 0;
        for end in &mut ends {
            all += std::mem::replace(end, all);
        }
        let mut sorted = Self { values: vec![0; all as usize], rows: vec![0; all as usize], ends };
        for (at, value) in values.iter().enumerate() {
            if is_valid(at) {
                let end = &mut sorted.ends[part(*value)];
                sorted.values[*end as usize] = *value;
                sorted.rows[*end as usize] = first + at as u32;
                *end += 1;
            }
        }
        sorted
    }

    /// The rows of a part with their values.
    pub(crate) fn of_part(&self, part: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        let range = start..self.ends[part] as usize;
        self.values[range.clone()].iter().copied().zip(self.rows[range].iter().copied())
    }

    pub(crate) fn len_of_part(&self, part: usize) -> usize {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.ends[part] - start) as usize
    }

    /// Bytes that so many rows take.
    pub(crate) fn bytes(rows: usize) -> usize {
        rows * (size_of::<u64>() + size_of::<u32>())
    }
}
