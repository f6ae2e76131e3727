//! Finding the subqueries that the query engine leaves, and putting joins in their place.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::check_subquery_expr;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, Filter, Join, JoinType, LogicalPlan, Projection, Sort, Subquery,
    SubqueryAlias,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::analyze::decorrelate::attach::{Rows, relation};
use crate::analyze::decorrelate::by_engine::{SubquerySite, leaves_row_out, pulls_up, subquery_of};
use crate::analyze::decorrelate::join_conditions;
use crate::analyze::decorrelate::outer_references::references;
use crate::nodes::expressions::{any_node, any_part};

/// The analyzer rule. Behind the engine's own, for types must be settled, and before those that
/// look at comparisons.
#[derive(Debug)]
pub(crate) struct DependentJoins;

impl AnalyzerRule for DependentJoins {
    fn name(&self) -> &str {
        "dependent_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let has_any = |node: &LogicalPlan| match node {
            LogicalPlan::Join(join) if lateral_of(&join.right).is_some() => true,
            node => has_subquery(node),
        };
        if !any_node(&plan, has_any)? {
            return Ok(plan);
        }
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => unnest_lateral(join)?.transform_data(unnest_expressions),
            node => unnest_expressions(node),
        });
        plan.data()
    }
}

/// The subquery of a LATERAL.
fn lateral_of(right: &LogicalPlan) -> Option<&Subquery> {
    match right {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a LATERAL refers to the rows outside from a side of a join whose columns do not come out
/// of it. The engine looks for that in the subqueries of expressions only.
fn refers_where_joins_hide(join: &Join, subquery: &Subquery) -> bool {
    let rows = Expr::Exists(Exists::new(subquery.clone(), false));
    check_subquery_expr(&LogicalPlan::Join(join.clone()), &subquery.subquery, &rows).is_err()
}

fn unnest_lateral(join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(subquery) = lateral_of(&join.right) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let outer = references(&subquery.subquery)?;
    let beyond = outer.iter().any(|(_, column)| !join.left.schema().has_column(column));
    let pull = PullUpCorrelatedExpr::new().with_need_handle_count_bug(true);
    let joins = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let is_left = beyond
        || refers_where_joins_hide(&join, subquery)
        || leaves_row_out(&subquery.subquery)
        || !pulls_up(subquery, pull)?;
    if outer.is_empty() || !joins || !is_left {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let mut rows = Rows::new(join.left.as_ref().clone());
    rows.lateral(subquery, &join)?;
    Ok(Transformed::yes(with_columns(rows.plan, &join.schema)?))
}

fn has_subquery(node: &LogicalPlan) -> bool {
    any_part(node, |part| subquery_of(part).is_some())
}

/// A node without the subqueries in its expressions that the engine leaves.
fn unnest_expressions(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_subquery(&node) {
        return Ok(Transformed::no(node));
    }
    let node = match refreshed(node)? {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            LogicalPlan::Filter(above(join)?)
        }
        LogicalPlan::Join(join) => {
            let schema = Arc::clone(&join.schema);
            let join = LogicalPlan::Join(join_conditions::unnest(join)?);
            return Ok(Transformed::yes(with_columns(join, &schema)?));
        }
        other => other,
    };
    let scope = merge_schema(&node.inputs());
    for expr in node.expressions() {
        for whole in &conditions(&node, &expr) {
            let place = SubquerySite { node: &node, scope: &scope, whole };
            if whole.exists(|part| place.is_left(part))? {
                return Ok(Transformed::yes(unnest_left(node)?));
            }
        }
    }
    Ok(Transformed::yes(node))
}

/// The conditions that are to hold together, of an expression of a node that is one.
fn conditions(node: &LogicalPlan, expr: &Expr) -> Vec<Expr> {
    match node {
        LogicalPlan::Filter(_) => split_conjunction(expr).into_iter().cloned().collect(),
        _ => vec![expr.clone()],
    }
}

/// A node whose subqueries know what they refer to now, after those inside them were unnested.
fn refreshed(node: LogicalPlan) -> Result<LogicalPlan> {
    let changed = node.map_expressions(|expr| {
        expr.transform_up(|mut part| {
            let subquery = match &mut part {
                Expr::ScalarSubquery(subquery) => subquery,
                Expr::InSubquery(membership) => &mut membership.subquery,
                Expr::Exists(exists) => &mut exists.subquery,
                _ => return Ok(Transformed::no(part)),
            };
            let outer = references(&subquery.subquery)?.into_iter();
            subquery.outer_ref_columns =
                outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
            Ok(Transformed::yes(part))
        })
    });
    changed.data()
}

fn unnest_left(node: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(node.schema());
    let (node, input) = match node {
        LogicalPlan::Sort(sort) if refers_below(&sort)? => return sorted_by_columns(sort),
        LogicalPlan::Filter(filter) => filtered_first(filter)?,
        other => {
            let [input] = other.inputs()[..] else { return Ok(other) };
            let input = input.clone();
            (other, input)
        }
    };
    let scope = Arc::clone(input.schema());
    let mut rows = Rows::new(input);
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let mut unnested = Vec::new();
        for whole in &conditions(&node, &expr) {
            let place = SubquerySite { node: &node, scope: &scope, whole };
            unnested
                .push(whole.clone().transform_up(|part| unnest(part, &place, &mut rows)).data()?);
        }
        exprs.extend(unnested.into_iter().reduce(Expr::and).map(|expr| name.restore(expr)));
    }
    with_columns(with_exprs(node, exprs, rows.plan)?, &schema)
}

/// The node with other expressions and another input. The engine panics where DISTINCT ON has an
/// order.
fn with_exprs(node: LogicalPlan, exprs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Distinct(Distinct::On(distinct)) = node else {
        return node.with_new_exprs(exprs, vec![input]);
    };
    let mut exprs = exprs.into_iter();
    let on: Vec<Expr> = exprs.by_ref().take(distinct.on_expr.len()).collect();
    let columns = exprs.by_ref().take(distinct.select_expr.len()).collect();
    let order = distinct.sort_expr.map(|order| {
        // It begins with what is to be distinct.
        let keys = on.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let asked = order.into_iter().zip(exprs).zip(keys);
        asked.map(|((sort, expr), key)| sort.with_expr(key.unwrap_or(expr))).collect()
    });
    let distinct = DistinctOn::try_new(on, columns, order, Arc::new(input))?;
    Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
}

/// What is in place of a part of an expression of a node that reads `rows`.
fn unnest(part: Expr, place: &SubquerySite<'_>, rows: &mut Rows) -> Result<Transformed<Expr>> {
    if !place.is_left(&part)? {
        return Ok(Transformed::no(part));
    }
    if let Some(instead) = place.instead(&part)? {
        return Ok(Transformed::yes(instead));
    }
    // A condition that is unknown of a row keeps it out, as one that is false.
    let is_condition = matches!(place.node, LogicalPlan::Filter(_)) && *place.whole == part;
    rows.result_of(part, is_condition)
}

/// An inner join whose condition is asked above it.
fn above(mut join: Join) -> Result<Filter> {
    let condition = join.filter.take().unwrap_or_else(|| datafusion::logical_expr::lit(true));
    Filter::try_new(condition, Arc::new(LogicalPlan::Join(join)))
}

/// The conditions that hold subqueries, and what they filter: rows that the other conditions leave.
fn filtered_first(filter: Filter) -> Result<(LogicalPlan, LogicalPlan)> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for part in split_conjunction(&filter.predicate) {
        let holds = part.exists(|part| Ok(subquery_of(part).is_some()))?;
        if holds { &mut with } else { &mut without }.push(part.clone());
    }
    let input = match conjunction(without) {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, filter.input)?),
        None => Arc::unwrap_or_clone(filter.input),
    };
    let condition = conjunction(with).unwrap_or(filter.predicate);
    let node = Filter::try_new(condition, Arc::new(input.clone()))?;
    Ok((LogicalPlan::Filter(node), input))
}

/// Whether a sort is by subqueries that refer to what its input leaves out.
fn refers_below(sort: &Sort) -> Result<bool> {
    let LogicalPlan::Projection(list) = sort.input.as_ref() else { return Ok(false) };
    for by in &sort.expr {
        let is_below = by.expr.exists(|part| {
            let Some(subquery) = subquery_of(part) else { return Ok(false) };
            let outer = references(&subquery.subquery)?;
            let below = list.input.schema();
            Ok(outer
                .iter()
                .any(|(_, column)| !list.schema.has_column(column) && below.has_column(column)))
        })?;
        if is_below {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A sort by columns that its input computes as well.
fn sorted_by_columns(mut sort: Sort) -> Result<LogicalPlan> {
    let schema = Arc::clone(sort.input.schema());
    let LogicalPlan::Projection(list) = sort.input.as_ref() else {
        return Ok(LogicalPlan::Sort(sort));
    };
    let mut columns = list.expr.clone();
    let below = Arc::clone(&list.input);
    for by in &mut sort.expr {
        if by.expr.exists(|part| Ok(subquery_of(part).is_some()))? {
            let name = relation("order").to_string();
            let expr = std::mem::replace(&mut by.expr, Expr::Column(name.as_str().into()));
            columns.push(expr.alias(name));
        }
    }
    let list = LogicalPlan::Projection(Projection::try_new(columns, below)?);
    sort.input = Arc::new(unnest_expressions(list)?.data);
    with_columns(LogicalPlan::Sort(sort), &schema)
}

/// A plan with just the columns of a schema.
fn with_columns(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let columns = schema.columns();
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
