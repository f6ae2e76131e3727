//! `list_append` and `list_prepend`, of a NULL a list of one element.
//!
//! The engine's own take the elements that may lie below a NULL, of a column of `INT[2]` or of what
//! `nullif` and CASE have left out, for those of the list.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::utils::remove_list_null_values;
use datafusion::functions_nested::concat::{array_append_udf, array_prepend_udf};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::elements::coerced;
use crate::engines_own::as_engines_coerced;

/// The functions in place of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [(array_append_udf(), 0), (array_prepend_udf(), 1)];
    all.into_iter().map(|(engines, list)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Extended { engines, list, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extended {
    engines: Arc<ScalarUDF>,
    /// Which argument is the list.
    list: usize,
    signature: Signature,
}

impl ScalarUDFImpl for Extended {
    as_engines_coerced!(coerced);

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.engines.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(ColumnarValue::Array(lists)) = args.args.get_mut(self.list) {
            *lists = nothing_below_nulls(lists)?;
        }
        self.engines.invoke_with_args(args)
    }
}

/// The same lists, of which those that are NULL have no elements.
fn nothing_below_nulls(lists: &ArrayRef) -> Result<ArrayRef> {
    match lists.data_type() {
        DataType::List(_) | DataType::LargeList(_) => remove_list_null_values(lists),
        _ => Ok(Arc::clone(lists)),
    }
}
