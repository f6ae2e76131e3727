//! `named_cast(CAST(a AS DATE), 'CAST(a AS DATE)')`: a cast with a name of its own.
//!
//! The query engine names a cast after what is cast. This function gives its first argument, and is
//! named after its second. The optimizer takes it away.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The name of the function.
pub(crate) const NAMED_CAST: &str = "named_cast";

/// The function, to be registered with the engine.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(NamedCast { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

fn wrong<T>() -> Result<T> {
    plan_err!("{NAMED_CAST} takes a value and a name")
}

fn name_in(args: &[Expr]) -> Result<String> {
    match args {
        [_, Expr::Literal(ScalarValue::Utf8(Some(name)), _)] => Ok(name.clone()),
        _ => wrong(),
    }
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAMED_CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_in(args)
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        name_in(args)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().map_or_else(wrong, Ok)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [value, _] => {
                let field = Field::new(NAMED_CAST, value.data_type().clone(), value.is_nullable());
                Ok(Arc::new(field.with_metadata(value.metadata().clone())))
            }
            _ => wrong(),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value, _] => Ok(value.clone()),
            _ => wrong(),
        }
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        args.into_iter().next().map_or_else(wrong, |cast| Ok(ExprSimplifyResult::Simplified(cast)))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |value| value.sort_properties))
    }
}
