//! What of subqueries the query engine makes joins of itself, and makes them right.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::expr_fn::{array_agg, count};
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::logical_plan::{FetchType, SkipType, check_subquery_expr};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, JoinType, Limit, LogicalPlan, Operator, SortExpr,
    Subquery, lit,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::analyze::decorrelate::only_element::only_element;
use crate::analyze::decorrelate::outer_references::references;
use crate::nodes::expressions::is_exactly_one_row;
use crate::plan::materialized_parts;

/// The subquery of an expression that is one.
pub(crate) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::InSubquery(membership) => Some(&membership.subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        _ => None,
    }
}

/// Where a subquery stands.
pub(crate) struct SubquerySite<'a> {
    pub node: &'a LogicalPlan,
    /// What the node reads.
    pub scope: &'a DFSchema,
    /// The expression of the node, or the one of several conditions, that it is part of.
    pub whole: &'a Expr,
}

impl SubquerySite<'_> {
    /// Whether an expression is a subquery that the engine leaves, or would take for something
    /// else.
    pub fn is_left(&self, expr: &Expr) -> Result<bool> {
        let Some(subquery) = subquery_of(expr) else { return Ok(false) };
        let outer = references(&subquery.subquery)?;
        let is_value = matches!(expr, Expr::ScalarSubquery(_));
        let is_placed = match self.node {
            LogicalPlan::Filter(_) => {
                is_value || is_plain(self.whole) || !holds_not_in(self.whole) && !is_unnamed(expr)
            }
            LogicalPlan::Projection(_) => is_value,
            LogicalPlan::Aggregate(_) => false,
            _ => is_value && outer.is_empty(),
        };
        if outer.is_empty() || !is_placed {
            return Ok(!is_placed);
        }
        let pull = PullUpCorrelatedExpr::new()
            .with_exists_sub_query(matches!(expr, Expr::Exists(_)))
            .with_need_handle_count_bug(is_value);
        Ok(outer.iter().any(|(_, column)| !self.scope.has_column(column))
            || check_subquery_expr(self.node, &subquery.subquery, expr).is_err()
            || !pulls_up(subquery, pull)?)
    }

    /// An expression in place of one that the engine leaves, which it does not leave.
    pub fn instead(&self, expr: &Expr) -> Result<Option<Expr>> {
        if let Expr::ScalarSubquery(subquery) = expr
            && let Some((value, order, rows)) = first_of(&subquery.subquery)
        {
            let first = aggregated(subquery, rows, first_value(value, order.to_vec()))?;
            return Ok((!self.is_left(&first)?).then_some(first));
        }
        let (subquery, aggregate) = match expr {
            Expr::ScalarSubquery(subquery) if is_at_most_one_row(&subquery.subquery) => {
                return Ok(None);
            }
            Expr::ScalarSubquery(subquery) => {
                match subquery.subquery.schema().columns().as_slice() {
                    [value] => (subquery, array_agg(Expr::Column(value.clone()))),
                    _ => return Ok(None),
                }
            }
            Expr::Exists(exists) => (&exists.subquery, count(lit(1))),
            _ => return Ok(None),
        };
        let all = aggregated(subquery, &subquery.subquery, aggregate)?;
        if self.is_left(&all)? {
            return Ok(None);
        }
        Ok(Some(match expr {
            Expr::Exists(exists) if exists.negated => all.eq(lit(0_i64)),
            Expr::Exists(_) => all.gt(lit(0_i64)),
            _ => only_element().call(vec![all]),
        }))
    }
}

/// `x IN (...)` or `x NOT IN (...)` alone, which the engine joins as SQL wants it.
fn is_plain(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(_) => true,
        Expr::Not(inner) => matches!(inner.as_ref(), Expr::InSubquery(_)),
        _ => false,
    }
}

/// A membership among computed values, which are columns of no relation. The engine takes each for
/// two columns where it makes a mark of the membership.
fn is_unnamed(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(membership) => {
            membership.subquery.subquery.schema().qualified_field(0).0.is_none()
        }
        _ => false,
    }
}

/// Whether a membership stands where unknown is not false: anywhere but in conditions of which AND
/// and OR make the whole. The engine makes a two-valued mark of it.
fn holds_not_in(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => {
            holds_not_in(&both.left) || holds_not_in(&both.right)
        }
        Expr::InSubquery(membership) => membership.negated,
        other => other.exists(|part| Ok(matches!(part, Expr::InSubquery(_)))).unwrap_or(true),
    }
}

/// Whether the engine can pull the conditions that tie a subquery to the rows outside out of it.
pub(crate) fn pulls_up(subquery: &Subquery, mut pull: PullUpCorrelatedExpr) -> Result<bool> {
    let plan = subquery.subquery.as_ref();
    let is_membership = !pull.need_handle_count_bug;
    if plan.exists(holds_back)?
        || splits_groups(plan, is_membership)?
        || forgets_row_of_none(plan, !is_membership)?
        || plan.exists(ties_by_subquery)?
        || materialized_parts::is_volatile(plan)?
    {
        return Ok(false);
    }
    let Ok(pulled) = plan.clone().rewrite(&mut pull) else { return Ok(false) };
    let pulled_up = pull.can_pull_up && pull.pull_up_having_expr.is_none();
    Ok(pulled_up && !are_mistaken(&pull, plan, &pulled.data)?)
}

/// Whether a column that ties a subquery to the rows outside has the name of another column that
/// comes out beside it. The engine gives all of them one relation, and takes the first of that
/// name.
fn are_mistaken(
    pull: &PullUpCorrelatedExpr,
    plan: &LogicalPlan,
    pulled: &LogicalPlan,
) -> Result<bool> {
    let inner: HashSet<&Column> = pull.correlated_subquery_cols_map.values().flatten().collect();
    let compared = pull.join_filters.iter().flat_map(Expr::column_refs);
    let mut ties: HashSet<&Column> = compared.filter(|column| inner.contains(column)).collect();
    // What is looked for among the rows becomes one of those columns.
    if let LogicalPlan::Projection(list) = plan
        && let [element] = list.expr.as_slice()
        && !ties.is_empty()
    {
        ties.extend(element.column_refs());
    }
    let mut names = HashSet::new();
    if !ties.iter().all(|tie| names.insert(tie.name.as_str())) {
        return Ok(true);
    }
    pulled.exists(|node| {
        let is_list = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
        let mut seen = HashSet::new();
        let mut fields = node.schema().fields().iter().map(|field| field.name().as_str());
        Ok((is_list || std::ptr::eq(node, pulled))
            && fields.any(|name| names.contains(name) && !seen.insert(name)))
    })
}

/// Whether other rows come out of this when a condition is asked above it instead of below, which
/// the engine does not mind.
fn holds_back(node: &LogicalPlan) -> Result<bool> {
    Ok(match node {
        LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Limit(limit) => limit.skip.is_some(),
        LogicalPlan::Aggregate(groups) => {
            groups.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)))
        }
        // Rows of the other side that find no partner come out of an outer join all the same.
        LogicalPlan::Join(join) => {
            let (left, right) = keeps_conditions(join.join_type);
            (left && !references(&join.left)?.is_empty())
                || (right && !references(&join.right)?.is_empty())
        }
        _ => false,
    })
}

/// Whether a condition that ties it to the rows outside holds a subquery, as `outside.k IN (SELECT
/// ...)` does. Pulled out it would be that of a join, where the engine plans none.
fn ties_by_subquery(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Filter(filter) = node else { return Ok(false) };
    let mut ties =
        split_conjunction(&filter.predicate).into_iter().filter(|each| each.contains_outer());
    Ok(ties.any(|each| each.exists(|part| Ok(subquery_of(part).is_some())).unwrap_or(true)))
}

/// The sides of a join, left and right, whose conditions mean something else above it.
fn keeps_conditions(join: JoinType) -> (bool, bool) {
    match join {
        JoinType::Inner => (false, false),
        JoinType::Left | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightMark => (true, false),
        JoinType::Full => (true, true),
        // Those that INTERSECT and EXCEPT stand for: the engine renames their columns above.
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti => {
            (true, true)
        }
    }
}

/// Whether groups would be split that are one. A condition that is pulled up through an aggregate,
/// or a DISTINCT, becomes one more key, and only an equation with a column gives that key one value
/// for each row outside. The engine takes each cast of a column for a column, and does not mind a
/// DISTINCT. A membership may ask any number of equal rows, unless something above the DISTINCT
/// counts them.
fn splits_groups(plan: &LogicalPlan, is_membership: bool) -> Result<bool> {
    let (mut is_distinct, mut counts, mut is_by_equations) = (false, false, true);
    plan.apply(|node| {
        match node {
            LogicalPlan::Distinct(Distinct::All(_)) => is_distinct = true,
            LogicalPlan::Aggregate(groups) if groups.aggr_expr.is_empty() => is_distinct = true,
            LogicalPlan::Aggregate(_) => (is_distinct, counts) = (true, true),
            LogicalPlan::Limit(_) => counts = true,
            LogicalPlan::Filter(filter) => {
                let schema = filter.input.schema();
                let mut conditions = split_conjunction(&filter.predicate).into_iter();
                is_by_equations &= conditions
                    .all(|each| !each.contains_outer() || is_equation_of_column(each, schema));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_distinct && !is_by_equations && (counts || !is_membership))
}

/// Whether an aggregate of all rows depends on the rows outside, and its row goes missing where it
/// aggregates none. Pulled up, it has a row for each key that there is. The engine makes up for the
/// others where the aggregate is a value, with a list of columns and conditions above it at most.
fn forgets_row_of_none(plan: &LogicalPlan, is_value: bool) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(list) if is_value => forgets_row_of_none(&list.input, true),
        LogicalPlan::SubqueryAlias(alias) if is_value => forgets_row_of_none(&alias.input, true),
        LogicalPlan::Filter(filter) if is_value => forgets_row_of_none(&filter.input, true),
        LogicalPlan::Aggregate(groups) if is_value && groups.group_expr.is_empty() => {
            forgets_row_of_none(&groups.input, false)
        }
        other => other.exists(|node| match node {
            LogicalPlan::Aggregate(groups) if groups.group_expr.is_empty() => {
                Ok(!references(&groups.input)?.is_empty())
            }
            _ => Ok(false),
        }),
    }
}

/// Whether the one row of an aggregate of all rows may be left out by a condition above it. Where
/// such a subquery is a value, no row is NULL, as the engine has it. A LATERAL has no row then.
pub(crate) fn leaves_row_out(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => leaves_row_out(&list.input),
        LogicalPlan::SubqueryAlias(alias) => leaves_row_out(&alias.input),
        LogicalPlan::Filter(filter) => {
            is_exactly_one_row(&filter.input) || leaves_row_out(&filter.input)
        }
        _ => false,
    }
}

/// `column = outside`, either way round.
fn is_equation_of_column(condition: &Expr, schema: &DFSchema) -> bool {
    let is_column = |side: &Expr| match side {
        Expr::Cast(cast) => match cast.expr.get_type(schema) {
            Ok(from) => {
                matches!(cast.expr.as_ref(), Expr::Column(_))
                    && is_one_to_one(&from, cast.field.data_type())
            }
            Err(_) => false,
        },
        side => matches!(side, Expr::Column(_)),
    };
    match condition {
        Expr::BinaryExpr(both) if both.op == Operator::Eq => {
            is_column(&both.left) && !both.right.any_column_refs()
                || is_column(&both.right) && !both.left.any_column_refs()
        }
        _ => false,
    }
}

/// Whether a cast makes another value of each.
fn is_one_to_one(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    match (from, to) {
        (from, to) if from == to => true,
        // A number that does not fit is an error.
        (from, to) if from.is_integer() => {
            to.is_integer()
                || matches!(to, D::Decimal128(_, scale) | D::Decimal256(_, scale) if *scale >= 0)
                || *to == D::Float64 && !matches!(from, D::Int64 | D::UInt64)
        }
        (
            D::Decimal128(_, from) | D::Decimal256(_, from),
            D::Decimal128(_, to) | D::Decimal256(_, to),
        ) => to >= from,
        (D::Float32, D::Float64) | (D::Date32, D::Timestamp(..)) => true,
        (from, to) => from.is_string() && to.is_string(),
    }
}

/// Whether a subquery gives one row at most.
pub(crate) fn is_at_most_one_row(plan: &LogicalPlan) -> bool {
    plan.max_rows().is_some_and(|rows| rows <= 1)
}

/// The value, the order and the rows of a subquery that takes the first of them.
fn first_of(plan: &LogicalPlan) -> Option<(Expr, &[SortExpr], &LogicalPlan)> {
    let (above, plan) = listed(plan);
    let LogicalPlan::Limit(limit) = plan else { return None };
    let (below, plan) = listed(&limit.input);
    let LogicalPlan::Sort(sort) = plan else { return None };
    let value = match (above, below) {
        (Some(_), Some(_)) => return None,
        (Some(value), None) | (None, Some(value)) => value.clone().unalias(),
        (None, None) => Expr::Column(sort.input.schema().columns().into_iter().next()?),
    };
    (takes_one(limit) && sort.fetch.is_none()).then_some((value, &sort.expr, &sort.input))
}

/// The only column of a list of columns, and what is below it; or a plan itself.
fn listed(plan: &LogicalPlan) -> (Option<&Expr>, &LogicalPlan) {
    match plan {
        LogicalPlan::Projection(list) => match list.expr.as_slice() {
            [one] => (Some(one), &list.input),
            _ => (None, plan),
        },
        _ => (None, plan),
    }
}

fn takes_one(limit: &Limit) -> bool {
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(1))))
}

/// The subquery of an aggregate of all rows.
fn aggregated(subquery: &Subquery, rows: &LogicalPlan, aggregate: Expr) -> Result<Expr> {
    let plan = Aggregate::try_new(Arc::new(rows.clone()), Vec::new(), vec![aggregate])?;
    let plan = Arc::new(LogicalPlan::Aggregate(plan));
    Ok(Expr::ScalarSubquery(Subquery { subquery: plan, ..subquery.clone() }))
}
