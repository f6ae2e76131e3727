//! Quantiles of many groups at once: [`QuantileGroups`] of numbers and times, [`QuantileRows`] of
//! all values.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray,
    UInt32Array, new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::group_rows::{Arranged, GroupRows};
use super::picked::{Fraction, index_at, number_at, order_keys, picked, value_at};
use crate::aggregates::sum_groups::{selected, state_of_each_row};

const MEDIAN: Fraction = Fraction { of: 0.5, is_down: false };

/// What is asked of the values of a group.
#[derive(Debug, Clone)]
pub(super) struct Quantiles {
    pub(super) fractions: Vec<Fraction>,
    /// Whether the answer is a list.
    pub(super) is_list: bool,
    /// Whether something can lie between two values.
    pub(super) is_between: bool,
    /// Whether they are quantiles of how far numbers are from the one in the middle.
    pub(super) of_distances: bool,
}

impl Quantiles {
    /// The median of how far numbers are from theirs.
    pub(super) fn median_of_distances() -> Self {
        Self { fractions: vec![MEDIAN], is_list: false, is_between: true, of_distances: true }
    }

    /// What `at` finds at each fraction in each group. A group without values has a NULL, or
    /// nothing in a list.
    fn of_numbers<T: ArrowPrimitiveType>(
        &self,
        groups: &mut [Vec<T::Native>],
        at: impl Fn(&mut [T::Native], &Fraction) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let mut found = Vec::with_capacity(groups.len() * self.fractions.len());
        for values in groups {
            if !self.is_list || !values.is_empty() {
                found.extend(self.fractions.iter().map(|fraction| at(values, fraction)));
            }
        }
        found.into_iter().collect()
    }

    /// The same by [`picked`].
    fn of_arrays(&self, of: &DataType, groups: impl Iterator<Item = ArrayRef>) -> Result<ArrayRef> {
        let nothing = new_null_array(of, usize::from(!self.is_list));
        let found = groups.map(|values| match values.is_empty() {
            true => Ok(Arc::clone(&nothing)),
            false => picked(&values, &self.fractions, self.is_between),
        });
        let found = found.collect::<Result<Vec<_>>>()?;
        let found = found.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>();
        Ok(if found.is_empty() { new_empty_array(of) } else { concat(&found)? })
    }

    /// The answer of each group, of what was found in all of them.
    fn answers(&self, found: ArrayRef, are_there: Vec<bool>) -> Result<ArrayRef> {
        if !self.is_list {
            return Ok(found);
        }
        let count = self.fractions.len();
        let lengths = are_there.iter().map(|is_there| if *is_there { count } else { 0 });
        let offsets = OffsetBuffer::from_lengths(lengths);
        let item = Arc::new(Field::new_list_field(found.data_type().clone(), true));
        let nulls = Some(NullBuffer::from(are_there)).filter(|nulls| nulls.null_count() > 0);
        Ok(Arc::new(ListArray::try_new(item, offsets, found, nulls)?))
    }
}

/// Makes of numbers how far they are from the one in the middle.
fn distances(numbers: &mut [f64]) {
    if let Some(middle) = number_at(numbers, &MEDIAN) {
        numbers.iter_mut().for_each(|number| *number = (*number - middle).abs());
    }
}

/// The values of each group, of a type of numbers or times.
#[derive(Debug)]
pub(super) struct QuantileGroups<T: ArrowPrimitiveType> {
    of: DataType,
    asked: Quantiles,
    groups: Vec<Vec<T::Native>>,
    values: usize,
}

impl<T: ArrowPrimitiveType> QuantileGroups<T> {
    pub(super) fn new(of: DataType, asked: Quantiles) -> Self {
        Self { of, asked, groups: Vec::new(), values: 0 }
    }

    fn array(&self, values: Vec<T::Native>) -> PrimitiveArray<T> {
        PrimitiveArray::new(values.into(), None).with_data_type(self.of.clone())
    }

    fn emit(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let groups = emit_to.take_needed(&mut self.groups);
        self.values -= groups.iter().map(Vec::len).sum::<usize>();
        groups
    }

    fn found(&self, mut groups: Vec<Vec<T::Native>>) -> Result<ArrayRef> {
        let asked = &self.asked;
        let has_own_order = matches!(self.of, DataType::Interval(_));
        if !asked.is_between && !has_own_order {
            let found = asked.of_numbers::<T>(&mut groups, value_at);
            return Ok(Arc::new(found.with_data_type(self.of.clone())));
        }
        let numbers: &mut dyn Any = &mut groups;
        match numbers.downcast_mut::<Vec<Vec<f64>>>().filter(|_| asked.is_between) {
            Some(numbers) => {
                if asked.of_distances {
                    numbers.iter_mut().for_each(|numbers| distances(numbers));
                }
                Ok(Arc::new(asked.of_numbers::<Float64Type>(numbers, number_at)))
            }
            None => {
                let arrays = groups.into_iter().map(|values| Arc::new(self.array(values)) as _);
                asked.of_arrays(&self.of, arrays)
            }
        }
    }
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for QuantileGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, Vec::new());
        let values = values[0].as_primitive::<T>();
        for row in selected(values.nulls(), filter, values.len()).set_indices() {
            self.groups[groups[row]].push(values.value(row));
            self.values += 1;
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, Vec::new());
        for (group, values) in groups.iter().zip(states[0].as_list::<i32>().iter()) {
            if let Some(values) = values {
                self.groups[*group].extend_from_slice(values.as_primitive::<T>().values());
                self.values += values.len();
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.emit(emit_to);
        let are_there = groups.iter().map(|values| !values.is_empty()).collect();
        self.asked.answers(self.found(groups)?, are_there)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.emit(emit_to);
        let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
        let values = Arc::new(self.array(groups.concat()));
        let item = Arc::new(Field::new_list_field(self.of.clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(item, offsets, values, None)?)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        state_of_each_row(Self::new(self.of.clone(), self.asked.clone()), values, filter)
    }

    fn size(&self) -> usize {
        // Vectors that grow have twice as much room at most.
        self.groups.capacity() * size_of::<Vec<T::Native>>()
            + self.values * size_of::<T::Native>() * 2
    }
}

/// The values of each group, of any type, and each once where they are to be different.
#[derive(Debug)]
pub(super) struct QuantileRows {
    of: DataType,
    asked: Quantiles,
    rows: GroupRows,
}

impl QuantileRows {
    pub(super) fn new(of: DataType, asked: Quantiles, once: bool) -> Self {
        let rows = GroupRows::of_values(of.clone(), once);
        Self { of, asked, rows }
    }

    fn found(&self, arranged: &Arranged) -> Result<ArrayRef> {
        let values = &arranged.columns[0];
        let groups = arranged.starts.windows(2);
        if self.asked.is_between {
            let groups = groups.map(|ends| values.slice(ends[0], ends[1] - ends[0]));
            return self.asked.of_arrays(&self.of, groups);
        }
        let mut places = Vec::new();
        for ends in groups {
            match (ends[1] - ends[0]).checked_sub(1) {
                Some(last) => places.extend(
                    self.asked.fractions.iter().map(|f| Some((ends[0] + index_at(f, last)) as u32)),
                ),
                None if self.asked.is_list => {}
                None => places.push(None),
            }
        }
        Ok(take(values, &UInt32Array::from(places), None)?)
    }
}

impl GroupsAccumulator for QuantileRows {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.rows.resize(total_groups)?;
        let selected = selected(values[0].logical_nulls().as_ref(), filter, groups.len());
        self.rows.add(&values[..1], groups, &selected)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.rows.resize(total_groups)?;
        self.rows.add_lists(states[0].as_list::<i32>(), groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let arranged = self.rows.emit(emit_to, |columns| Ok(vec![order_keys(&columns[0])?]))?;
        let are_there = arranged.starts.windows(2).map(|ends| ends[0] < ends[1]).collect();
        self.asked.answers(self.found(&arranged)?, are_there)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.rows.as_lists(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let (of, asked) = (self.of.clone(), self.asked.clone());
        state_of_each_row(Self { of, asked, rows: self.rows.empty() }, values, filter)
    }

    fn size(&self) -> usize {
        self.rows.size()
    }
}
