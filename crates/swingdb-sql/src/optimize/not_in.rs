//! `x [NOT] IN (SELECT ...)` where the query engine's joins do not mean it: [`MEMBERSHIP`].
//!
//! The engine makes an anti join by `x = element` of NOT IN, and counts a NULL among the elements
//! as "unknown" only when `x` is a column and nothing else is in the condition. With a constant `x`
//! it takes unknown for true; with a correlated subquery it takes a NULL of any row for one of this
//! row. A WHERE clause keeps a row exactly when no element is equal *or unknown*, so
//!
//! | this | becomes |
//! |---|---|
//! | `x NOT IN (SELECT e FROM ...)` | `NOT EXISTS (SELECT ... WHERE (e = x) IS NOT FALSE)` |
//! | `x IN (SELECT e FROM ...)` | `EXISTS (SELECT ... WHERE e = x)` |
//! | `x IN (SELECT max(e) FROM ...)` | `x = (SELECT max(e) FROM ...)` |
//! | `EXISTS (SELECT max(e) FROM ...)` | `true`: an aggregate of all rows is one row, always |
//!
//! which the engine joins as it stands; the latter because it cannot plan some of these.
//! Expressions have been simplified when the rule runs, so what can be a constant is one.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use crate::nodes::expressions::{any_node, any_part, is_exactly_one_row};
use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run before subqueries become joins.
pub(crate) const MEMBERSHIP: OwnRule = OwnRule::of_plan("membership", rewrite_filters);

fn rewrite_filters(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_filter = |node: &LogicalPlan| matches!(node, LogicalPlan::Filter(_));
    if !any_node(&plan, |node| is_filter(node) && any_part(node, asks_subquery))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => rewrite_filter(filter),
        other => Ok(Transformed::no(other)),
    })
}

fn asks_subquery(part: &Expr) -> bool {
    matches!(part, Expr::Exists(_) | Expr::InSubquery(_))
}

fn rewrite_filter(mut filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Transformed { data, transformed, .. } = filter.predicate.transform_up(settle_exists)?;
    filter.predicate = data;
    let rewritten = rewrite_memberships(filter)?;
    let transformed = transformed || rewritten.transformed;
    Ok(Transformed::new_transformed(rewritten.data, transformed))
}

/// EXISTS of what is one row whatever the row around it, and of what the engine cannot limit.
fn settle_exists(part: Expr) -> Result<Transformed<Expr>> {
    match part {
        Expr::Exists(exists) if exists.subquery.outer_ref_columns.is_empty() => {
            Ok(Transformed::no(Expr::Exists(exists)))
        }
        Expr::Exists(exists) if is_exactly_one_row(&exists.subquery.subquery) => {
            Ok(Transformed::yes(lit(!exists.negated)))
        }
        Expr::Exists(exists) if skips(&exists.subquery.subquery) => {
            not_impl_err!("OFFSET in a correlated EXISTS")
        }
        other => Ok(Transformed::no(other)),
    }
}

fn skips(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(limit) => limit.skip.is_some(),
        LogicalPlan::Projection(list) => skips(&list.input),
        LogicalPlan::SubqueryAlias(alias) => skips(&alias.input),
        LogicalPlan::Sort(sort) => skips(&sort.input),
        _ => false,
    }
}

fn rewrite_memberships(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let parts = split_conjunction(&filter.predicate);
    if !parts.iter().any(|part| misunderstood(part).is_some()) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let mut rewritten = Vec::with_capacity(parts.len());
    for part in parts {
        rewritten.push(match misunderstood(part) {
            Some((membership, negated)) if is_exactly_one_row(&membership.subquery.subquery) => {
                let one = Expr::ScalarSubquery(membership.subquery.clone());
                let asked = membership.expr.as_ref().clone();
                if negated { asked.not_eq(one) } else { asked.eq(one) }
            }
            Some((membership, negated)) => as_exists(membership, negated, &filter.input)?,
            None => part.clone(),
        });
    }
    let predicate = conjunction(rewritten).unwrap_or_else(|| filter.predicate.clone());
    let filter = Filter::try_new(predicate, filter.input)?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// The membership that a condition asks for, if the engine would get it wrong, and whether it
/// denies it.
fn misunderstood(condition: &Expr) -> Option<(&InSubquery, bool)> {
    let (membership, negated) = match condition {
        Expr::InSubquery(membership) => (membership, membership.negated),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(membership) => (membership, !membership.negated),
            _ => return None,
        },
        _ => return None,
    };
    let correlated = !membership.subquery.outer_ref_columns.is_empty();
    let constant = membership.expr.column_refs().is_empty();
    ((correlated || constant) && !looks_outside(&membership.expr)).then_some((membership, negated))
}

/// Whether an expression holds columns of a query around it, and so cannot move one further in.
fn looks_outside(expr: &Expr) -> bool {
    let outside = expr.exists(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(..) => true,
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            Expr::Exists(_) | Expr::InSubquery(_) => true,
            _ => false,
        })
    });
    outside.unwrap_or(true)
}

fn as_exists(membership: &InSubquery, negated: bool, input: &LogicalPlan) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = &membership.subquery;
    let mut outer_ref_columns = outer_ref_columns.clone();
    let asked = membership.expr.as_ref().clone().transform(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(input.schema().field_from_column(&column)?);
            let outer = Expr::OuterReferenceColumn(field, column);
            if !outer_ref_columns.contains(&outer) {
                outer_ref_columns.push(outer.clone());
            }
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    // Which columns a subquery of EXISTS has does not matter: its SELECT list, with names that may
    // clash with those of correlated columns, becomes a constant.
    let (element, rows) = match subquery.as_ref() {
        LogicalPlan::Projection(list) if list.expr.len() == 1 => {
            (list.expr[0].clone().unalias_nested().data, &list.input)
        }
        _ => (Expr::Column(subquery.schema().qualified_field(0).into()), subquery),
    };
    let equal = element.eq(asked.data);
    let found = if negated { Expr::IsNotFalse(Box::new(equal)) } else { equal };
    // The condition joins the subquery's own: the engine looks for columns of the query around it
    // in one filter below a SELECT list.
    let filter = match rows.as_ref() {
        LogicalPlan::Filter(own) => {
            Filter::try_new(own.predicate.clone().and(found), Arc::clone(&own.input))?
        }
        _ => Filter::try_new(found, Arc::clone(rows))?,
    };
    let filtered = LogicalPlanBuilder::from(LogicalPlan::Filter(filter));
    let rows = filtered.project([lit(true)])?.build()?;
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: spans.clone() };
    Ok(Expr::Exists(Exists { subquery, negated }))
}
