//! `list(x ORDER BY y)`, `list(DISTINCT x)`, and `string_agg` of both kinds, of many groups at
//! once: [`GatheredGroups`].

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringBuilder, ListArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::expressions::Literal;

use super::group_rows::{Arranged, GroupRows};
use super::sum_groups::{selected, state_of_each_row};

/// What becomes of the values of a group.
#[derive(Debug, Clone)]
pub(super) enum Joined {
    /// A list with such items.
    List(FieldRef),
    /// A text, with this between two values.
    Text(String),
}

impl Joined {
    /// That of the function with this name.
    pub(super) fn of(name: &str, args: &AccumulatorArgs<'_>) -> Result<Self> {
        match (name, args.return_field.data_type()) {
            ("array_agg", DataType::List(item)) => Ok(Self::List(Arc::clone(item))),
            ("string_agg", DataType::LargeUtf8) => {
                let between = args.exprs.get(1).and_then(|arg| arg.downcast_ref::<Literal>());
                match between.and_then(|between| between.value().try_as_str().flatten()) {
                    Some(between) => Ok(Self::Text(between.to_string())),
                    None => plan_err!("what string_agg puts between texts is to be a constant"),
                }
            }
            (name, of) => plan_err!("{name} gives no {of}"),
        }
    }

    fn values(&self, arranged: Arranged) -> Result<ArrayRef> {
        match self {
            Self::List(item) => as_lists(item, arranged),
            Self::Text(between) => as_texts(between, &arranged),
        }
    }
}

/// A group without values has no list.
fn as_lists(item: &FieldRef, arranged: Arranged) -> Result<ArrayRef> {
    let offsets = arranged.offsets()?;
    let are_there = offsets.lengths().map(|rows| rows > 0).collect::<Vec<_>>();
    let nulls = Some(NullBuffer::from(are_there)).filter(|nulls| nulls.null_count() > 0);
    let Some(values) = arranged.columns.into_iter().next() else {
        return exec_err!("the rows of a group have values");
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

fn as_texts(between: &str, arranged: &Arranged) -> Result<ArrayRef> {
    let values = cast(&arranged.columns[0], &DataType::LargeUtf8)?;
    let values = values.as_string::<i64>();
    let bytes = values.values().len() + between.len() * values.len();
    let mut texts = LargeStringBuilder::with_capacity(arranged.starts.len(), bytes);
    for ends in arranged.starts.windows(2) {
        if ends[0] == ends[1] {
            texts.append_null();
            continue;
        }
        for row in ends[0]..ends[1] {
            // Never fails.
            let _ = texts.write_str(if row > ends[0] { between } else { "" });
            let _ = texts.write_str(values.value(row));
        }
        texts.append_value("");
    }
    Ok(Arc::new(texts.finish()))
}

/// Gathers the rows of all groups.
#[derive(Debug)]
pub(super) struct GatheredGroups {
    rows: GroupRows,
    /// How many keys the order has.
    keys: usize,
    ignores_nulls: bool,
    joined: Joined,
}

impl GatheredGroups {
    /// Rows of a value and so many keys.
    pub(super) fn new(rows: GroupRows, keys: usize, ignores_nulls: bool, joined: Joined) -> Self {
        Self { rows, keys, ignores_nulls, joined }
    }
}

impl GroupsAccumulator for GatheredGroups {
    /// The values, the other arguments, which are constants, and the keys.
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.rows.resize(total_groups)?;
        let nulls = values[0].logical_nulls().filter(|_| self.ignores_nulls);
        let selected = selected(nulls.as_ref(), filter, groups.len());
        let columns = values[..1].iter().chain(&values[values.len() - self.keys..]).cloned();
        self.rows.add(&columns.collect::<Vec<_>>(), groups, &selected)
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
        let keys = |columns: &[ArrayRef]| Ok(columns[1..].to_vec());
        self.joined.values(self.rows.emit(emit_to, keys)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.rows.as_lists(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let (keys, joined) = (self.keys, self.joined.clone());
        let empty = Self::new(self.rows.empty(), keys, self.ignores_nulls, joined);
        state_of_each_row(empty, values, filter)
    }

    fn size(&self) -> usize {
        self.rows.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::compute::SortOptions;

    use super::*;

    /// Rows of a value and a key, which are NULL now and then.
    type Row = (Option<i64>, Option<i64>);

    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from((self.0 >> 33) % below).unwrap_or_default()
        }

        fn value(&mut self, below: u64) -> Option<i64> {
            (self.next(9) > 0).then(|| self.next(below) as i64 - 3)
        }
    }

    const GROUPS: usize = 70;

    fn lists(once: bool) -> GatheredGroups {
        let options = SortOptions { descending: true, nulls_first: false };
        let item = Arc::new(arrow::datatypes::Field::new_list_field(DataType::Int64, true));
        let rows = GroupRows::new(&[DataType::Int64, DataType::Int64], vec![options], once);
        GatheredGroups::new(rows, 1, false, Joined::List(item))
    }

    /// What the groups of a model are as lists in order: the greatest key first, NULL last.
    fn in_order(mut rows: Vec<Row>, once: bool) -> Option<Vec<Option<i64>>> {
        if once {
            let mut seen = std::collections::BTreeSet::new();
            rows.retain(|(value, _)| seen.insert(*value));
        }
        rows.sort_by_key(|(_, key)| std::cmp::Reverse(*key));
        (!rows.is_empty()).then(|| rows.into_iter().map(|(value, _)| value).collect())
    }

    fn found(lists: &ArrayRef) -> Vec<Option<Vec<Option<i64>>>> {
        let values = |list: ArrayRef| {
            list.as_primitive::<arrow::datatypes::Int64Type>().iter().collect::<Vec<_>>()
        };
        lists.as_list::<i32>().iter().map(|list| list.map(values)).collect()
    }

    #[test]
    fn lists_are_those_of_a_simple_model() -> Result<()> {
        for once in [false, true] {
            let mut random = Random(5);
            let (mut direct, mut merged) = (lists(once), lists(once));
            let mut model = vec![Vec::<Row>::new(); GROUPS];
            for batch in 0..20 {
                let groups = (0..300).map(|_| random.next(GROUPS as u64 - 1)).collect::<Vec<_>>();
                let values = (0..300).map(|_| random.value(5)).collect::<Vec<_>>();
                // Different values are ordered by themselves.
                let key = |row: usize| if once { values[row] } else { values[row].map(|v| v / 2) };
                let keys = (0..300).map(key).collect::<Vec<_>>();
                let filter = (0..300).map(|_| Some(random.next(4) > 0)).collect::<BooleanArray>();
                for row in (0..300).filter(|row| filter.value(*row)) {
                    model[groups[row]].push((values[row], keys[row]));
                }
                let columns: [ArrayRef; 2] =
                    [Arc::new(Int64Array::from(values)), Arc::new(Int64Array::from(keys))];
                direct.update_batch(&columns, &groups, Some(&filter), GROUPS)?;
                // Parts by way of their states, some of a row each.
                let mut part = lists(once);
                let (states, groups) = match batch % 2 {
                    0 => (part.convert_to_state(&columns, Some(&filter))?, groups),
                    _ => {
                        part.update_batch(&columns, &groups, Some(&filter), GROUPS)?;
                        (part.state(EmitTo::All)?, (0..GROUPS).collect())
                    }
                };
                merged.merge_batch(&states, &groups, GROUPS)?;
            }
            let wanted = model.into_iter().map(|rows| in_order(rows, once)).collect::<Vec<_>>();
            for groups in [&mut direct, &mut merged] {
                let first = found(&groups.evaluate(EmitTo::First(31))?);
                assert_eq!(first, wanted[..31]);
                // The others have other numbers now, and one of them gets a row more.
                let row: [ArrayRef; 2] =
                    [Arc::new(Int64Array::from(vec![99])), Arc::new(Int64Array::from(vec![99]))];
                groups.update_batch(&row, &[4], None, GROUPS - 31)?;
                let mut rest = found(&groups.evaluate(EmitTo::All)?);
                let more = rest[4].as_mut().map(|list| list.remove(0));
                assert_eq!((more, &rest[..]), (Some(Some(99)), &wanted[31..]));
                assert!(groups.size() <= 300 * GROUPS, "{}", groups.size());
            }
        }
        Ok(())
    }

    #[test]
    fn texts_are_put_together_without_nulls() -> Result<()> {
        let rows = GroupRows::new(&[DataType::Utf8], Vec::new(), true);
        let mut texts = GatheredGroups::new(rows, 0, true, Joined::Text("; ".to_string()));
        let given = [Some("b"), None, Some("a"), Some("b"), Some(""), Some("c")];
        let given: ArrayRef = Arc::new(StringArray::from(given.to_vec()));
        texts.update_batch(&[given], &[0, 1, 0, 0, 2, 0], None, 4)?;
        let found = texts.evaluate(EmitTo::All)?;
        let wanted = [Some("b; a; c"), None, Some(""), None];
        assert_eq!(found.as_string::<i64>().iter().collect::<Vec<_>>(), wanted);
        Ok(())
    }
}
