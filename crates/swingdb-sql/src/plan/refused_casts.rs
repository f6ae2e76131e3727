//! Casts that nobody may ask for: numbers to dates and the like, also inside of lists. And patterns
//! of LIKE that end with what makes the next character plain, and LIKE of lists.
//!
//! CAST is an error before the statement runs, TRY_CAST gives NULL in place of such values. Casts
//! that the engine or a later rewrite puts into a plan are not concerned: these know what they do.
//!
//! `cast_to_type(x, y)` and `arrow_cast(x, 'Int64')` are casts from here on. The engine makes casts
//! of them in its optimizer, where nothing rounds any more, or asks for the session's time zone.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Like, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility, cast, try_cast,
};
use swingdb_common::cast::refused::{erased, erased_type, refused};
use swingdb_common::types::sql_names::sql_name;
use swingdb_common::uuid;
use swingdb_functions::json::marks;
use swingdb_functions::json::to_json::{as_json, unmarked};
use swingdb_functions::text::uuids::as_uuid_or_null;

use crate::plan::uuid_places;
use crate::plan::uuid_places::UUID;

/// Whether this is a cast, or has a pattern.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_) | Expr::Like(_)) || call(expr).is_some()
}

/// A function that casts to the type of another expression, or to the one that a text names.
fn call(expr: &Expr) -> Option<(&str, &Expr, &Expr)> {
    const CASTS: [&str; 4] = ["cast_to_type", "try_cast_to_type", "arrow_cast", "arrow_try_cast"];
    let Expr::ScalarFunction(call) = expr else { return None };
    match call.args.as_slice() {
        [value, to] if CASTS.contains(&call.name()) => Some((call.name(), value, to)),
        _ => None,
    }
}

/// The cast that such a call stands for.
fn as_cast(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Some((name, value, to)) = call(&expr) else { return Transformed::no(expr) };
    let safe = name.contains("try");
    let is_named = name.starts_with("arrow");
    let wanted = match is_named {
        true => type_named(to).map(|named| Arc::new(Field::new("", named, true))),
        false => to.to_field(schema).ok().map(|(_, field)| field),
    };
    // Where a part has no type yet, or the name is none, the engine will say so.
    let (Ok((_, from)), Some(wanted)) = (value.to_field(schema), wanted) else {
        return Transformed::no(expr);
    };
    let (from_type, to_type) = (from.data_type(), wanted.data_type());
    let marks = |field: &Field| (uuid::is_marked(field), marks::is_marked(field));
    let is_plain = marks(&from) == (false, false);
    let value = if is_plain { value.clone() } else { unmarked(value.clone()) };
    let is_uuid = !is_named && uuid_places::places(to, schema).as_deref() == Some(UUID);
    Transformed::yes(match marks(&wanted) {
        _ if is_uuid => as_uuid_or_null(value, safe),
        (true, _) => as_uuid_or_null(value, safe),
        (_, true) => as_json(value, safe),
        _ if from_type == to_type => value,
        _ if safe => try_cast(value, to_type.clone()),
        _ => cast(value, to_type.clone()),
    })
}

/// The Arrow type that a constant text names.
fn type_named(text: &Expr) -> Option<DataType> {
    let Expr::Literal(text, _) = text else { return None };
    text.try_as_str().flatten()?.parse().ok()
}

/// Refuses a pattern whose last character says that the next one is plain.
fn check_pattern(like: &Like) -> Result<()> {
    let Like { pattern, escape_char: Some(escape), .. } = like else { return Ok(()) };
    let Expr::Literal(value, _) = pattern.as_ref() else { return Ok(()) };
    let mut rest = value.try_as_str().flatten().unwrap_or_default().chars();
    while let Some(char) = rest.next() {
        if char == *escape && rest.next().is_none() {
            return plan_err!("a pattern of LIKE that ends with its ESCAPE character {escape:?}");
        }
    }
    Ok(())
}

/// Refuses lists and the like beside LIKE: a later step could not say what they are.
fn check_texts(like: &Like, schema: &DFSchema) -> Result<()> {
    for side in [&like.expr, &like.pattern] {
        let Ok(given) = side.get_type(schema) else { continue };
        if given.is_nested() {
            let operator = if like.case_insensitive { "ILIKE" } else { "LIKE" };
            let given = sql_name(&given);
            return plan_err!("{operator} takes texts, not {given}; cast it, or look at its parts");
        }
    }
    Ok(())
}

/// The cast without what cannot be converted.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    as_cast(expr, schema).transform_data(|expr| without_refused(expr, schema))
}

fn without_refused(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, field) = match &expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        Expr::Like(like) => {
            check_pattern(like)?;
            check_texts(like, schema)?;
            return Ok(Transformed::no(expr));
        }
        _ => return Ok(Transformed::no(expr)),
    };
    // Where a part has no type yet, the engine will say so.
    let Ok(from) = inner.get_type(schema) else { return Ok(Transformed::no(expr)) };
    if !refused(&from, field.data_type()) {
        return Ok(Transformed::no(expr));
    }
    match expr {
        Expr::TryCast(TryCast { expr, field }) => {
            let signature = Signature::any(1, Volatility::Immutable);
            let erase = Erase { to: field.data_type().clone(), signature };
            let expr = Box::new(ScalarUDF::new_from_impl(erase).call(vec![*expr]));
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr, field })))
        }
        Expr::Cast(cast) => {
            let to = sql_name(cast.field.data_type());
            plan_err!("{} cannot be cast to {to}", sql_name(&from))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Values with NULL in place of what cannot be converted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Erase {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Erase {
    fn name(&self) -> &str {
        "erased"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok(erased_type(given, &self.to)),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(erased(array, &self.to)?)),
            [ColumnarValue::Scalar(value)] => {
                let found = erased(&value.to_array()?, &self.to)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?))
            }
            _ => plan_err!("{} takes one value", self.name()),
        }
    }
}
