//! The function `same_bits(x)`: equal numbers get equal bits, see [`canonical`].

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::store::canonical;

const NAME: &str = "same_bits";

/// `same_bits(expr)`.
pub(super) fn same_bits(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(SameBits { signature }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![expr]))
}

/// Whether an expression is such a call, under whatever name.
pub(super) fn is_same_bits(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_same_bits(&alias.expr),
        Expr::ScalarFunction(call) => call.name() == NAME,
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SameBits {
    signature: Signature,
}

impl ScalarUDFImpl for SameBits {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok(given.clone()),
            _ => plan_err!("{NAME} takes one value"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [given] => {
                Ok(Arc::new(Field::new(NAME, given.data_type().clone(), given.is_nullable())))
            }
            _ => plan_err!("{NAME} takes one value"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let apply =
            |array| canonical(array).map_err(|error| DataFusionError::External(Box::new(error)));
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(apply(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = apply(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{NAME} takes one value"),
        }
    }
}
