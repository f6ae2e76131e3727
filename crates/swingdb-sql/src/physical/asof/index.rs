//! The right side of an ASOF JOIN, in the order of keys and time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat_batches, filter, filter_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use hashbrown::HashMap;
use swingdb_common::runtime::held::Held;

use crate::nodes::asof_condition::{Condition, Nearest};

/// See the [module documentation](self).
pub(crate) struct Index {
    /// The rows whose keys and time are not NULL.
    pub rows: RecordBatch,
    keys: RowConverter,
    time: RowConverter,
    times: Rows,
    /// The group of each key.
    groups: HashMap<Box<[u8]>, usize>,
    /// The rows of each group, ordered by time.
    ranges: Vec<Range<usize>>,
    nearest: Nearest,
    _memory: MemoryReservation,
}

impl Index {
    /// `batches` must be in the order of the right side's keys and time.
    pub fn build(
        schema: &SchemaRef,
        batches: &[RecordBatch],
        condition: &Condition<PhysicalExprRef>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        // While they are put together they are there twice, but for the buffers that both share.
        let columns = batches.iter().flat_map(RecordBatch::columns);
        for column in columns {
            memory.try_grow(column.to_data().get_slice_memory_size()?)?;
        }
        let mut rows = concat_batches(schema, batches)?;
        let mut sides = values(condition, 1, &rows)?;
        if let Some(nulls) = nulls_of(&sides) {
            let kept = BooleanArray::new(nulls.into_inner(), None);
            rows = filter_record_batch(&rows, &kept)?;
            sides = sides.iter().map(|side| filter(side, &kept)).collect::<Result<_, _>>()?;
        }
        let fields = sides.iter().map(|side| SortField::new(side.data_type().clone()));
        let mut fields = fields.collect::<Vec<_>>();
        let time = RowConverter::new(fields.split_off(condition.keys.len()))?;
        let keys = RowConverter::new(fields)?;
        let (key_columns, time_columns) = sides.split_at(condition.keys.len());
        let times = time.convert_columns(time_columns)?;
        let mut index = Self {
            keys,
            time,
            times,
            groups: HashMap::new(),
            ranges: Vec::new(),
            nearest: condition.nearest,
            _memory: memory,
            rows,
        };
        index.group(key_columns)?;
        let hashed: usize = index.groups.keys().map(|key| key.len()).sum();
        let groups = index.ranges.len() * (size_of::<(Box<[u8]>, usize)>() + 24);
        let size = Held::default().add(&index.rows) + index.times.size() + hashed + groups;
        index._memory.try_resize(size)?;
        Ok(index)
    }

    /// Finds where keys begin and end.
    fn group(&mut self, keys: &[ArrayRef]) -> Result<()> {
        let rows = self.rows.num_rows();
        if keys.is_empty() {
            self.ranges.push(0..rows);
            return Ok(());
        }
        let keys = self.keys.convert_columns(keys)?;
        let mut start = 0;
        for row in 1..=rows {
            if row == rows || keys.row(row) != keys.row(start) {
                self.groups.insert(keys.row(start).as_ref().into(), self.ranges.len());
                self.ranges.push(start..row);
                start = row;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index of {} rows", self.rows.num_rows())
    }
}

/// Knows where the last search in each group ended: the next row's time is often near.
pub(crate) struct Search {
    pub index: Arc<Index>,
    last: Vec<usize>,
}

impl Search {
    pub fn new(index: Arc<Index>) -> Self {
        let last = index.ranges.iter().map(|range| range.start).collect();
        Self { index, last }
    }

    /// The row of the index for each row of the left side, whose keys and time these are.
    pub fn find(&mut self, sides: &[ArrayRef]) -> Result<UInt64Array> {
        let index = Arc::clone(&self.index);
        let rows = sides.last().map_or(0, |time| time.len());
        let nulls = nulls_of(sides);
        let (keys, time) = sides.split_at(sides.len() - 1);
        let times = index.time.convert_columns(time)?;
        let keys = match keys {
            [] => None,
            keys => Some(index.keys.convert_columns(keys)?),
        };
        let mut known: Option<(Row<'_>, Option<usize>)> = None;
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                found.push(None);
                continue;
            }
            let group = match &keys {
                None => Some(0),
                Some(keys) => {
                    let key = keys.row(row);
                    let group = match known {
                        Some((last, group)) if last == key => group,
                        _ => index.groups.get(key.as_ref()).copied(),
                    };
                    known = Some((key, group));
                    group
                }
            };
            let place = group.and_then(|group| self.place(group, times.row(row)));
            found.push(place.map(|place| place as u64));
        }
        Ok(found.into())
    }

    fn place(&mut self, group: usize, time: Row<'_>) -> Option<usize> {
        let range = self.index.ranges[group].clone();
        let times = &self.index.times;
        let with_equal = matches!(self.index.nearest, Nearest::AtOrBefore | Nearest::After);
        let is_before = |row: usize| match with_equal {
            true => times.row(row) <= time,
            false => times.row(row) < time,
        };
        let end = boundary(range.clone(), self.last[group], is_before);
        self.last[group] = end;
        match self.index.nearest {
            Nearest::AtOrBefore | Nearest::Before => {
                end.checked_sub(1).filter(|at| *at >= range.start)
            }
            Nearest::AtOrAfter | Nearest::After => Some(end).filter(|at| *at < range.end),
        }
    }
}

/// The first of `range` for which `is_before` does not hold, or its end; `is_before` holds up to
/// one place and not behind it. Looks near `guess` first, and then twice as far each time.
fn boundary(range: Range<usize>, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    let mut step = 1;
    if guess < high && is_before(guess) {
        low = guess + 1;
        while low + step < high && is_before(low + step) {
            low += step + 1;
            step *= 2;
        }
        high = high.min(low + step);
    } else {
        high = guess;
        while high >= low + step && !is_before(high - step) {
            high -= step;
            step *= 2;
        }
        low = low.max((high + 1).saturating_sub(step));
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match is_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// The keys and the time of one side's rows.
pub(crate) fn values(
    condition: &Condition<PhysicalExprRef>,
    side: usize,
    rows: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    let value = |expr: &PhysicalExprRef| expr.evaluate(rows)?.into_array(rows.num_rows());
    condition.side(side).map(value).collect()
}

/// Where any of the columns is NULL.
fn nulls_of(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let nulls = columns.iter().map(|column| column.logical_nulls());
    nulls.fold(None, |all, own| NullBuffer::union(all.as_ref(), own.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_from_anywhere() {
        for end in 3..20 {
            for place in 3..=end {
                for guess in 3..=end {
                    assert_eq!(boundary(3..end, guess, |at| at < place), place, "{end} {guess}");
                }
            }
        }
    }
}
