//! `length(x)`, which takes lists of everything beside texts, and `array_length(l, n)`,
//! the length of the n-th dimension: of the first list in the first list; `list_resize(l, n)`.
//!
//! The engine's own turns what it gets into text, which lists of structs and maps cannot become,
//! and looks for the first element of a list that has none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::functions::unicode::character_length;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::functions_nested::resize::array_resize_udf;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::engines_own::as_engines;

/// The functions in place of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let length = Length { engines: character_length(), signature };
    let length = ScalarUDF::new_from_impl(length);
    let dimension = Dimension { engines: array_length_udf() };
    let dimension = ScalarUDF::new_from_impl(dimension);
    let resized = Resized { engines: array_resize_udf() };
    let resized = ScalarUDF::new_from_impl(resized);
    [length, dimension, resized].into_iter()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    engines: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn aliases(&self) -> &[String] {
        self.engines.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = types else { return plan_err!("{} takes one value", self.name()) };
        if given.is_list() {
            return Ok(types.to_vec());
        }
        let given = Arc::new(Field::new("value", given.clone(), true));
        let taken = fields_with_udf(&[given], self.engines.as_ref())?;
        Ok(taken.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] if given.is_list() => Ok(DataType::Int64),
            _ => self.engines.inner().return_type(types),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engines.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.args.first().map(ColumnarValue::data_type);
        if !of.is_some_and(|of| of.is_list()) {
            return self.engines.invoke_with_args(args);
        }
        let counted = array_length_udf().invoke_with_args(args)?;
        counted.cast_to(&DataType::Int64, None)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Dimension {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Dimension {
    as_engines!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [lists, dimensions] = args.args.as_slice() else {
            return self.engines.invoke_with_args(args);
        };
        let rows = crate::args::rows_of(&args);
        let lists = lists.to_array(rows)?;
        let dimensions = cast(&dimensions.to_array(rows)?, &DataType::Int64)?;
        let dimensions = dimensions.as_primitive::<Int64Type>();
        let of = |row: usize| match dimensions.is_valid(row) {
            true => length_of(element(&lists, row)?, dimensions.value(row)),
            false => None,
        };
        let lengths = (0..lists.len()).map(of).collect::<UInt64Array>();
        crate::args::as_given(&args, Arc::new(lengths))
    }
}

/// `list_resize(l, n)`, which takes no length below 0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Resized {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Resized {
    as_engines!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let least = match args.args.get(1) {
            Some(ColumnarValue::Scalar(ScalarValue::Int64(length))) => *length,
            Some(ColumnarValue::Array(lengths)) => {
                lengths.as_primitive_opt::<Int64Type>().and_then(arrow::compute::min)
            }
            _ => None,
        };
        match least {
            Some(length) if length < 0 => exec_err!("list_resize: {length} is no length of a list"),
            _ => self.engines.invoke_with_args(args),
        }
    }
}

/// How many elements a dimension has; 1 is that of the list itself.
fn length_of(mut list: ArrayRef, dimension: i64) -> Option<u64> {
    for _ in 1..dimension {
        list = match list.is_empty() {
            true => return None,
            false => element(&list, 0)?,
        };
    }
    (dimension >= 1).then_some(list.len() as u64)
}

/// The elements of one of several lists, unless it is NULL.
fn element(lists: &ArrayRef, row: usize) -> Option<ArrayRef> {
    let there = lists.is_valid(row);
    Some(match lists.data_type() {
        DataType::List(_) if there => lists.as_list::<i32>().value(row),
        DataType::LargeList(_) if there => lists.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) if there => lists.as_fixed_size_list().value(row),
        _ => return None,
    })
}
