//! The order of lists, structs and maps, in which a NULL inside is greater than any value, as in
//! DuckDB and PostgreSQL: `[1] < [NULL]`.
//!
//! The engine has it the other way round, and in some places not at all. Intervals inside are
//! ordered by their length. What is compared or sorted
//! is put into `order_bytes(x)`, bytes that are in that order; `min` and `max` keep the value of
//! the least and greatest bytes, and `greatest` and `least` choose by them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::floats::canonical;

use crate::keys::intervals::{is_interval, measured};
use crate::keys::same_bits::{call, call_of, of_key, row_bytes};

/// Whether the engine's order of values of a type is not SQL's.
pub fn is_ordered_otherwise(data_type: &DataType) -> bool {
    data_type.is_nested()
        && RowConverter::supports_fields(&[SortField::new(data_type.clone())])
        && !matches!(data_type, DataType::Union(..) | DataType::Dictionary(..))
}

/// Whether values of a type are sorted by their [`bytes`]: those [ordered
/// otherwise](is_ordered_otherwise), and intervals.
pub fn is_sorted_by_bytes(data_type: &DataType) -> bool {
    is_interval(data_type) || is_ordered_otherwise(data_type)
}

/// What the engine sorts in SQL's order of these values.
pub(crate) fn sort_keys(values: &ArrayRef) -> Result<ArrayRef> {
    match is_sorted_by_bytes(values.data_type()) {
        true => bytes(values),
        false => Ok(canonical(values)?),
    }
}

/// `order_bytes(expr)`.
pub fn order_bytes(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key("order_bytes", |_| DataType::Binary, bytes));
    call(&FUNCTION, expr)
}

/// The bytes of values, NULL for NULL. Equal numbers give equal bytes.
pub(crate) fn bytes(array: &ArrayRef) -> Result<ArrayRef> {
    row_bytes(&measured(&canonical(array)?)?, SortOptions { descending: false, nulls_first: false })
}

/// `element_bytes(list)`: lists of the bytes of their elements.
pub fn element_bytes(list: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let returns = |_: &DataType| DataType::new_list(DataType::Binary, true);
        of_key("element_bytes", returns, bytes_of_elements)
    });
    call(&FUNCTION, list)
}

fn bytes_of_elements(lists: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(item) = lists.data_type() else {
        return plan_err!("elements are those of lists, not of {}", lists.data_type());
    };
    let item = Arc::new(Field::new(item.name(), DataType::Binary, true));
    let (_, offsets, values, nulls) = lists.as_list::<i32>().clone().into_parts();
    Ok(Arc::new(ListArray::try_new(item, offsets, bytes(&values)?, nulls)?))
}

// ---- min and max --------------------------------------------------------------------------------

/// The least or the greatest of nested values.
#[derive(Debug)]
pub(crate) struct ExtremeNested {
    greatest: bool,
    found: Option<Vec<u8>>,
    value: ScalarValue,
}

impl ExtremeNested {
    pub(crate) fn new(greatest: bool, data_type: &DataType) -> Result<Self> {
        Ok(Self { greatest, found: None, value: ScalarValue::try_new_null(data_type)? })
    }
}

impl Accumulator for ExtremeNested {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return plan_err!("an extreme is one of one column") };
        let keys = bytes(values)?;
        let keys = keys.as_binary::<i32>().iter().enumerate();
        let keys = keys.filter_map(|(row, key)| Some((key?, row)));
        let best = match self.greatest {
            true => keys.max_by_key(|(key, _)| *key),
            false => keys.min_by_key(|(key, _)| *key),
        };
        let Some((key, row)) = best else { return Ok(()) };
        let is_better = self.found.as_deref().is_none_or(|found| match self.greatest {
            true => key > found,
            false => key < found,
        });
        if is_better {
            self.found = Some(key.to_vec());
            self.value = ScalarValue::try_from_array(values, row)?.compacted();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, Vec::capacity) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.evaluate().map(|value| vec![value])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The same of a window that moves: all values in it, and how often they are there.
#[derive(Debug)]
pub(crate) struct MovingNested {
    greatest: bool,
    null: ScalarValue,
    values: BTreeMap<Vec<u8>, (ScalarValue, usize)>,
}

impl MovingNested {
    pub(crate) fn new(greatest: bool, data_type: &DataType) -> Result<Self> {
        let null = ScalarValue::try_new_null(data_type)?;
        Ok(Self { greatest, null, values: BTreeMap::new() })
    }
}

impl Accumulator for MovingNested {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return plan_err!("an extreme is one of one column") };
        for (row, key) in bytes(values)?.as_binary::<i32>().iter().enumerate() {
            let Some(key) = key else { continue };
            match self.values.get_mut(key) {
                Some((_, count)) => *count += 1,
                None => {
                    let value = ScalarValue::try_from_array(values, row)?.compacted();
                    self.values.insert(key.to_vec(), (value, 1));
                }
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return plan_err!("an extreme is one of one column") };
        for key in bytes(values)?.as_binary::<i32>().iter().flatten() {
            if let Some((_, count)) = self.values.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.values.remove(key);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let best = match self.greatest {
            true => self.values.last_key_value(),
            false => self.values.first_key_value(),
        };
        Ok(best.map_or_else(|| self.null.clone(), |(_, (value, _))| value.clone()))
    }

    fn size(&self) -> usize {
        let entries = self.values.iter().map(|(key, (value, _))| key.capacity() + value.size());
        size_of_val(self) + entries.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.evaluate().map(|value| vec![value])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

// ---- greatest and least -------------------------------------------------------------------------

/// `greatest` or `least` of nested values, or intervals, of one type; NULLs are left out.
pub fn chosen(greatest: bool, args: Vec<Expr>) -> Expr {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let chosen = Chosen { greatest, signature };
    call_of(&Arc::new(ScalarUDF::new_from_impl(chosen)), args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Chosen {
    greatest: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Chosen {
    fn name(&self) -> &str {
        if self.greatest { "greatest_nested" } else { "least_nested" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [first, ..] => Ok(first.clone()),
            [] => plan_err!("{} takes values", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let returned = self.return_type(&types.collect::<Vec<_>>())?;
        Ok(Arc::new(Field::new(self.name(), returned, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let keys = columns.iter().map(bytes).collect::<Result<Vec<_>>>()?;
        let keys = keys.iter().map(|keys| keys.as_binary::<i32>()).collect::<Vec<_>>();
        let places = (0..rows).map(|row| {
            let there = (0..keys.len()).filter(|column| keys[*column].is_valid(row));
            let best = match self.greatest {
                true => there.max_by_key(|column| keys[*column].value(row)),
                false => there.min_by_key(|column| keys[*column].value(row)),
            };
            (best.unwrap_or_default(), row)
        });
        let places = places.collect::<Vec<_>>();
        let arrays = columns.iter().map(|array| array.as_ref()).collect::<Vec<&dyn Array>>();
        let found = interleave(&arrays, &places)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
