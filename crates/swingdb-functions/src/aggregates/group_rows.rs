//! Rows of many groups in one place, each with the number of its group: [`GroupRows`].
//!
//! The rows stay in the batches in which they came. When they are asked for, all of them are put by
//! group at once, and within a group in order. An object for each group, which has its own batches
//! and sorts them, takes fifty times as long where groups are many and have few rows.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, UInt32Array, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, concat, filter, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::EmitTo;
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

/// Rows up to which nobody looks for values that are there twice.
const LEAST: usize = 1 << 16;

/// The first bytes of a row of keys. Those of two rows compare as the rows do, unless they are
/// equal and the rows are longer.
pub(super) fn prefix(key: &[u8]) -> u128 {
    let mut first = [0; size_of::<u128>()];
    let len = key.len().min(first.len());
    first[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(first)
}

/// A part of the rows of a group in a state.
pub(super) fn state_field(place: usize, of: &DataType) -> Field {
    Field::new(place.to_string(), of.clone(), true)
}

/// Groups have numbers of 32 bits.
pub(super) fn check_groups(total: usize) -> Result<()> {
    match u32::try_from(total) {
        Ok(_) => Ok(()),
        Err(_) => exec_err!("more than {} groups of one aggregate", u32::MAX),
    }
}

/// Where the rows of each group begin, of rows by group, and where those of the last one end.
pub(super) fn starts_of(groups: &[u32], total: usize) -> Vec<usize> {
    let mut starts = vec![0; total + 1];
    for group in groups {
        starts[*group as usize + 1] += 1;
    }
    for group in 0..total {
        starts[group + 1] += starts[group];
    }
    starts
}

/// The rows group by group, those of a group as they came.
pub(super) fn by_group(groups: &[u32], starts: &[usize]) -> Vec<u32> {
    let mut next = starts.to_vec();
    let mut rows = vec![0; groups.len()];
    for (row, group) in groups.iter().enumerate() {
        let place = &mut next[*group as usize];
        rows[*place] = row as u32;
        *place += 1;
    }
    rows
}

/// Rows of a value and the keys of its order.
#[derive(Debug)]
pub(super) struct GroupRows {
    /// Of the value and of each key.
    fields: Fields,
    options: Vec<SortOptions>,
    /// Each value of a group once.
    once: bool,
    /// Values without keys, which are in lists as they are.
    is_bare: bool,
    /// How many groups there are.
    total: usize,
    /// The pieces of each column, the value's first.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    groups: Vec<u32>,
    bytes: usize,
    /// So many rows may be there before the same values are sought.
    room: usize,
}

/// Rows of groups that follow each other.
pub(super) struct Arranged {
    /// The value, and the keys.
    pub(super) columns: Vec<ArrayRef>,
    /// Where the rows of each group begin, and where those of the last one end.
    pub(super) starts: Vec<usize>,
}

impl Arranged {
    /// Where each group begins, as lists have it.
    pub(super) fn offsets(&self) -> Result<OffsetBuffer<i32>> {
        if i32::try_from(self.columns[0].len()).is_err() {
            return exec_err!("more than {} values in the lists of an aggregate", i32::MAX);
        }
        Ok(OffsetBuffer::from_lengths(self.starts.windows(2).map(|ends| ends[1] - ends[0])))
    }
}

impl GroupRows {
    /// Of a value and keys of these types.
    pub(super) fn new(types: &[DataType], options: Vec<SortOptions>, once: bool) -> Self {
        let fields = types.iter().enumerate().map(|(place, of)| state_field(place, of)).collect();
        let columns = vec![Vec::new(); types.len()];
        let (groups, total, is_bare) = (Vec::new(), 0, false);
        Self { fields, options, once, is_bare, total, columns, groups, bytes: 0, room: LEAST }
    }

    /// Of values of a type, which are sorted from the least to the greatest.
    pub(super) fn of_values(of: DataType, once: bool) -> Self {
        Self { is_bare: true, ..Self::new(&[of], vec![SortOptions::default()], once) }
    }

    /// The same, without rows.
    pub(super) fn empty(&self) -> Self {
        let types = self.fields.iter().map(|field| field.data_type().clone());
        let empty = Self::new(&types.collect::<Vec<_>>(), self.options.clone(), self.once);
        Self { is_bare: self.is_bare, ..empty }
    }

    pub(super) fn size(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<u32>()
    }

    /// Makes room for so many groups.
    pub(super) fn resize(&mut self, total: usize) -> Result<()> {
        self.total = total;
        check_groups(total)
    }

    /// Adds the selected rows.
    pub(super) fn add(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        selected: &BooleanBuffer,
    ) -> Result<()> {
        match selected.count_set_bits() {
            0 => return Ok(()),
            all if all == groups.len() => self.push(columns)?,
            _ => {
                let selected = BooleanArray::new(selected.clone(), None);
                let columns = columns.iter().map(|column| filter(column, &selected));
                self.push(&columns.collect::<Result<Vec<_>, _>>()?)?;
            }
        }
        self.groups.extend(selected.set_indices().map(|row| groups[row] as u32));
        self.shorten_sometimes()
    }

    /// Adds the rows of such lists as [`as_lists`](Self::as_lists) gives.
    pub(super) fn add_lists(&mut self, lists: &ListArray, groups: &[usize]) -> Result<()> {
        let offsets = lists.value_offsets();
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
        if lists.null_count() > 0 {
            return internal_err!("the rows of a group are a list");
        }
        let rows = lists.values().slice(*first as usize, (*last - *first) as usize);
        match self.is_bare {
            true => self.push(&[rows])?,
            false => self.push(rows.as_struct().columns())?,
        }
        for (group, ends) in groups.iter().zip(offsets.windows(2)) {
            self.groups.extend(std::iter::repeat_n(*group as u32, (ends[1] - ends[0]) as usize));
        }
        self.shorten_sometimes()
    }

    fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if columns.first().is_none_or(|column| column.is_empty()) {
            return Ok(());
        }
        for (pieces, column) in self.columns.iter_mut().zip(columns) {
            self.bytes += column.to_data().get_slice_memory_size()? + size_of::<ArrayRef>();
            pieces.push(Arc::clone(column));
        }
        Ok(())
    }

    /// Takes some groups out, with their rows in the order of keys. Where there are none, the rows
    /// of a group are as they came.
    pub(super) fn emit(
        &mut self,
        emit_to: EmitTo,
        keys: impl Fn(&[ArrayRef]) -> Result<Vec<ArrayRef>>,
    ) -> Result<Arranged> {
        if self.once {
            self.shorten()?;
        }
        let columns = self.whole()?;
        let mut starts = starts_of(&self.groups, self.total);
        let mut places = by_group(&self.groups, &starts);
        let keys = keys(&columns)?;
        if !keys.is_empty() {
            self.sort(&keys, &starts, &mut places)?;
        }
        let places = UInt32Array::from(places);
        let columns = columns.iter().map(|column| take(column, &places, None));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let groups = match emit_to {
            EmitTo::All => self.total,
            EmitTo::First(groups) => groups,
        };
        let (end, rows) = (starts[groups], columns[0].len());
        let rest = starts[groups..].windows(2).enumerate();
        let rest = rest.map(|(group, ends)| std::iter::repeat_n(group as u32, ends[1] - ends[0]));
        self.groups = rest.flatten().collect();
        self.total -= groups;
        let rest = columns.iter().map(|column| column.slice(end, rows - end));
        self.replace(&rest.collect::<Vec<_>>())?;
        starts.truncate(groups + 1);
        let columns = columns.iter().map(|column| column.slice(0, end)).collect();
        Ok(Arranged { columns, starts })
    }

    /// Takes some groups out, their rows as a list for each.
    pub(super) fn as_lists(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let arranged = self.emit(emit_to, |_| Ok(Vec::new()))?;
        let offsets = arranged.offsets()?;
        let rows: ArrayRef = match self.is_bare {
            true => Arc::clone(&arranged.columns[0]),
            false => Arc::new(StructArray::try_new(self.fields.clone(), arranged.columns, None)?),
        };
        let item = Field::new_list_field(rows.data_type().clone(), true);
        Ok(Arc::new(ListArray::try_new(Arc::new(item), offsets, rows, None)?))
    }

    /// All rows, as whole columns.
    fn whole(&mut self) -> Result<Vec<ArrayRef>> {
        if u32::try_from(self.groups.len()).is_err() {
            return exec_err!("more than {} values in one ordered aggregate", u32::MAX);
        }
        let whole = self.columns.iter().zip(self.fields.iter()).map(|(pieces, field)| {
            let parts: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            Ok(match parts.as_slice() {
                [] => new_empty_array(field.data_type()),
                parts => concat(parts)?,
            })
        });
        let whole = whole.collect::<Result<Vec<_>>>()?;
        self.replace(&whole)?;
        Ok(whole)
    }

    fn replace(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.columns.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
        self.push(columns)
    }

    /// Sorts the rows of each group by the keys; those with equal keys stay as they came.
    fn sort(&self, keys: &[ArrayRef], starts: &[usize], places: &mut [u32]) -> Result<()> {
        let fields = keys
            .iter()
            .zip(&self.options)
            .map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let keys = as_rows(fields.collect(), keys)?;
        let longer = |row: u32| keys.row_len(row as usize) > size_of::<u128>();
        let mut sorted: Vec<(u128, u32)> = Vec::new();
        for ends in starts.windows(2) {
            let rows = &mut places[ends[0]..ends[1]];
            if rows.len() < 2 {
                continue;
            }
            sorted.clear();
            sorted.extend(rows.iter().map(|row| (prefix(keys.row(*row as usize).data()), *row)));
            sorted.sort_unstable_by(|(first, a), (second, b)| {
                let rest = || match longer(*a) || longer(*b) {
                    true => keys.row(*a as usize).cmp(&keys.row(*b as usize)),
                    false => Ordering::Equal,
                };
                first.cmp(second).then_with(rest).then_with(|| a.cmp(b))
            });
            for (place, (_, row)) in rows.iter_mut().zip(&sorted) {
                *place = *row;
            }
        }
        Ok(())
    }

    fn shorten_sometimes(&mut self) -> Result<()> {
        if self.once && self.groups.len() > self.room {
            self.shorten()?;
            self.room = LEAST.max(self.groups.len() * 2);
        }
        Ok(())
    }

    /// Keeps the first of the same values of a group.
    fn shorten(&mut self) -> Result<()> {
        let columns = self.whole()?;
        let field = SortField::new(columns[0].data_type().clone());
        let values = as_rows(vec![field], &columns[..1])?;
        let hasher = DefaultHashBuilder::default();
        let row = |row: u32| (self.groups[row as usize], values.row(row as usize));
        // With its hash a row is not looked at again when the table grows.
        let mut seen: HashTable<(u64, u32)> = HashTable::new();
        let mut firsts = Vec::new();
        for number in 0..self.groups.len() as u32 {
            let hash = hasher.hash_one(row(number));
            let same = |known: &(u64, u32)| known.0 == hash && row(known.1) == row(number);
            if let Entry::Vacant(place) = seen.entry(hash, same, |known| known.0) {
                place.insert((hash, number));
                firsts.push(number);
            }
        }
        if firsts.len() == self.groups.len() {
            return Ok(());
        }
        self.groups = firsts.iter().map(|row| self.groups[*row as usize]).collect();
        let firsts = UInt32Array::from(firsts);
        let columns = columns.iter().map(|column| take(column, &firsts, None));
        self.replace(&columns.collect::<Result<Vec<_>, _>>()?)
    }
}

fn as_rows(fields: Vec<SortField>, columns: &[ArrayRef]) -> Result<Rows> {
    Ok(RowConverter::new(fields)?.convert_columns(columns)?)
}
