//! Functions and sums of points in time go by the clock of the session's time zone.
//!
//! A TIMESTAMPTZ has the type `Timestamp(_, "UTC")`, so the engine takes parts of it, truncates it
//! and adds days to it by the clock of UTC. [`zoned`] changes what such an expression is about:
//!
//! | expression | becomes |
//! |---|---|
//! | `date_part('hour', x)` and the like | the same of `CAST(x AS TIMESTAMP)` |
//! | `date_trunc('day', x)` and the like | the same of `x` with the zone in its type |
//! | `x + INTERVAL '1 day'` | [`later`] of `x` with the zone in its type |
//!
//! Casts themselves are prepared by [`checked`](swingdb_functions::arithmetic::checked), which
//! comes behind. Where the session has the zone UTC, and so has the type, nothing changes.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};
use swingdb_common::time::zones::{Zone, in_zone};
use swingdb_functions::arithmetic::types::type_of;
use swingdb_functions::time::zones::later;

use crate::nodes::expressions::rewrite_parts;

/// Functions of what the clock shows.
const OF_CLOCKS: &[&str] = &[
    "age",
    "century",
    "date_part",
    "decade",
    "era",
    "millennium",
    "to_date",
    "to_time",
    "yearweek",
];

/// Functions of points in time that look at the zone in their type.
const IN_ZONES: &[&str] = &[
    "array_to_json",
    "concat",
    "concat_ws",
    "date_bin",
    "date_diff",
    "date_sub",
    "date_trunc",
    "format",
    "generate_series",
    "json_array",
    "json_object",
    "printf",
    "range",
    "row_to_json",
    "strftime",
    "to_char",
    "to_json",
    "to_local_time",
    "zone_offset",
];

/// What has buckets of UTC, unless it names a zone.
const OF_UTC: &str = "time_bucket";

/// The node with expressions by the clock of the zone. For when types are settled, and before casts
/// are prepared.
pub(crate) fn zoned(node: LogicalPlan, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(node, is_concerned, |expr, schema| rewrite(expr, schema, zone))
}

/// The expression by the clock of the zone; its types must be settled.
pub(crate) fn zoned_expr(expr: Expr, schema: &DFSchema, zone: Zone) -> Result<Expr> {
    Ok(expr.transform_up(|part| rewrite(part, schema, zone))?.data)
}

fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Plus | Operator::Minus),
        Expr::ScalarFunction(call) => {
            let name = call.name();
            OF_CLOCKS.contains(&name) || IN_ZONES.contains(&name) || name == OF_UTC
        }
        _ => false,
    }
}

fn rewrite(expr: Expr, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(sum) if matches!(sum.op, Operator::Plus | Operator::Minus) => {
            moved(sum, schema, zone)
        }
        Expr::ScalarFunction(call) if OF_CLOCKS.contains(&call.name()) => {
            of_clock(call, schema, zone)
        }
        Expr::ScalarFunction(call) if IN_ZONES.contains(&call.name()) => {
            in_zones(call, schema, zone)
        }
        Expr::ScalarFunction(call) if call.name() == OF_UTC => in_zones(call, schema, Zone::UTC),
        other => Ok(Transformed::no(other)),
    }
}

/// Whether values of a type are points in time that another clock shows than the engine thinks.
fn is_shown(data_type: &DataType, zone: Zone) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_))) && !zone.is_of(data_type)
}

/// The sum of a point in time and an interval.
fn moved(sum: BinaryExpr, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    let types = (type_of(&sum.left, schema)?, type_of(&sum.right, schema)?);
    let (given, point, interval) = match types {
        (given, DataType::Interval(_)) if is_shown(&given, zone) => (given, sum.left, sum.right),
        (DataType::Interval(_), given) if is_shown(&given, zone) => (given, sum.right, sum.left),
        _ => return Ok(Transformed::no(Expr::BinaryExpr(sum))),
    };
    let shown = cast(*point, in_zone(&given, zone));
    let moved = later(shown, *interval, sum.op == Operator::Minus);
    Ok(Transformed::yes(cast(moved, given)))
}

/// The function of what the clock shows.
fn of_clock(mut call: ScalarFunction, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    let mut changed = false;
    if is_epoch(&call) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    for arg in &mut call.args {
        let given = arg.get_type(schema)?;
        if let DataType::Timestamp(unit, Some(_)) = given
            && is_shown(&given, zone)
        {
            *arg = cast(std::mem::take(arg), DataType::Timestamp(unit, None));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}

/// Whether this asks for the seconds since 1970, which no clock changes.
fn is_epoch(call: &ScalarFunction) -> bool {
    let part = match call.args.first() {
        Some(Expr::Literal(part, _)) if call.name() == "date_part" => part.try_as_str().flatten(),
        _ => None,
    };
    part.is_some_and(|part| part.trim_matches('"').eq_ignore_ascii_case("epoch"))
}

/// The function of points in time with the zone in their type; its result without.
fn in_zones(mut call: ScalarFunction, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    let mut types = Vec::with_capacity(call.args.len());
    for arg in &call.args {
        types.push(arg.get_type(schema)?);
    }
    let shown = types.iter().map(|given| in_zone(given, zone)).collect::<Vec<_>>();
    if shown == types {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let returned = Expr::ScalarFunction(call.clone()).get_type(schema)?;
    for ((arg, given), shown) in call.args.iter_mut().zip(types).zip(shown) {
        if given != shown {
            *arg = cast(std::mem::take(arg), shown);
        }
    }
    let call = Expr::ScalarFunction(call);
    let same = call.get_type(schema)? == returned;
    Ok(Transformed::yes(if same { call } else { cast(call, returned) }))
}
