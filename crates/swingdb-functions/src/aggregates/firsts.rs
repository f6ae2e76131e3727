//! `first(x)`, `last(x)` and `any_value(x)` of many groups at once: [`replace`].
//!
//! Where no ORDER BY says which is first, the engine has an object for each group, whatever the
//! type, which takes twenty times as long where groups are many. Here a group has the place of its
//! value among [`KeptRows`]. With ORDER BY they are [`OrderedFirsts`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, StatisticsArgs,
};

use crate::aggregates::kept_rows::{KeptRows, Place};
use crate::aggregates::ordered_firsts::OrderedFirsts;
use crate::aggregates::sum_groups::{selected, state_of_each_row};
use crate::engines_own::as_engines_aggregate;

/// Gives these functions the groups of this module.
pub(crate) fn replace(all: &mut [Arc<AggregateUDF>]) {
    for function in all.iter_mut() {
        let (is_last, skips_nulls) = match function.name() {
            "first_value" => (false, false),
            "last_value" => (true, false),
            "any_value" => (false, true),
            _ => continue,
        };
        let engine = Arc::clone(function);
        let ours = OfGroups { engine, is_last, skips_nulls };
        *function = Arc::new(AggregateUDF::new_from_impl(ours));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfGroups {
    engine: Arc<AggregateUDF>,
    is_last: bool,
    /// Without IGNORE NULLS.
    skips_nulls: bool,
}

impl AggregateUDFImpl for OfGroups {
    as_engines_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.engine.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engine.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        args.order_bys.is_empty()
            || OrderedFirsts::supports(&args)
            || self.engine.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if args.order_bys.is_empty() {
            let ignores_nulls = self.skips_nulls || args.ignore_nulls;
            let of = args.return_field.data_type().clone();
            return Ok(Box::new(Firsts::new(of, self.is_last, ignores_nulls)));
        }
        match OrderedFirsts::supports(&args) {
            true => Ok(Box::new(OrderedFirsts::of(&args, self.is_last)?)),
            false => self.engine.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.engine.create_sliding_accumulator(args)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let engine = Arc::unwrap_or_clone(Arc::clone(&self.engine));
        let Some(engine) = engine.with_beneficial_ordering(beneficial_ordering)? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self { engine: Arc::new(engine), ..*self })))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.engine.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.engine.supports_within_group_clause()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.engine.value_from_stats(args)
    }
}

/// The first or the last value of each group.
#[derive(Debug)]
struct Firsts {
    of: DataType,
    is_last: bool,
    ignores_nulls: bool,
    groups: Vec<Option<Place>>,
    kept: KeptRows,
}

impl Firsts {
    fn new(of: DataType, is_last: bool, ignores_nulls: bool) -> Self {
        let kept = KeptRows::new(of.clone());
        Self { of, is_last, ignores_nulls, groups: Vec::new(), kept }
    }

    /// Takes rows in their order.
    fn add(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let batch = self.kept.next();
        let mut touched = Vec::new();
        for row in rows {
            let place = &mut self.groups[groups[row]];
            match place {
                Some(_) if !self.is_last => {}
                Some((of, at)) if *of == batch => *at = row,
                _ => {
                    touched.push(groups[row]);
                    *place = Some((batch, row));
                }
            }
        }
        self.kept.keep_for(&mut self.groups, &touched, values, |place| place)
    }

    /// The values of some groups, and which of them have one.
    fn emit(&mut self, emit_to: EmitTo) -> Result<(ArrayRef, BooleanArray)> {
        let groups = emit_to.take_needed(&mut self.groups);
        let values = self.kept.at(groups.iter().copied())?;
        let are_set = groups.iter().map(|place| Some(place.is_some())).collect();
        if self.groups.is_empty() {
            self.kept.clear();
        }
        Ok((values, are_set))
    }
}

impl GroupsAccumulator for Firsts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let [values, ..] = values else { return plan_err!("the first value is one of a column") };
        self.groups.resize(total_groups, None);
        let nulls = values.logical_nulls().filter(|_| self.ignores_nulls);
        let rows = selected(nulls.as_ref(), filter, values.len());
        self.add(values, groups, rows.set_indices())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        let [values, are_set] = states else { return plan_err!("a state is a value and a flag") };
        self.groups.resize(total_groups, None);
        let rows = selected(None, Some(are_set.as_boolean()), values.len());
        self.add(values, groups, rows.set_indices())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.emit(emit_to)?.0)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, are_set) = self.emit(emit_to)?;
        Ok(vec![values, Arc::new(are_set)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let empty = Self::new(self.of.clone(), self.is_last, self.ignores_nulls);
        state_of_each_row(empty, values, filter)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Place>>() + self.kept.size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn firsts_and_lasts_are_those_of_a_simple_model() -> Result<()> {
        for (is_last, ignores_nulls) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let mut found = Firsts::new(DataType::Utf8View, is_last, ignores_nulls);
            let mut model: BTreeMap<usize, Option<String>> = BTreeMap::new();
            let mut seed = 11_u64;
            let mut next = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                usize::try_from((seed >> 33) % below).unwrap_or_default()
            };
            for batch in 0..60 {
                let groups = (0..400).map(|_| next(300)).collect::<Vec<_>>();
                let text = |row: usize| format!("row {row} of batch {batch}, which is no view");
                let texts = (0..400).map(|row| (next(4) > 0).then(|| text(row)));
                let texts = texts.collect::<Vec<_>>();
                let filter = (0..400).map(|_| Some(next(5) > 0)).collect::<BooleanArray>();
                for row in (0..400).filter(|row| filter.value(*row)) {
                    if ignores_nulls && texts[row].is_none() {
                        continue;
                    }
                    if is_last || !model.contains_key(&groups[row]) {
                        model.insert(groups[row], texts[row].clone());
                    }
                }
                let values: ArrayRef = Arc::new(texts.iter().collect::<StringViewArray>());
                found.update_batch(&[values], &groups, Some(&filter), 301)?;
                assert!(!found.kept.is_sparse(301));
            }
            // Of the last group there are no rows. Its state says so, and changes nothing.
            let state = found.state(EmitTo::All)?;
            assert_eq!(found.kept.size(), 0);
            let mut merged = Firsts::new(DataType::Utf8View, is_last, ignores_nulls);
            let all = (0..301).collect::<Vec<_>>();
            merged.merge_batch(&state, &all, 301)?;
            let reversed = [0, 1].map(|part| state[part].slice(300, 1));
            merged.merge_batch(&reversed, &[0], 301)?;
            let values = merged.evaluate(EmitTo::All)?;
            let wanted = (0..301).map(|group| model.get(&group).cloned().flatten());
            assert_eq!(values.as_string_view(), &wanted.collect::<StringViewArray>());
        }
        Ok(())
    }
}
