//! `first(x ORDER BY y)` and `last(x ORDER BY y)` of many groups at once, which `arg_max(x, y)` and
//! the like are: [`OrderedFirsts`].
//!
//! Of each group the key of its row is kept as bytes that compare as the keys do, and the row
//! itself among [`KeptRows`]. The engine looks at all its groups for each batch, and has an array
//! of keys for each group.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::datatypes::{DataType, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::group_rows::{prefix, state_field};
use super::kept_rows::{KeptRows, Place};
use super::sum_groups::selected;

/// The row of a group that comes before or behind its others.
#[derive(Debug, Clone)]
struct Outermost {
    /// The first bytes of its key.
    prefix: u128,
    /// The key, where it is longer.
    longer: Vec<u8>,
    place: Place,
}

impl Outermost {
    fn new(key: &[u8], place: Place) -> Self {
        let mut new = Self { prefix: 0, longer: Vec::new(), place };
        new.set_key(key);
        new
    }

    fn set_key(&mut self, key: &[u8]) {
        self.prefix = prefix(key);
        self.longer.clear();
        if key.len() > size_of::<u128>() {
            self.longer.extend_from_slice(key);
        }
    }

    /// Where a row with a key comes, seen from this one.
    fn cmp_key(&self, key: &[u8]) -> Ordering {
        prefix(key).cmp(&self.prefix).then_with(|| match self.longer.is_empty() {
            true => Ordering::Equal,
            false => key.cmp(&self.longer),
        })
    }
}

/// The value of the first or the last row of each group, in the order of the keys. Of rows with
/// equal keys it is the one that came first.
pub(super) struct OrderedFirsts {
    /// Of the value and of each key.
    fields: Fields,
    keys: RowConverter,
    is_last: bool,
    ignores_nulls: bool,
    groups: Vec<Option<Outermost>>,
    longer_bytes: usize,
    kept: KeptRows,
}

impl std::fmt::Debug for OrderedFirsts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrderedFirsts").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl OrderedFirsts {
    /// Whether the keys of a call have bytes that compare as they do.
    pub(super) fn supports(args: &AccumulatorArgs<'_>) -> bool {
        sort_fields(args).is_ok_and(|fields| RowConverter::supports_fields(&fields))
    }

    /// Of a call with ORDER BY.
    pub(super) fn of(args: &AccumulatorArgs<'_>, is_last: bool) -> Result<Self> {
        let value = args.return_field.data_type().clone();
        let keys = sort_fields(args)?;
        let mut types = vec![value];
        for key in args.order_bys {
            types.push(key.expr.data_type(args.schema)?);
        }
        let fields = types.iter().enumerate().map(|(place, of)| state_field(place, of)).collect();
        Self::new(fields, keys, is_last, args.ignore_nulls)
    }

    fn new(
        fields: Fields,
        sort_fields: Vec<SortField>,
        is_last: bool,
        ignores_nulls: bool,
    ) -> Result<Self> {
        let kept = KeptRows::new(DataType::Struct(fields.clone()));
        let keys = RowConverter::new(sort_fields)?;
        let (groups, longer_bytes) = (Vec::new(), 0);
        Ok(Self { fields, keys, is_last, ignores_nulls, groups, longer_bytes, kept })
    }

    /// Takes rows of values and keys in the order in which they came.
    fn add(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let keys = self.keys.convert_columns(&columns[1..])?;
        let batch = self.kept.next();
        let wanted = if self.is_last { Ordering::Greater } else { Ordering::Less };
        let mut touched = Vec::new();
        for row in rows {
            let key = keys.row(row).data();
            match &mut self.groups[groups[row]] {
                Some(known) if known.cmp_key(key) != wanted => {}
                Some(known) => {
                    self.longer_bytes -= known.longer.capacity();
                    known.set_key(key);
                    self.longer_bytes += known.longer.capacity();
                    if known.place.0 != batch {
                        touched.push(groups[row]);
                    }
                    known.place = (batch, row);
                }
                new => {
                    let outermost = new.insert(Outermost::new(key, (batch, row)));
                    self.longer_bytes += outermost.longer.capacity();
                    touched.push(groups[row]);
                }
            }
        }
        if touched.is_empty() {
            return Ok(());
        }
        let rows = StructArray::try_new(self.fields.clone(), columns.to_vec(), None)?;
        let rows: ArrayRef = Arc::new(rows);
        self.kept.keep_for(&mut self.groups, &touched, &rows, |known| &mut known.place)
    }

    /// The rows of some groups, and which of them have one.
    fn emit(&mut self, emit_to: EmitTo) -> Result<(ArrayRef, BooleanArray)> {
        let groups = emit_to.take_needed(&mut self.groups);
        let known = groups.iter().map(Option::as_ref);
        let rows = self.kept.at(known.clone().map(|known| Some(known?.place)))?;
        let are_set = known.map(|known| Some(known.is_some())).collect();
        self.longer_bytes -= groups.iter().flatten().map(|g| g.longer.capacity()).sum::<usize>();
        if self.groups.is_empty() {
            self.kept.clear();
        }
        Ok((rows, are_set))
    }
}

fn sort_fields(args: &AccumulatorArgs<'_>) -> Result<Vec<SortField>> {
    let keys = args.order_bys.iter();
    let fields = keys.map(|key| {
        let of = key.expr.data_type(args.schema)?;
        Ok(SortField::new_with_options(of, key.options))
    });
    fields.collect()
}

impl GroupsAccumulator for OrderedFirsts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups.resize(total_groups, None);
        let nulls = values[0].logical_nulls().filter(|_| self.ignores_nulls);
        let rows = selected(nulls.as_ref(), filter, groups.len());
        self.add(values, groups, rows.set_indices())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        let [columns @ .., are_set] = states else { return plan_err!("a state has a flag") };
        self.groups.resize(total_groups, None);
        let rows = selected(None, Some(are_set.as_boolean()), groups.len());
        self.add(columns, groups, rows.set_indices())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::clone(self.emit(emit_to)?.0.as_struct().column(0)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (rows, are_set) = self.emit(emit_to)?;
        let columns = rows.as_struct().columns().iter().cloned();
        Ok(columns.chain([Arc::new(are_set) as ArrayRef]).collect())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let nulls = values[0].logical_nulls().filter(|_| self.ignores_nulls);
        let are_set = selected(nulls.as_ref(), filter, values[0].len());
        let are_set: ArrayRef = Arc::new(BooleanArray::new(are_set, None));
        Ok(values.iter().cloned().chain([are_set]).collect())
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Outermost>>()
            + self.longer_bytes
            + self.kept.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::Int64Type;

    use super::*;

    /// By the greatest text.
    fn groups() -> Result<OrderedFirsts> {
        let types = [DataType::Int64, DataType::Utf8];
        let fields = types.iter().enumerate().map(|(place, of)| state_field(place, of)).collect();
        let options = SortOptions { descending: true, nulls_first: false };
        let key = SortField::new_with_options(DataType::Utf8, options);
        OrderedFirsts::new(fields, vec![key], false, false)
    }

    #[test]
    fn long_keys_are_compared_as_a_whole() -> Result<()> {
        const ROWS: usize = 30_000;
        let text = |row: usize| match row % 11 {
            0 => None,
            1 => Some("short".to_string()),
            _ => Some(format!("a text of many letters, number {}", (row * 7919) % 10_007)),
        };
        let mut model = vec![(None::<String>, None::<i64>); 41];
        let (mut whole, mut parts) = (groups()?, [groups()?, groups()?]);
        for begin in (0..ROWS).step_by(1000) {
            let rows = begin..begin + 1000;
            let of = rows.clone().map(|row| (row * 31) % 40).collect::<Vec<_>>();
            for (row, group) in rows.clone().zip(&of) {
                let (known, value) = &mut model[*group];
                if value.is_none() || text(row) > *known {
                    (*known, *value) = (text(row), Some(row as i64));
                }
            }
            let values = Int64Array::from_iter_values(rows.clone().map(|row| row as i64));
            let keys = rows.map(text).collect::<StringArray>();
            let columns: [ArrayRef; 2] = [Arc::new(values), Arc::new(keys)];
            whole.update_batch(&columns, &of, None, 41)?;
            parts[begin / 1000 % 2].update_batch(&columns, &of, None, 41)?;
        }
        let wanted = model.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        let first = whole.evaluate(EmitTo::First(7))?;
        let rest = whole.evaluate(EmitTo::All)?;
        let found = [first, rest].map(|found| found.as_primitive::<Int64Type>().clone());
        assert_eq!(found.iter().flatten().collect::<Vec<_>>(), wanted);
        assert_eq!((whole.longer_bytes, whole.kept.size()), (0, 0));
        // Of several rows with the greatest key any part's first may be it.
        let mut merged = groups()?;
        let all = (0..41).collect::<Vec<_>>();
        for part in &mut parts {
            merged.merge_batch(&part.state(EmitTo::All)?, &all, 41)?;
        }
        let rows = merged.state(EmitTo::All)?;
        let keys = rows[1].as_string::<i32>().iter().map(|key| key.map(str::to_string));
        assert_eq!(keys.collect::<Vec<_>>(), model.into_iter().map(|m| m.0).collect::<Vec<_>>());
        Ok(())
    }
}
