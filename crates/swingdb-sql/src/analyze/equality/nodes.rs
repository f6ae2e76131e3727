//! Keys of plan nodes: of groups, DISTINCT, joins and sorts.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, Join, LogicalPlan, cast,
};
use swingdb_functions::keys::nested;

use crate::analyze::equality::groups;
use crate::analyze::equality::keys::{set_key, set_sort_key, set_sort_keys};

pub(super) fn settle(plan: LogicalPlan, first: bool) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => groups::group(aggregate, first)?,
        LogicalPlan::Distinct(Distinct::All(input)) => groups::distinct(input)?,
        LogicalPlan::Distinct(Distinct::On(on)) => distinct_on(on),
        LogicalPlan::Join(join) => joined(join),
        LogicalPlan::RecursiveQuery(query) if first && query.is_distinct => {
            groups::recursive(query)?
        }
        LogicalPlan::Sort(mut sort) => {
            let changed = set_sort_keys(&mut sort.expr, sort.input.schema());
            Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
        }
        other => Transformed::no(other),
    })
}

fn distinct_on(mut on: DistinctOn) -> Transformed<LogicalPlan> {
    let schema = Arc::clone(on.input.schema());
    let mut changed =
        on.on_expr.iter_mut().fold(false, |changed, expr| set_sort_key(expr, &schema) | changed);
    if let Some(sort) = &mut on.sort_expr {
        changed |= set_sort_keys(sort, &schema);
        changed |= without_repeats(sort, |sort| &sort.expr);
    }
    changed |= without_repeats(&mut on.on_expr, |key| key);
    Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed)
}

/// Removes repeated keys, which change nothing: the engine panics where they are in
/// DISTINCT ON. Whether there were any.
fn without_repeats<T>(keys: &mut Vec<T>, of: impl Fn(&T) -> &Expr) -> bool {
    let mut seen = HashSet::new();
    let all = keys.len();
    keys.retain(|key| seen.insert(of(key).clone()));
    keys.len() < all
}

fn joined(mut join: Join) -> Transformed<LogicalPlan> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        changed |= set_key(one, &left);
        changed |= set_key(other, &right);
        changed |= nested::settle((one, &left), (other, &right));
        // The engine's joins find no NULL in columns of nothing but NULL, not even where NULLs are
        // equal.
        if is_nothing(one, &left) && is_nothing(other, &right) {
            *one = cast(std::mem::take(one), DataType::Boolean);
            *other = cast(std::mem::take(other), DataType::Boolean);
            changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

fn is_nothing(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| given.is_null())
}
