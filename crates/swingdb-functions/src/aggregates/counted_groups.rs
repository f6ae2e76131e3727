//! `mode`, `histogram` and `entropy` of many groups at once: [`CountedGroups`].
//!
//! One hash table has the values of all groups, each with its group and how often it occurs there.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, MapArray, StructArray,
    UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

use super::counted_values::{Kind, entropy, entry_fields, one_of_each};
use super::group_rows::{by_group, check_groups, starts_of};
use super::sum_groups::{selected, state_of_each_row};

/// The different values of all groups, as they first occurred.
#[derive(Debug, Default)]
struct Seen {
    /// The group of each value.
    groups: Vec<u32>,
    /// How often each value occurs in its group.
    counts: Vec<u64>,
    /// The values in the row format, one after the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    /// Hashes and places of values.
    table: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
}

impl Seen {
    fn key(&self, place: u32) -> &[u8] {
        key_at(&self.keys, &self.ends, place)
    }

    fn add(&mut self, group: u32, key: &[u8], count: u64) -> Result<()> {
        let Ok(next) = u32::try_from(self.counts.len()) else {
            return exec_err!("more than {} different values in the groups", u32::MAX);
        };
        let Self { groups, keys, ends, table, hasher, .. } = self;
        let hash = hasher.hash_one((group, key));
        let known = |place: u32| (groups[place as usize], key_at(keys, ends, place));
        let is_same = |at: &(u64, u32)| at.0 == hash && known(at.1) == (group, key);
        match table.entry(hash, is_same, |at| at.0) {
            Entry::Occupied(at) => self.counts[at.get().1 as usize] += count,
            Entry::Vacant(at) => {
                at.insert((hash, next));
                self.groups.push(group);
                self.counts.push(count);
                self.keys.extend_from_slice(key);
                self.ends.push(self.keys.len());
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
            + self.counts.capacity() * size_of::<u64>()
            + self.keys.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.allocation_size()
    }
}

fn key_at<'a>(keys: &'a [u8], ends: &[usize], place: u32) -> &'a [u8] {
    let place = place as usize;
    &keys[place.checked_sub(1).map_or(0, |before| ends[before])..ends[place]]
}

/// What is in lists, which follow each other.
fn elements(lists: &ListArray) -> ArrayRef {
    let offsets = lists.offsets();
    let first = offsets[0] as usize;
    lists.values().slice(first, offsets[lists.len()] as usize - first)
}

/// Values of groups that follow each other.
struct Emitted {
    seen: Seen,
    /// The places of the values, group by group.
    places: Vec<u32>,
    /// Where the places of each group begin, and where those of the last one end.
    starts: Vec<usize>,
}

impl Emitted {
    fn groups(&self) -> impl Iterator<Item = &[u32]> {
        self.starts.windows(2).map(|ends| &self.places[ends[0]..ends[1]])
    }

    fn offsets(&self) -> Result<OffsetBuffer<i32>> {
        if i32::try_from(self.places.len()).is_err() {
            return exec_err!("more than {} different values in the groups", i32::MAX);
        }
        Ok(OffsetBuffer::from_lengths(self.groups().map(<[u32]>::len)))
    }
}

/// Counts the values of all groups.
pub(super) struct CountedGroups {
    kind: Kind,
    values: DataType,
    /// Each value counts once.
    once: bool,
    converter: RowConverter,
    total: usize,
    seen: Seen,
}

impl std::fmt::Debug for CountedGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedGroups").field("groups", &self.total).finish_non_exhaustive()
    }
}

impl CountedGroups {
    /// Of values of a type.
    pub(super) fn new(kind: Kind, values: DataType, once: bool) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(values.clone())])?;
        Ok(Self { kind, values, once, converter, total: 0, seen: Seen::default() })
    }

    fn add(
        &mut self,
        values: &ArrayRef,
        rows: impl Iterator<Item = usize>,
        group: impl Fn(usize) -> usize,
        count: impl Fn(usize) -> u64,
    ) -> Result<()> {
        let values = one_of_each(values);
        let keys = self.converter.convert_columns(&[values])?;
        for row in rows {
            self.seen.add(group(row) as u32, keys.row(row).data(), count(row))?;
        }
        Ok(())
    }

    /// How often a value counts.
    fn weight(&self, seen: &Seen, place: u32) -> u64 {
        if self.once { 1 } else { seen.counts[place as usize] }
    }

    /// Takes some groups out.
    fn emit(&mut self, emit_to: EmitTo) -> Result<Emitted> {
        let mut seen = std::mem::take(&mut self.seen);
        let groups = match emit_to {
            EmitTo::All => self.total,
            EmitTo::First(groups) => groups,
        };
        let mut starts = starts_of(&seen.groups, self.total);
        let mut places = by_group(&seen.groups, &starts);
        for place in places.drain(starts[groups]..) {
            let (group, count) = (seen.groups[place as usize], seen.counts[place as usize]);
            self.seen.add(group - groups as u32, seen.key(place), count)?;
        }
        self.total -= groups;
        starts.truncate(groups + 1);
        seen.table = HashTable::new();
        Ok(Emitted { seen, places, starts })
    }

    /// The values at some places.
    fn decoded(&self, seen: &Seen, places: impl Iterator<Item = u32>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows = places.map(|place| parser.parse(seen.key(place)));
        match self.converter.convert_rows(rows)?.as_slice() {
            [column] => Ok(cast(column, &self.values)?),
            _ => exec_err!("a row of values has one column"),
        }
    }

    /// The value of each group that occurs most often, of several the least.
    fn modes(&self, emitted: &Emitted) -> Result<ArrayRef> {
        let seen = &emitted.seen;
        let modes = emitted.groups().map(|places| {
            places.iter().copied().max_by(|a, b| {
                let by_value = || seen.key(*b).cmp(seen.key(*a));
                self.weight(seen, *a).cmp(&self.weight(seen, *b)).then_with(by_value)
            })
        });
        let modes = modes.collect::<Vec<_>>();
        let values = self.decoded(seen, modes.iter().flatten().copied())?;
        let mut next = 0;
        let rows = modes.iter().map(|mode| {
            mode.map(|_| {
                next += 1;
                next - 1
            })
        });
        Ok(take(&values, &rows.collect::<UInt32Array>(), None)?)
    }

    fn histograms(&self, emitted: &mut Emitted) -> Result<ArrayRef> {
        let Emitted { seen, places, starts } = emitted;
        for ends in starts.windows(2) {
            places[ends[0]..ends[1]].sort_unstable_by(|a, b| seen.key(*a).cmp(seen.key(*b)));
        }
        let keys = self.decoded(&emitted.seen, emitted.places.iter().copied())?;
        let counts = emitted.places.iter().map(|place| self.weight(&emitted.seen, *place));
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let fields = entry_fields(&self.values);
        let field = Field::new("entries", DataType::Struct(fields.clone()), false);
        let entries = StructArray::try_new(fields, vec![keys, counts], None)?;
        let are_there = emitted.groups().map(|places| !places.is_empty()).collect::<Vec<_>>();
        let nulls = Some(NullBuffer::from(are_there)).filter(|nulls| nulls.null_count() > 0);
        let offsets = emitted.offsets()?;
        Ok(Arc::new(MapArray::try_new(Arc::new(field), offsets, entries, nulls, false)?))
    }
}

impl GroupsAccumulator for CountedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        check_groups(total_groups)?;
        self.total = total_groups;
        let rows = selected(values[0].logical_nulls().as_ref(), filter, groups.len());
        self.add(&values[0], rows.set_indices(), |row| groups[row], |_| 1)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        let [values, counts] = states else { return plan_err!("a state is values and counts") };
        check_groups(total_groups)?;
        self.total = total_groups;
        let (lists, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        let (lengths, counts) = (lists.offsets().lengths(), elements(counts));
        let counts = counts.as_primitive::<UInt64Type>();
        let groups = groups.iter().zip(lengths);
        let groups = groups.flat_map(|(group, values)| std::iter::repeat_n(*group, values));
        let groups = groups.collect::<Vec<_>>();
        self.add(&elements(lists), 0..groups.len(), |row| groups[row], |row| counts.value(row))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut emitted = self.emit(emit_to)?;
        match self.kind {
            Kind::Mode | Kind::FirstMode => self.modes(&emitted),
            Kind::Histogram => self.histograms(&mut emitted),
            Kind::Entropy => {
                let counts = |places: &[u32]| {
                    let seen = &emitted.seen;
                    entropy(places.iter().map(|place| self.weight(seen, *place)))
                };
                let found = emitted.groups().map(counts);
                Ok(Arc::new(Float64Array::from_iter_values(found)))
            }
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let emitted = self.emit(emit_to)?;
        let offsets = emitted.offsets()?;
        let values = self.decoded(&emitted.seen, emitted.places.iter().copied())?;
        let counts = emitted.places.iter().map(|place| emitted.seen.counts[*place as usize]);
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let list = |items: ArrayRef| -> Result<ArrayRef> {
            let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            Ok(Arc::new(ListArray::try_new(item, offsets.clone(), items, None)?))
        };
        Ok(vec![list(values)?, list(counts)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let empty = Self::new(self.kind, self.values.clone(), self.once)?;
        state_of_each_row(empty, values, filter)
    }

    fn size(&self) -> usize {
        self.seen.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    fn counted(kind: Kind) -> Result<CountedGroups> {
        CountedGroups::new(kind, DataType::Utf8, false)
    }

    fn texts(given: &[Option<&str>]) -> [ArrayRef; 1] {
        [Arc::new(StringArray::from(given.to_vec()))]
    }

    #[test]
    fn states_are_merged_and_groups_leave_in_parts() -> Result<()> {
        let mut part = counted(Kind::Mode)?;
        let given = texts(&[Some("b"), Some("a"), None, Some("b"), Some("c"), Some("d")]);
        part.update_batch(&given, &[0, 0, 1, 2, 2, 3], None, 4)?;
        let mut whole = counted(Kind::Mode)?;
        whole.merge_batch(&part.state(EmitTo::All)?, &[0, 1, 2, 3], 4)?;
        let each = whole.convert_to_state(&texts(&[Some("a"), Some("c"), None]), None)?;
        // Slices of states, as batches of them are.
        let each = each.iter().map(|state| state.slice(1, 2)).collect::<Vec<_>>();
        whole.merge_batch(&each, &[2, 1], 4)?;
        let found = whole.evaluate(EmitTo::First(2))?;
        // "a" and "b" occur once each, and the lesser one counts.
        assert_eq!(found.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None]);
        whole.update_batch(&texts(&[Some("e"), Some("e")]), &[1, 2], None, 3)?;
        let found = whole.evaluate(EmitTo::All)?;
        let found = found.as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(found, [Some("c"), Some("d"), Some("e")]);
        Ok(())
    }

    #[test]
    fn histograms_have_the_order_of_their_values() -> Result<()> {
        let mut groups = counted(Kind::Histogram)?;
        let given = texts(&[Some("b"), Some("a"), Some("b"), None]);
        groups.update_batch(&given, &[0, 0, 0, 1], None, 2)?;
        let found = groups.evaluate(EmitTo::All)?;
        let maps = found.as_map();
        assert!(maps.is_valid(0) && maps.is_null(1));
        let keys = maps.keys().as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(keys, [Some("a"), Some("b")]);
        assert_eq!(maps.values().as_primitive::<UInt64Type>().values(), &[1, 2]);
        Ok(())
    }
}
