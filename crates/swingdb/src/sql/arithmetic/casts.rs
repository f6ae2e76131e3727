//! Casts that mean what they mean in DuckDB and PostgreSQL.
//!
//! A fraction is rounded where the engine would cut it off: `CAST(3.7 AS INTEGER)` is 4, as it is
//! when 3.7 is stored in a column of whole numbers; and so on
//! ([`prepare`](crate::sql::write::prepare)). [`wrapped`] puts a function around what is cast, and
//! one around the cast where it must be [`kept`]; the cast itself stays the engine's.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use super::kept;
use crate::sql::type_names::sql_name;
use crate::sql::write::prepare::{prepared, prepared_type};

/// Whether an expression is a cast, which may need preparation.
pub(super) fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_))
}

/// The cast of a prepared value; `None` when it is right as it is.
pub(super) fn wrapped(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (inner, field, safe) = match expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field, false),
        Expr::TryCast(cast) => (&cast.expr, &cast.field, true),
        _ => return Ok(None),
    };
    let (from, to) = (inner.get_type(schema)?, field.data_type());
    if from.is_numeric() && to.is_binary() {
        return plan_err!("{} cannot be cast to {}", sql_name(&from), sql_name(to));
    }
    let prepared = prepared_type(&from, to);
    let concerned = kept::is_concerned(prepared.as_ref().unwrap_or(&from), to, safe);
    let concerned = concerned && !is_sound_constant(inner, to);
    if prepared.is_none() {
        return Ok(concerned.then(|| kept::kept(expr.clone())));
    }
    let call = ScalarFunction::new_udf(function(to, safe), vec![inner.as_ref().clone()]);
    let expr = Box::new(Expr::ScalarFunction(call));
    let field = Arc::clone(field);
    let cast = match safe {
        true => Expr::TryCast(TryCast { expr, field }),
        false => Expr::Cast(Cast { expr, field }),
    };
    Ok(Some(if concerned { kept::kept(cast) } else { cast }))
}

/// Whether this is a constant that can be cast: others look for such.
fn is_sound_constant(expr: &Expr, to: &DataType) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.cast_to(to).is_ok())
}

fn function(to: &DataType, safe: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Prepare { to: to.clone(), safe, signature }))
}

/// Prepares what is cast to a type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Prepare {
    to: DataType,
    safe: bool,
    signature: Signature,
}

impl Prepare {
    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(prepared(array, &self.to, self.safe)?)
    }
}

impl ScalarUDFImpl for Prepare {
    fn name(&self) -> &str {
        match &self.to {
            to if to.is_integer() => "rounded",
            to if to.is_string() => "text_of",
            _ => "prepared",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return plan_err!("{} takes one value", self.name()) };
        Ok(prepared_type(given, &self.to).unwrap_or_else(|| given.clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.apply(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = self.apply(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    /// Rounding keeps the order, and so does the text of timestamps but for years beyond 9999.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [input] if self.to.is_integer() => input.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}
