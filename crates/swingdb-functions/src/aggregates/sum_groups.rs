//! Totals of many groups at once: [`SumGroups`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::totals::{Totals, finish, overflow};

/// A total of up to 128 bits for each group.
#[derive(Debug)]
pub(super) struct SumGroups {
    totals: Totals,
    /// Which groups have a value; `None` as long as all have.
    seen: Option<Vec<bool>>,
    data_type: DataType,
    state_type: DataType,
}

impl SumGroups {
    pub(super) fn new(data_type: DataType, state_type: DataType) -> Self {
        Self { totals: Totals::default(), seen: None, data_type, state_type }
    }

    fn add<T: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()>
    where
        i128: From<T::Native>,
    {
        let known = self.totals.len();
        self.totals.resize(total_groups);
        let fits = if values.null_count() == 0 && filter.is_none() {
            // A new group has a row in this batch, and so a value.
            if let Some(seen) = &mut self.seen {
                seen.resize(total_groups, false);
                groups.iter().for_each(|group| seen[*group] = true);
            }
            self.totals.add(groups.iter().copied().zip(values.values().iter().copied()))
        } else {
            let seen = self.seen.get_or_insert_with(|| vec![true; known]);
            seen.resize(total_groups, false);
            let rows = selected(values.nulls(), filter, values.len());
            rows.set_indices().for_each(|row| seen[groups[row]] = true);
            self.totals.add(rows.set_indices().map(|row| (groups[row], values.value(row))))
        };
        if fits { Ok(()) } else { overflow(&self.data_type) }
    }

    fn emit(&mut self, emit_to: EmitTo) -> (Totals, Option<NullBuffer>) {
        let totals = self.totals.take(emit_to);
        let seen = self.seen.as_mut().map(|seen| emit_to.take_needed(seen));
        let nulls = seen.map(|seen| NullBuffer::new(BooleanBuffer::from(seen)));
        (totals, nulls.filter(|nulls| nulls.null_count() > 0))
    }

    fn decimals(&self, totals: Vec<i128>, nulls: Option<NullBuffer>, t: &DataType) -> ArrayRef {
        Arc::new(Decimal128Array::new(totals.into(), nulls).with_data_type(t.clone()))
    }
}

/// The rows that are not NULL and pass the filter.
pub(crate) fn selected(
    nulls: Option<&NullBuffer>,
    filter: Option<&BooleanArray>,
    rows: usize,
) -> BooleanBuffer {
    let filter = filter.map(|filter| match filter.null_count() {
        0 => filter.values().clone(),
        _ => prep_null_mask_filter(filter).values().clone(),
    });
    match (nulls, filter) {
        (Some(nulls), Some(filter)) => nulls.inner() & &filter,
        (Some(nulls), None) => nulls.inner().clone(),
        (None, Some(filter)) => filter,
        (None, None) => BooleanBuffer::new_set(rows),
    }
}

/// The state of each row by itself, of groups that have no rows yet.
pub(super) fn state_of_each_row(
    mut groups: impl GroupsAccumulator,
    values: &[ArrayRef],
    filter: Option<&BooleanArray>,
) -> Result<Vec<ArrayRef>> {
    let rows: Vec<usize> = (0..values[0].len()).collect();
    groups.update_batch(values, &rows, filter, rows.len())?;
    groups.state(EmitTo::All)
}

impl GroupsAccumulator for SumGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let values = &values[0];
        match values.data_type() {
            DataType::Int64 => {
                self.add(values.as_primitive::<Int64Type>(), groups, filter, total_groups)
            }
            DataType::UInt64 => {
                self.add(values.as_primitive::<UInt64Type>(), groups, filter, total_groups)
            }
            DataType::Decimal128(..) => {
                self.add(values.as_primitive::<Decimal128Type>(), groups, filter, total_groups)
            }
            other => internal_err!("a sum of {other}"),
        }
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (totals, nulls) = self.emit(emit_to);
        let totals = match (totals, &self.data_type) {
            (Totals::Narrow(totals), DataType::Int64) => {
                return Ok(Arc::new(PrimitiveArray::<Int64Type>::new(totals.into(), nulls)));
            }
            (totals, _) => totals.into_wide(),
        };
        // Totals of groups without a value are zero, which fits.
        for total in &totals {
            finish(*total, &self.data_type)?;
        }
        Ok(match &self.data_type {
            DataType::Int64 => {
                let totals = totals.into_iter().map(|total| total as i64).collect::<Vec<_>>();
                Arc::new(PrimitiveArray::<Int64Type>::new(totals.into(), nulls))
            }
            DataType::UInt64 => {
                let totals = totals.into_iter().map(|total| total as u64).collect::<Vec<_>>();
                Arc::new(PrimitiveArray::<UInt64Type>::new(totals.into(), nulls))
            }
            decimal => self.decimals(totals, nulls, decimal),
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, nulls) = self.emit(emit_to);
        Ok(vec![self.decimals(totals.into_wide(), nulls, &self.state_type)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = &values[0];
        let wide: Vec<i128> = match values.data_type() {
            DataType::Int64 => {
                values.as_primitive::<Int64Type>().values().iter().map(|v| (*v).into()).collect()
            }
            DataType::UInt64 => {
                values.as_primitive::<UInt64Type>().values().iter().map(|v| (*v).into()).collect()
            }
            DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().values().to_vec(),
            other => return internal_err!("a sum of {other}"),
        };
        let nulls = match (values.nulls(), filter) {
            (None, None) => None,
            (nulls, filter) => Some(NullBuffer::new(selected(nulls, filter, values.len()))),
        };
        Ok(vec![self.decimals(wide, nulls, &self.state_type)])
    }

    fn size(&self) -> usize {
        self.totals.size() + self.seen.as_ref().map_or(0, Vec::capacity)
    }
}
