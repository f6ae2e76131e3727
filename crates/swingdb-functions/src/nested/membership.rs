//! `list_contains(list, x)`, also called `array_has`, as the engine has it, without its turn to
//! `x IN (...)` where that says something else.
//!
//! `list_contains([1, NULL], 2)` is false, and `2 IN (1, NULL)` unknown; `list_contains([], NULL)`
//! is NULL, and `NULL IN ()` false. The engine makes an IN of each constant list, and of each
//! `[a, b]`.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::elements::coerced;
use crate::engines_own::as_engines_coerced;

/// The function in place of the engine's.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Has { engines: array_has_udf(), signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Has {
    engines: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Has {
    as_engines_coerced!(coerced);

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.first() {
            Some(Expr::Literal(list, _)) if is_without_nulls(list) => {
                self.engines.inner().simplify(args, context)
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.engines.invoke_with_args(args)
    }
}

/// Whether it is a list that has elements, and all of them values.
fn is_without_nulls(list: &ScalarValue) -> bool {
    let elements = match list {
        ScalarValue::List(list) if list.is_valid(0) => list.value(0),
        ScalarValue::LargeList(list) if list.is_valid(0) => list.value(0),
        _ => return false,
    };
    !elements.is_empty() && elements.null_count() == 0
}
