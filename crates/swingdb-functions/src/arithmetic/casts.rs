//! Casts that mean what they mean in DuckDB and PostgreSQL.
//!
//! A fraction is rounded where the engine would cut it off: `CAST(3.7 AS INTEGER)` is 4, as it is
//! when 3.7 is stored in a column of whole numbers; and so on
//! (`swingdb_common::cast::normalize`). [`wrapped`] puts a function around what is cast, and
//! one around the cast where it must be [`kept`]; the cast itself stays the engine's. JSON that is
//! cast to a list, struct or map is read as JSON.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, TryCast};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use swingdb_common::cast::normalize::{is_nested, prepared, prepared_type};
use swingdb_common::time::zones::{Zone, in_zone};
use swingdb_common::types::sql_names::sql_name;

use super::kept;
use super::prepared::{Prepare, Preparing, preparing};
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
