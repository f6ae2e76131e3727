//! Casts that mean what they mean in DuckDB and PostgreSQL.
//!
//! A fraction is rounded where the engine would cut it off: `CAST(3.7 AS INTEGER)` is 4, as it is
//! when 3.7 is stored in a column of whole numbers; and so on
//! (`swingdb_common::cast::normalize`). [`wrapped`] puts a function around what is cast, and
//! one around the cast where it must be [`kept`]; the cast itself stays the engine's. JSON that is
//! cast to a list, struct or map is read as JSON.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use swingdb_common::cast::normalize::{is_nested, prepared, prepared_type, read_json};
use swingdb_common::time::zones::{Zone, in_zone, shown_in};
use swingdb_common::types::sql_names::sql_name;

use super::kept;
use super::types::type_of;
use crate::json::marks::is_marked;

/// Whether an expression is a cast, which may need preparation.
pub fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_))
}

/// The cast of a prepared value; `None` when it is right as it is.
pub fn wrapped(expr: &Expr, schema: &DFSchema, zone: Zone) -> Result<Option<Expr>> {
    let (inner, field, safe) = match expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field, false),
        Expr::TryCast(cast) => (&cast.expr, &cast.field, true),
        _ => return Ok(None),
    };
    let (from, to) = (type_of(inner, schema)?, field.data_type());
    if from.is_numeric() && to.is_binary() {
        return plan_err!("{} cannot be cast to {}", sql_name(&from), sql_name(to));
    }
    if from.is_string() && is_nested(to) && is_marked(inner.to_field(schema)?.1.as_ref()) {
        return Ok(Some(prepare(inner.as_ref().clone(), to, (safe, zone), true)));
    }
    let prepared = prepared_type(&in_zone(&from, zone), &in_zone(to, zone));
    let concerned = kept::is_concerned(prepared.as_ref().unwrap_or(&from), to, safe);
    let concerned = concerned && !is_sound_constant(inner, to);
    if prepared.is_none() {
        return Ok(concerned.then(|| kept::kept(expr.clone())));
    }
    if let Some(number) = nearest_number(inner, to) {
        return Ok(Some(number));
    }
    let expr = Box::new(prepare(inner.as_ref().clone(), to, (safe, zone), false));
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

/// Whether an expression is the floating point number nearest to a decimal.
pub fn is_nearest_number(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    let function: &dyn Any = call.func.inner().as_ref();
    function.downcast_ref::<Prepare>().is_some_and(|function| function.to.is_floating())
        && call.args.iter().all(|arg| arg.get_type(schema).is_ok_and(|given| given.is_decimal()))
}

/// The decimal to which an expression is the nearest number of 64 bits.
pub fn decimal_nearest_to<'a>(
    expr: &'a Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Option<&'a Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function: &dyn Any = call.fun().inner().as_ref();
    let [decimal] = call.args() else { return None };
    let is_nearest = function.downcast_ref::<Prepare>()?.to == DataType::Float64
        && decimal.data_type(schema).ok()?.is_decimal();
    is_nearest.then_some(decimal)
}

/// The floating point number of a decimal that is written: others look for such.
fn nearest_number(expr: &Expr, to: &DataType) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let is_float = matches!(to, DataType::Float32 | DataType::Float64);
    if !is_float || !value.data_type().is_decimal() {
        return None;
    }
    let number = prepared(&value.to_array().ok()?, to, false).ok()?;
    Some(Expr::Literal(ScalarValue::try_from_array(&number, 0).ok()?, metadata.clone()))
}

fn prepare(expr: Expr, to: &DataType, (safe, zone): (bool, Zone), json: bool) -> Expr {
    preparing(&Preparing { to: to.clone(), safe, zone, json }).call(vec![expr])
}

/// What makes a function that prepares what is cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparing {
    /// The type of the cast.
    pub to: DataType,
    /// Whether it is a TRY_CAST.
    pub safe: bool,
    /// The zone of the session.
    pub zone: Zone,
    /// Whether what is cast are texts that are JSON.
    pub json: bool,
}

/// The function that prepares what is cast.
pub fn preparing(of: &Preparing) -> ScalarUDF {
    ScalarUDF::new_from_impl(Prepare::new(of.clone()))
}

/// What makes a function, if it is one of [`preparing`].
pub fn preparing_of(function: &ScalarUDF) -> Option<Preparing> {
    let function: &dyn Any = function.inner().as_ref();
    let Prepare { to, safe, zone, json, .. } = function.downcast_ref::<Prepare>()?;
    Some(Preparing { to: to.clone(), safe: *safe, zone: *zone, json: *json })
}

/// Prepares what is cast to a type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Prepare {
    to: DataType,
    safe: bool,
    /// Of the session.
    zone: Zone,
    /// What is cast are texts that are JSON.
    json: bool,
    /// Has all of this: plans name functions, and one name means one function.
    name: String,
    signature: Signature,
}

impl Prepare {
    fn new(Preparing { to, safe, zone, json }: Preparing) -> Self {
        let what = match &to {
            _ if json => "from_json",
            to if to.is_integer() => "rounded",
            to if to.is_string() => "text_of",
            _ => "prepared",
        };
        let safe_or_not = if safe { " or NULL" } else { "" };
        let name = format!("{what}[{to}{safe_or_not}, {zone}]");
        Self { to, safe, zone, json, name, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let to = in_zone(&self.to, self.zone);
        if !self.json {
            return Ok(prepared(&shown_in(array, self.zone)?, &to, self.safe)?);
        }
        let texts = cast(array, &DataType::Utf8View)?;
        let read = read_json(texts.as_string_view(), &to, self.safe)?;
        // Only the names of zones differ.
        Ok(if to == self.to { read } else { cast(&read, &self.to)? })
    }
}

impl ScalarUDFImpl for Prepare {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return plan_err!("{} takes one value", self.name()) };
        Ok(match self.json {
            true => self.to.clone(),
            false => {
                let given = in_zone(given, self.zone);
                prepared_type(&given, &in_zone(&self.to, self.zone)).unwrap_or(given)
            }
        })
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
            [input] if self.to.is_numeric() => input.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}
