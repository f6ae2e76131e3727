//! GROUP BY, DISTINCT and recursive UNION of keys that can be equal and differ in bits.
//!
//! Equal numbers become the same before. Intervals are grouped by their length; a group shows one
//! of its intervals, and not another of the same length: `30 days` are no `1 month` to a date.
//!
//! Where a table is in the order of a key, the engine takes the groups of ROLLUP and the like for
//! ordered too, whose NULLs are not. So their keys are put into a function that hides the order.

use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, ScalarUDF,
};
use swingdb_functions::keys::intervals::interval_length;
use swingdb_functions::keys::same_bits::{call, of_key, same_bits};

use crate::analyze::equality::keys::{is_interval_of, is_key};

/// `first`: for the first time.
pub(crate) fn group(aggregate: Aggregate, first: bool) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let mut changed = false;
    let group = aggregate.group_expr.iter().cloned().map(|expr| match expr {
        Expr::GroupingSet(set) => {
            changed |= first;
            Expr::GroupingSet(each_key(set, &mut |expr| {
                let key = named_key(expr, &schema, &mut changed);
                if first { in_any_order(key) } else { key }
            }))
        }
        expr => named_key(expr, &schema, &mut changed),
    });
    let group = group.collect::<Vec<_>>();
    let aggregate = match changed {
        true => Aggregate::try_new(aggregate.input, group, aggregate.aggr_expr)?,
        false => aggregate,
    };
    match aggregate.group_expr.iter().any(|expr| is_interval_of(expr, &schema)) {
        true => by_length(aggregate).map(Transformed::yes),
        false => Ok(Transformed::new_transformed(LogicalPlan::Aggregate(aggregate), changed)),
    }
}

/// The set with its keys changed.
pub(crate) fn each_key(set: GroupingSet, change: &mut dyn FnMut(Expr) -> Expr) -> GroupingSet {
    let mut all = |keys: Vec<Expr>| keys.into_iter().map(&mut *change).collect();
    match set {
        GroupingSet::Rollup(keys) => GroupingSet::Rollup(all(keys)),
        GroupingSet::Cube(keys) => GroupingSet::Cube(all(keys)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.into_iter().map(all).collect())
        }
    }
}

/// Groups by the length of intervals, and shows one of each group.
fn by_length(aggregate: Aggregate) -> Result<LogicalPlan> {
    let schema = Arc::clone(aggregate.input.schema());
    let Aggregate { input, group_expr, mut aggr_expr, .. } = aggregate;
    let column = |expr: &Expr| {
        let (relation, name) = expr.qualified_name();
        Expr::Column(Column::new(relation, name))
    };
    let (mut group, mut shown, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
    for expr in group_expr {
        if !is_interval_of(&expr, &schema) {
            shown.push(column(&expr));
            group.push(expr);
            continue;
        }
        let (relation, name) = expr.qualified_name();
        let expr = expr.unalias();
        let interval = first_value(expr.clone(), Vec::new()).alias(format!("one of {name}"));
        shown.push(column(&interval).alias_qualified(relation, &name));
        intervals.push(interval);
        group.push(interval_length(expr).alias(format!("length of {name}")));
    }
    shown.extend(aggr_expr.iter().map(column));
    aggr_expr.extend(intervals);
    let aggregate = Aggregate::try_new(input, group, aggr_expr)?;
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate)).project(shown)?.build()
}

/// DISTINCT of all columns: rows with equal values become the same before.
pub(crate) fn distinct(input: Arc<LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let mut columns = schema.columns().into_iter().map(Expr::Column);
    if columns.any(|column| is_interval_of(&column, &schema)) {
        let columns = schema.columns().into_iter().map(Expr::Column).collect();
        return group(Aggregate::try_new(input, columns, Vec::new())?, false);
    }
    let same = same_rows(input)?;
    Ok(same.update_data(|input| LogicalPlan::Distinct(Distinct::All(input))))
}

/// A recursive UNION, whose rows are told apart by their bits.
pub(crate) fn recursive(mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let first = same_rows(query.static_term)?;
    let others = same_rows(query.recursive_term)?;
    let changed = first.transformed || others.transformed;
    (query.static_term, query.recursive_term) = (first.data, others.data);
    Ok(Transformed::new_transformed(LogicalPlan::RecursiveQuery(query), changed))
}

/// The rows with equal numbers as the same number.
fn same_rows(input: Arc<LogicalPlan>) -> Result<Transformed<Arc<LogicalPlan>>> {
    let schema = Arc::clone(input.schema());
    let mut changed = false;
    let columns = schema.columns().into_iter().map(Expr::Column);
    let columns = columns.map(|column| named_key(column, &schema, &mut changed));
    let columns = columns.collect::<Vec<_>>();
    if !changed {
        return Ok(Transformed::no(input));
    }
    let same = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    Ok(Transformed::yes(Arc::new(same)))
}

/// `any_order(expr)` under the name that the expression had: the same value.
fn in_any_order(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key("any_order", Clone::clone, |array| Ok(Arc::clone(array))));
    let (relation, name) = expr.qualified_name();
    call(&FUNCTION, expr.unalias()).alias_qualified(relation, name)
}

/// The number under the name that the expression had.
fn named_key(expr: Expr, schema: &DFSchema, changed: &mut bool) -> Expr {
    if !is_key(&expr, schema) || is_interval_of(&expr, schema) {
        return expr;
    }
    *changed = true;
    let (relation, name) = expr.qualified_name();
    same_bits(expr.unalias()).alias_qualified(relation, name)
}
