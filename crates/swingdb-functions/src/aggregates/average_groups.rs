//! Averages of many groups at once: [`AverageGroups`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::average::{TOTAL, averages, parts};
use super::sum_groups::selected;

/// A total of 128 bits, which no number of rows can overflow, and a count.
#[derive(Debug, Default)]
pub(super) struct AverageGroups {
    groups: Vec<(i128, u64)>,
}

impl AverageGroups {
    fn add<T: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) where
        i128: From<T::Native>,
    {
        let mut add = |group: usize, value: T::Native| {
            let (total, count) = &mut self.groups[group];
            *total += i128::from(value);
            *count += 1;
        };
        if values.null_count() == 0 && filter.is_none() {
            groups.iter().zip(values.values()).for_each(|(group, value)| add(*group, *value));
        } else {
            let rows = selected(values.nulls(), filter, values.len());
            rows.set_indices().for_each(|row| add(groups[row], values.value(row)));
        }
    }

    fn as_state(groups: &[(i128, u64)]) -> Vec<ArrayRef> {
        let totals = Decimal128Array::from_iter_values(groups.iter().map(|(total, _)| *total));
        let counts = UInt64Array::from_iter_values(groups.iter().map(|(_, count)| *count));
        vec![Arc::new(totals.with_data_type(TOTAL)), Arc::new(counts)]
    }
}

impl GroupsAccumulator for AverageGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, (0, 0));
        let values = &values[0];
        match values.data_type() {
            DataType::Int64 => self.add(values.as_primitive::<Int64Type>(), groups, filter),
            DataType::UInt64 => self.add(values.as_primitive::<UInt64Type>(), groups, filter),
            other => return internal_err!("an average of {other}"),
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, (0, 0));
        let (totals, counts) = parts(states)?;
        let rows = totals.values().iter().zip(counts.values());
        for (group, (total, count)) in groups.iter().zip(rows) {
            self.groups[*group].0 += total;
            self.groups[*group].1 += count;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(averages(&emit_to.take_needed(&mut self.groups))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::as_state(&emit_to.take_needed(&mut self.groups)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self::default();
        each.update_batch(values, &rows, filter, rows.len())?;
        Ok(Self::as_state(&each.groups))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<(i128, u64)>()
    }
}
