//! The table of a join: from the keys of probe rows to the numbers of build rows.
//!
//! A table consists of parts, each built by one worker; before, its rows are
//! [`Scattered`](super::scattered::Scattered). Looking a batch up takes two steps. [`Table::find`]
//! gives for each row of the probe side where in the table its partners may be; its iterations do
//! not depend on each other, so that the processor waits for many of them at once.
//! [`Table::pairs`] then lists the partners, as many as the caller wants at a time.

use std::fmt;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use datafusion::common::{NullEquality, Result};

use super::direct::{Dense, Many, Unique};
use super::hashed::Hashed;
use super::keys;
use super::pairs::{Cursor, Pairs, Span};

/// The most rows of a build side: numbers of rows have 32 bits.
pub(crate) const MOST_ROWS: usize = u32::MAX as usize - 1;

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
