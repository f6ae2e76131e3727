//! `map(keys, values)` and `MAP {key: value}`: maps of two lists, row by row.
//!
//! The query engine's own takes NULL for a key, looks at the lengths of all lists together, and
//! lays values along the keys of other rows where they differ.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions_nested::make_array::make_array;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use swingdb_common::cast::maps::of_parts;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let signature = Signature::one_of(signature, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(OfLists { signature }))
});

/// The function that `map(keys, values)` stands for.
pub(crate) fn function() -> ScalarUDF {
    FUNCTION.as_ref().clone()
}

/// `MAP {key: value, ...}`.
pub fn map_of(keys: Vec<Expr>, values: Vec<Expr>) -> Expr {
    FUNCTION.call(vec![make_array(keys), make_array(values)])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLists {
    signature: Signature,
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        "map_of_lists"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let element = |list: &DataType| match list {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Ok(item.data_type().clone())
            }
            DataType::Null => Ok(DataType::Null),
            other => plan_err!("map takes a list of keys and one of values, not {other}"),
        };
        let (key, value) = match types {
            [] => (DataType::Null, DataType::Null),
            [keys, values] => (element(keys)?, element(values)?),
            _ => return plan_err!("map takes a list of keys and one of values"),
        };
        // A key is never NULL, so that one without a type is none.
        let key = if key.is_null() { DataType::Int32 } else { key };
        let value = if value.is_null() { DataType::Int32 } else { value };
        let pair = [Field::new("key", key, false), Field::new("value", value, true)];
        let entries = Field::new("entries", DataType::Struct(Fields::from_iter(pair)), false);
        Ok(DataType::Map(Arc::new(entries), false))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let to = args.return_field.data_type();
        let DataType::Map(entries, _) = to else { return plan_err!("map gives a map") };
        let DataType::Struct(pair) = entries.data_type() else { return plan_err!("no entries") };
        if args.args.is_empty() {
            let nothing = pair.iter().map(|part| arrow::array::new_empty_array(part.data_type()));
            let nothing: Vec<ArrayRef> = nothing.collect();
            let found = of_parts(&nothing[0], &nothing[1], &vec![Some(0); rows], to, false)?;
            return crate::args::as_given(&args, found);
        }
        let lists = args.args.iter().zip(pair).map(|(list, part)| {
            let of = DataType::new_list(part.data_type().clone(), true);
            Ok(cast(&list.to_array(rows)?, &of)?.as_list::<i32>().clone())
        });
        let lists = lists.collect::<Result<Vec<ListArray>>>()?;
        let [keys, values] = lists.as_slice() else {
            return plan_err!("map takes a list of keys and one of values");
        };
        let mut lengths = Vec::with_capacity(rows);
        for row in 0..rows {
            let there = keys.is_valid(row) && values.is_valid(row);
            let (length, other) = (keys.value_length(row), values.value_length(row));
            if there && length != other {
                return exec_err!("map of {length} keys and {other} values");
            }
            lengths.push(there.then_some(length as usize));
        }
        let parts = [keys, values].map(|list| {
            let offsets = list.value_offsets();
            let there = lengths.iter().enumerate().filter_map(|(row, n)| Some((row, (*n)?)));
            let all = there
                .flat_map(|(row, n)| (0..n).map(move |at| (offsets[row] as usize + at) as u32));
            take(list.values(), &UInt32Array::from_iter_values(all), None)
        });
        let [keys, values] = parts;
        crate::args::as_given(&args, of_parts(&keys?, &values?, &lengths, to, false)?)
    }
}
