//! `to_char(x, format)`, also called `date_format`, as the engine has it, but for a constant `x`
//! with formats of a column: the engine takes the first format for all rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::functions::datetime::to_char;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use crate::engines_own::as_engines;

/// The function in place of the engine's.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(ToChar { engines: to_char() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ToChar {
    as_engines!();

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [time @ ColumnarValue::Scalar(_), ColumnarValue::Array(_)] = args.args.as_mut_slice()
        {
            *time = ColumnarValue::Array(time.to_array(args.number_rows)?);
        }
        self.engines.invoke_with_args(args)
    }
}
