//! Aggregates that keep some numbers of each group: [`NumberGroups`].

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::Float64Type;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::sum_groups::selected;

/// What is known of the numbers of a group, as so many numbers.
pub(super) trait Summary<const PARTS: usize>: Clone + Default + Debug + Send {
    /// Of one number more.
    fn add(&mut self, value: f64);

    /// Of the numbers of another one, of which this is known.
    fn merge(&mut self, parts: [f64; PARTS]);

    /// What another one merges.
    fn parts(&self) -> [f64; PARTS];
}

/// What is known of the numbers of each group.
pub(super) struct NumberGroups<Known, Value, const PARTS: usize> {
    groups: Vec<Known>,
    /// The value of a group.
    value: Value,
}

impl<Known, Value, const PARTS: usize> NumberGroups<Known, Value, PARTS> {
    pub(super) fn new(value: Value) -> Self {
        Self { groups: Vec::new(), value }
    }
}

fn columns<const PARTS: usize>(rows: impl Iterator<Item = [f64; PARTS]>) -> Vec<ArrayRef> {
    let mut columns = [(); PARTS].map(|()| Vec::new());
    for row in rows {
        for (column, part) in columns.iter_mut().zip(row) {
            column.push(part);
        }
    }
    columns.map(|column| Arc::new(Float64Array::from(column)) as ArrayRef).to_vec()
}

impl<Known, Value, const PARTS: usize> GroupsAccumulator for NumberGroups<Known, Value, PARTS>
where
    Known: Summary<PARTS> + 'static,
    Value: Fn(&Known) -> Result<Option<f64>> + Send + 'static,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, Known::default());
        let values = values[0].as_primitive::<Float64Type>();
        for row in selected(values.nulls(), filter, values.len()).set_indices() {
            self.groups[groups[row]].add(values.value(row));
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, Known::default());
        let Ok(states) = <&[ArrayRef; PARTS]>::try_from(states) else {
            return exec_err!("a state has {PARTS} parts, not {}", states.len());
        };
        let parts = states.each_ref().map(|part| part.as_primitive::<Float64Type>());
        for (row, group) in groups.iter().enumerate() {
            self.groups[*group].merge(parts.map(|part| part.value(row)));
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let values = groups.iter().map(&self.value).collect::<Result<Float64Array>>()?;
        Ok(Arc::new(values))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(columns(groups.iter().map(Known::parts)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float64Type>();
        let selected = selected(values.nulls(), filter, values.len());
        Ok(columns((0..values.len()).map(|row| {
            let mut known = Known::default();
            if selected.value(row) {
                known.add(values.value(row));
            }
            known.parts()
        })))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Known>()
    }
}
