//! Averages of many groups at once: [`AverageGroups`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::quotients::{TOTAL, averages, parts};
use super::sum_groups::{selected, state_of_each_row};
use super::totals::Totals;

/// Totals of up to 128 bits, which no number of rows can overflow, and counts.
#[derive(Debug, Default)]
pub(super) struct AverageGroups {
    totals: Totals,
    counts: Vec<u64>,
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
        // 2^64 rows of 64 bits fit.
        let _ = if values.null_count() == 0 && filter.is_none() {
            groups.iter().for_each(|group| self.counts[*group] += 1);
            self.totals.add(groups.iter().copied().zip(values.values().iter().copied()))
        } else {
            let rows = selected(values.nulls(), filter, values.len());
            rows.set_indices().for_each(|row| self.counts[groups[row]] += 1);
            self.totals.add(rows.set_indices().map(|row| (groups[row], values.value(row))))
        };
    }

    fn resize(&mut self, groups: usize) {
        self.totals.resize(groups);
        self.counts.resize(groups, 0);
    }

    fn as_state(totals: Totals, counts: Vec<u64>) -> Vec<ArrayRef> {
        let totals = Decimal128Array::from(totals.into_wide()).with_data_type(TOTAL);
        vec![Arc::new(totals), Arc::new(UInt64Array::from(counts))]
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
        self.resize(total_groups);
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
        self.resize(total_groups);
        let (totals, counts) = parts(states)?;
        // As above: these are totals of rows.
        let _ = self.totals.add(groups.iter().copied().zip(totals.values().iter().copied()));
        groups.iter().zip(counts.values()).for_each(|(group, count)| self.counts[*group] += count);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = self.totals.take(emit_to).into_wide();
        Ok(Arc::new(averages(&totals, &emit_to.take_needed(&mut self.counts))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::as_state(self.totals.take(emit_to), emit_to.take_needed(&mut self.counts)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        state_of_each_row(Self::default(), values, filter)
    }

    fn size(&self) -> usize {
        self.totals.size() + self.counts.capacity() * size_of::<u64>()
    }
}
