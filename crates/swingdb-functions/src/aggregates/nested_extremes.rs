//! `min` and `max` of lists, structs and maps of many groups at once: [`NestedExtremes`].
//!
//! A group has the [`bytes`] of its extreme, and the place of its value among [`KeptRows`].

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use crate::aggregates::kept_rows::{KeptRows, Place};
use crate::aggregates::sum_groups::{selected, state_of_each_row};
use crate::keys::order::bytes;

/// The extreme of a group.
#[derive(Debug, Clone)]
struct Best {
    key: Vec<u8>,
    place: Place,
}

/// The least or the greatest nested value of each group.
#[derive(Debug)]
pub(super) struct NestedExtremes {
    of: DataType,
    greatest: bool,
    groups: Vec<Option<Best>>,
    kept: KeptRows,
    key_bytes: usize,
}

impl NestedExtremes {
    pub(super) fn new(of: DataType, greatest: bool) -> Self {
        let kept = KeptRows::new(of.clone());
        Self { of, greatest, groups: Vec::new(), kept, key_bytes: 0 }
    }

    /// Takes the rows of a batch that are better than what their groups have.
    fn add(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let keys = bytes(values)?;
        let keys = keys.as_binary::<i32>();
        let batch = self.kept.next();
        let mut touched = Vec::new();
        for row in selected(keys.nulls(), filter, keys.len()).set_indices() {
            let (group, key) = (groups[row], keys.value(row));
            match &mut self.groups[group] {
                Some(best) => {
                    let is_better = match self.greatest {
                        true => key > best.key.as_slice(),
                        false => key < best.key.as_slice(),
                    };
                    if !is_better {
                        continue;
                    }
                    if best.place.0 != batch {
                        touched.push(group);
                    }
                    self.key_bytes = self.key_bytes + key.len() - best.key.len();
                    best.key.clear();
                    best.key.extend_from_slice(key);
                    best.place = (batch, row);
                }
                free => {
                    touched.push(group);
                    self.key_bytes += key.len();
                    *free = Some(Best { key: key.to_vec(), place: (batch, row) });
                }
            }
        }
        self.kept.keep_for(&mut self.groups, &touched, values, |best| &mut best.place)
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let places = groups.iter().map(|best| best.as_ref().map(|best| best.place));
        let rows = self.kept.at(places)?;
        self.key_bytes -= groups.iter().flatten().map(|best| best.key.len()).sum::<usize>();
        if self.groups.is_empty() {
            self.kept.clear();
        }
        Ok(rows)
    }
}

impl GroupsAccumulator for NestedExtremes {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let [values] = values else { return plan_err!("an extreme is one of one column") };
        self.groups.resize(total_groups, None);
        self.add(values, groups, filter)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.emit(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.emit(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        state_of_each_row(Self::new(self.of.clone(), self.greatest), values, filter)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Best>>() + self.key_bytes + self.kept.size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::ListArray;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    /// Lists with a NULL inside are greater than any without; see [`bytes`].
    fn order(list: &Option<Vec<Option<i32>>>) -> Option<Vec<i64>> {
        let of = |item: &Option<i32>| item.map_or(i64::MAX, i64::from);
        list.as_ref().map(|list| list.iter().map(of).collect())
    }

    #[test]
    fn extremes_of_groups_are_those_of_a_simple_model() {
        let of = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
        for greatest in [false, true] {
            let mut found = NestedExtremes::new(of.clone(), greatest);
            let mut model: BTreeMap<usize, Option<Vec<Option<i32>>>> = BTreeMap::new();
            let mut seed = 7_u64;
            let mut next = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % below
            };
            for batch in 0..60 {
                // What comes is better and better, so that rows are let go.
                let mut lists = Vec::new();
                let mut groups = Vec::new();
                for _ in 0..300 {
                    let number = i32::try_from(next(50)).unwrap() + batch * 10;
                    let number = if greatest { number } else { -number };
                    let list = match next(9) {
                        0 => None,
                        1 => Some(vec![]),
                        2 => Some(vec![Some(number), None]),
                        _ => Some(vec![Some(number), Some(1)]),
                    };
                    groups.push(usize::try_from(next(200)).unwrap());
                    lists.push(list);
                }
                for (group, list) in groups.iter().zip(&lists) {
                    let kept = model.entry(*group).or_default();
                    let is_better = match (order(kept), order(list)) {
                        (None, _) => true,
                        (_, None) => false,
                        (Some(kept), Some(list)) => (list > kept) == greatest && list != kept,
                    };
                    if is_better {
                        kept.clone_from(list);
                    }
                }
                let values: ArrayRef =
                    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
                found.update_batch(&[values], &groups, None, 200).unwrap();
                assert!(!found.kept.is_sparse(200));
            }
            let model = ListArray::from_iter_primitive::<Int32Type, _, _>(
                (0..200).map(|group| model.get(&group).cloned().flatten()),
            );
            let first = found.evaluate(EmitTo::First(50)).unwrap();
            assert_eq!(first.as_list::<i32>(), &model.slice(0, 50));
            let state = found.state(EmitTo::All).unwrap();
            assert_eq!(state[0].as_list::<i32>(), &model.slice(50, 150));
            assert_eq!((found.key_bytes, found.kept.size()), (0, 0));
        }
    }
}
