//! Quantiles of many groups at once, of numbers and times: [`QuantileGroups`].

use std::any::Any;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, ListArray,
    PrimitiveArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::picked::{Fraction, number_at, picked};
use crate::aggregates::sum_groups::selected;

/// The values of each group.
#[derive(Debug)]
pub(super) struct QuantileGroups<T: ArrowPrimitiveType> {
    of: DataType,
    fractions: Vec<Fraction>,
    is_between: bool,
    groups: Vec<Vec<T::Native>>,
    values: usize,
}

impl<T: ArrowPrimitiveType> QuantileGroups<T> {
    pub(super) fn new(of: DataType, fractions: Vec<Fraction>, is_between: bool) -> Self {
        Self { of, fractions, is_between, groups: Vec::new(), values: 0 }
    }

    fn array(&self, values: Vec<T::Native>) -> PrimitiveArray<T> {
        PrimitiveArray::new(values.into(), None).with_data_type(self.of.clone())
    }

    fn emit(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let groups = emit_to.take_needed(&mut self.groups);
        self.values -= groups.iter().map(Vec::len).sum::<usize>();
        groups
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
        let mut groups = self.emit(emit_to);
        let numbers: &mut dyn Any = &mut groups;
        if let (Some(numbers), [one], true) =
            (numbers.downcast_mut::<Vec<Vec<f64>>>(), self.fractions.as_slice(), self.is_between)
        {
            let found = numbers.iter_mut().map(|values| number_at(values, one));
            return Ok(Arc::new(found.collect::<Float64Array>()));
        }
        let found = groups.into_iter().map(|values| match values.is_empty() {
            true => ScalarValue::try_new_null(&self.of),
            false => {
                let values: ArrayRef = Arc::new(self.array(values));
                let found = picked(&values, &self.fractions, self.is_between)?;
                ScalarValue::try_from_array(&found, 0)
            }
        });
        let found = found.collect::<Result<Vec<_>>>()?;
        match found.is_empty() {
            true => Ok(arrow::array::new_empty_array(&self.of)),
            false => ScalarValue::iter_to_array(found),
        }
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
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self::new(self.of.clone(), Vec::new(), self.is_between);
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        // Vectors that grow have twice as much room at most.
        self.groups.capacity() * size_of::<Vec<T::Native>>()
            + self.values * size_of::<T::Native>() * 2
    }
}
