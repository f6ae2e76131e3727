//! Aggregates that count how often each value occurs: `mode`, `histogram`, `entropy`.
//!
//! Values are told apart, and put in order, by the engine's row format; of floats all NaN are one
//! value, and both zeros. NULL is not counted. Where two values are the most frequent, `mode` is
//! the smaller one, however the rows come; with ORDER BY the one that comes first in that order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use hashbrown::HashMap;

use super::counted_groups::CountedGroups;
use super::counted_values::{Kind, entropy, entry_fields, one_of_each};
use super::ordered::ordered;

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = AggregateUDF> {
    let mode = ordered(
        Arc::new(function("mode", Kind::Mode)),
        Arc::new(function("mode", Kind::FirstMode)),
    );
    let others = [("histogram", Kind::Histogram), ("entropy", Kind::Entropy)];
    others.into_iter().map(|(name, kind)| function(name, kind)).chain([mode])
}

fn function(name: &'static str, kind: Kind) -> AggregateUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    AggregateUDF::new_from_impl(Counted { name, kind, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Counted {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [of] = types else { return exec_err!("{} takes one value", self.name) };
        Ok(match self.kind {
            Kind::Mode | Kind::FirstMode => of.clone(),
            Kind::Entropy => DataType::Float64,
            Kind::Histogram => {
                let entries = DataType::Struct(entry_fields(of));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [field] = args.expr_fields else { return exec_err!("{} takes one value", self.name) };
        let values = field.data_type().clone();
        Ok(Box::new(Counts {
            kind: self.kind,
            converter: RowConverter::new(vec![SortField::new(values.clone())])?,
            values,
            once: args.is_distinct,
            counts: HashMap::new(),
            key_bytes: 0,
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        // Which value came first is known of one group only.
        args.expr_fields.len() == 1 && self.kind != Kind::FirstMode
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let values = args.expr_fields[0].data_type().clone();
        Ok(Box::new(CountedGroups::new(self.kind, values, args.is_distinct)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let [field] = args.input_fields else { return exec_err!("{} takes one value", self.name) };
        let list = |name: &str, item: &DataType| {
            let item = Field::new_list_field(item.clone(), true);
            let name = format!("{}[{name}]", args.name);
            Arc::new(Field::new(name, DataType::List(Arc::new(item)), true))
        };
        Ok(vec![list("values", field.data_type()), list("counts", &DataType::UInt64)])
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        match self.kind {
            Kind::Entropy => Ok(ScalarValue::Float64(Some(0.0))),
            _ => ScalarValue::try_new_null(of),
        }
    }
}

struct Counts {
    kind: Kind,
    values: DataType,
    /// Each value counts once.
    once: bool,
    converter: RowConverter,
    /// By the value in the row format.
    counts: HashMap<Box<[u8]>, Count>,
    key_bytes: usize,
}

/// How often a value occurs, and how many others were known when it first did.
#[derive(Debug, Clone, Copy)]
struct Count {
    rows: u64,
    place: usize,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").field("values", &self.counts.len()).finish_non_exhaustive()
    }
}

impl Counts {
    fn add(&mut self, values: &ArrayRef, count: impl Fn(usize) -> u64) -> Result<()> {
        let values = one_of_each(values);
        let rows = self.converter.convert_columns(std::slice::from_ref(&values))?;
        for (row, key) in rows.iter().enumerate() {
            if values.is_null(row) {
                continue;
            }
            let key = key.as_ref();
            match self.counts.get_mut(key) {
                Some(known) => known.rows += count(row),
                None => {
                    self.key_bytes += key.len();
                    let new = Count { rows: count(row), place: self.counts.len() };
                    self.counts.insert(key.into(), new);
                }
            }
        }
        Ok(())
    }

    /// How often a value counts that was found so often.
    fn weight(&self, count: &Count) -> u64 {
        if self.once { 1 } else { count.rows }
    }

    fn decoded<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let columns = self.converter.convert_rows(keys.into_iter().map(|key| parser.parse(key)))?;
        match columns.as_slice() {
            [column] => Ok(cast(column, &self.values)?),
            _ => exec_err!("a row of values has one column"),
        }
    }

    fn mode(&self) -> Result<ScalarValue> {
        let most = self.counts.iter().max_by(|(a, most), (b, count)| {
            let by_place = || match self.kind {
                Kind::FirstMode => count.place.cmp(&most.place),
                _ => b.cmp(a),
            };
            self.weight(most).cmp(&self.weight(count)).then_with(by_place)
        });
        match most {
            Some((key, _)) => ScalarValue::try_from_array(&self.decoded([&**key])?, 0),
            None => ScalarValue::try_new_null(&self.values),
        }
    }

    fn histogram(&self) -> Result<ScalarValue> {
        let mut entries: Vec<_> = self.counts.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let counts = entries.iter().map(|(_, count)| self.weight(count));
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let keys = self.decoded(entries.iter().map(|(key, _)| &***key))?;
        let fields = entry_fields(&self.values);
        let data_type = DataType::Struct(fields.clone());
        let len = entries.len();
        let entries = StructArray::try_new(fields, vec![keys, counts], None)?;
        let field = Arc::new(Field::new("entries", data_type, false));
        let offsets = OffsetBuffer::from_lengths([len]);
        let map = MapArray::try_new(field, offsets, entries, None, false)?;
        Ok(ScalarValue::Map(Arc::new(map)))
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], |_| 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                let counts = counts.as_primitive::<UInt64Type>();
                self.add(&values, |row| counts.value(row))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.decoded(self.counts.keys().map(|key| &**key))?;
        let counts = self.counts.values().map(|count| count.rows);
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(values), list(counts)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.kind {
            Kind::Mode | Kind::FirstMode => self.mode(),
            Kind::Entropy => {
                let counts = self.counts.values().map(|count| self.weight(count));
                Ok(ScalarValue::Float64(Some(entropy(counts))))
            }
            Kind::Histogram if self.counts.is_empty() => {
                let entries = DataType::Struct(entry_fields(&self.values));
                let field = Arc::new(Field::new("entries", entries, false));
                ScalarValue::try_new_null(&DataType::Map(field, false))
            }
            Kind::Histogram => self.histogram(),
        }
    }

    fn size(&self) -> usize {
        let entry = size_of::<(Box<[u8]>, Count)>() + 1;
        size_of_val(self) + self.counts.capacity() * entry + self.key_bytes
    }
}
