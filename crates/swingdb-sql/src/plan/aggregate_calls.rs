//! The arguments and the order of an aggregate, settled when the call is planned.
//!
//! An order only counts where the answer depends on it: `sum(x ORDER BY y)` is `sum(x)`, so no rows
//! are sorted. Duplicate ORDER BY keys are dropped; the engine rejects them. An untyped NULL gets a
//! type that the aggregate knows.
//!
//! The engine's signatures of some functions are wider than the functions: `count(a, b)` would
//! count rows without NULLs, `first_value(a, b)` would drop `b`. [`TAKEN`] has their numbers of
//! arguments. All other functions are checked by their signatures.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawWindowExpr,
};
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr, WindowFunctionDefinition};
use swingdb_functions::aggregates::given::is_given;
use swingdb_functions::aggregates::recomputed::in_moving_frames;

/// Aggregates whose answers depend on the order of the rows; those of programs may.
const IN_ORDER: &[&str] =
    &["first_value", "last_value", "nth_value", "array_agg", "string_agg", "mode"];

/// How many values a function takes whose signature says more. `count()` is `count(*)`.
const TAKEN: &[(&str, RangeInclusive<usize>)] =
    &[("count", 0..=1), ("first_value", 1..=1), ("last_value", 1..=1), ("nth_value", 2..=2)];

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Aggregates;

impl ExprPlanner for Aggregates {
    fn plan_aggregate(
        &self,
        mut call: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        check_count(call.func.name(), call.args.len())?;
        if IN_ORDER.contains(&call.func.name()) || is_given(&call.func) {
            without_repeated(&mut call.order_by);
        } else if !call.func.supports_within_group_clause() {
            call.order_by.clear();
        }
        give_types(&call.func, &mut call.args);
        Ok(PlannerResult::Original(call))
    }

    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        check_count(call.func_def.name(), call.args.len())?;
        if let WindowFunctionDefinition::AggregateUDF(function) = &call.func_def {
            give_types(function, &mut call.args);
            if !is_given(function) && !call.window_frame.start_bound.is_unbounded() {
                let moving = in_moving_frames(Arc::clone(function), call.distinct);
                call.func_def = WindowFunctionDefinition::AggregateUDF(moving);
            }
        }
        Ok(PlannerResult::Original(call))
    }
}

fn check_count(name: &str, given: usize) -> Result<()> {
    let Some((_, taken)) = TAKEN.iter().find(|(known, _)| *known == name) else { return Ok(()) };
    if taken.contains(&given) {
        return Ok(());
    }
    let most = taken.end();
    let plural = if *most == 1 { "" } else { "s" };
    let instead = match name {
        "count" => "; write count((a, b)) to count rows of values",
        _ => "",
    };
    plan_err!("{name}(...) takes {most} argument{plural}, and has {given} here{instead}")
}

fn without_repeated(order: &mut Vec<SortExpr>) {
    let mut known: Vec<Expr> = Vec::with_capacity(order.len());
    order.retain(|key| {
        let is_new = !known.contains(&key.expr);
        known.extend(is_new.then(|| key.expr.clone()));
        is_new
    });
}

/// A NULL that is written as a value: the engine does not know which NULL is meant.
fn give_types(function: &AggregateUDF, args: &mut [Expr]) {
    if is_given(function) {
        return;
    }
    let typed = match function.name() {
        "bool_and" | "bool_or" => ScalarValue::Boolean(None),
        "sum" | "bit_and" | "bit_or" | "bit_xor" | "histogram" => ScalarValue::Int64(None),
        "string_agg" => ScalarValue::Utf8(None),
        "count" | "min" | "max" | "grouping" => return,
        name if IN_ORDER.contains(&name) || name == "any_value" => return,
        _ => ScalarValue::Float64(None),
    };
    if let Some(value) = args.first_mut()
        && matches!(value, Expr::Literal(ScalarValue::Null, _))
    {
        *value = Expr::Literal(typed, None);
    }
}
