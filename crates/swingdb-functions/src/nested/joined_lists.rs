//! `list || list`, which is NULL where either of the two is; and the function `list_concat`, which
//! leaves NULLs out.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use datafusion::common::utils::remove_list_null_values;
use datafusion::common::{Result, plan_err};
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// `list_concat` in place of the engine's, which refuses a NULL of no type, and makes NULL of lists
/// that are all NULL instead of an empty one.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    let aliases = ["list_concat", "array_cat", "list_cat"].map(str::to_string);
    ScalarUDF::new_from_impl(Concat { engine: array_concat_udf(), signature, aliases })
}

/// One list of several.
pub fn concat_lists(lists: Vec<Expr>) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(function);
    FUNCTION.call(lists)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    engine: Arc<ScalarUDF>,
    signature: Signature,
    aliases: [String; 3],
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let lists = types.iter().filter(|given| !given.is_null()).cloned().collect::<Vec<_>>();
        if lists.is_empty() {
            return Ok(types.to_vec());
        }
        let lists = self.engine.coerce_types(&lists)?;
        let mut next = lists.iter();
        let coerced = types.iter().map(|given| match given.is_null() {
            true => lists.first(),
            false => next.next(),
        });
        match coerced.map(Option::<&DataType>::cloned).collect() {
            Some(types) => Ok(types),
            None => plan_err!("{} takes lists", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.inner().return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let lists = args.args.iter().map(|list| list.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let arrays = lists.into_iter().map(ColumnarValue::Array).collect();
        let engine = ScalarFunctionArgs { args: arrays, number_rows: rows, ..args.clone() };
        let joined = self.engine.invoke_with_args(engine)?.to_array(rows)?;
        if joined.null_count() == 0 || joined.data_type().is_null() {
            return crate::args::as_given(&args, joined);
        }
        let joined: ArrayRef = match remove_list_null_values(&joined)?.as_list_opt::<i32>() {
            Some(lists) => {
                let (field, offsets, values, _) = lists.clone().into_parts();
                Arc::new(ListArray::try_new(field, offsets, values, None)?)
            }
            None => joined,
        };
        crate::args::as_given(&args, joined)
    }
}

/// One list of two.
pub fn joined_lists(left: Expr, right: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Joined { engine: array_concat_udf(), signature })
    });
    FUNCTION.call(vec![left, right])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    /// Leaves out NULLs.
    engine: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "joined_lists"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [left, right] if left.is_null() => Ok(vec![right.clone(), right.clone()]),
            [left, right] if right.is_null() => Ok(vec![left.clone(), left.clone()]),
            [_, _] => self.engine.coerce_types(types),
            _ => plan_err!("{} takes two lists", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.inner().return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let lists = args.args.iter().map(|list| list.to_array(rows));
        let lists = lists.collect::<Result<Vec<_>>>()?;
        let nulls = lists.iter().fold(None, |nulls: Option<NullBuffer>, list| {
            NullBuffer::union(nulls.as_ref(), list.logical_nulls().as_ref())
        });
        let arrays = lists.into_iter().map(ColumnarValue::Array).collect();
        let engine = ScalarFunctionArgs { args: arrays, number_rows: rows, ..args.clone() };
        let joined = self.engine.invoke_with_args(engine)?.to_array(rows)?;
        let joined = match nulls {
            None => joined,
            Some(nulls) => nullif(&joined, &BooleanArray::new(!nulls.inner(), None))?,
        };
        crate::args::as_given(&args, joined)
    }
}
