//! Outer joins whose unmatched rows a join above drops: [`outer_joins`].
//!
//! `FROM sales LEFT JOIN returns ON ... JOIN reasons ON returned_for = reason` needs no sale
//! without a return: its `returned_for` is NULL, which equals nothing. So the outer join is an
//! inner one, and those are put in the cheapest order. The query engine's rule sees that of
//! conditions in WHERE only, this one of keys of joins (Galindo-Legaria and Rosenthal, "Outerjoin
//! Simplification and Reordering for Query Optimization", 1997).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::eliminate_outer_join::eliminate_outer;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The engine's rule, and ours where it meets a join.
pub(crate) fn outer_joins(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Join(join) => Ok(match of_join(join, &[])? {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(plan),
        }),
        _ => rule.rewrite(plan, config),
    }
}

/// The plan without rows that have NULL in any of the columns, as far as an outer join below makes
/// them; `None`: it makes none, or none that can be left out.
fn without_nulls(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let below: Vec<Column> = match plan {
        LogicalPlan::Join(join) => return of_join(join, columns),
        LogicalPlan::Filter(filter) if !filter.predicate.is_volatile() => columns.to_vec(),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => columns.to_vec(),
        LogicalPlan::Projection(projection) => below_projection(projection, columns),
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            let places =
                columns.iter().filter_map(|column| alias.schema.maybe_index_of_column(column));
            places.map(|place| inner[place].clone()).collect()
        }
        _ => return Ok(None),
    };
    let [input] = plan.inputs()[..] else { return Ok(None) };
    let Some(changed) = without_nulls(input, &below)? else { return Ok(None) };
    // With the expressions and the schema that it had, as the engine's own rule does it.
    let mut plan = plan.clone();
    match &mut plan {
        LogicalPlan::Filter(filter) => filter.input = Arc::new(changed),
        LogicalPlan::Sort(sort) => sort.input = Arc::new(changed),
        LogicalPlan::Projection(projection) => projection.input = Arc::new(changed),
        LogicalPlan::SubqueryAlias(alias) => alias.input = Arc::new(changed),
        _ => return Ok(None),
    }
    Ok(Some(plan))
}

/// Columns that a projection passes on. One that draws numbers must see all rows.
fn below_projection(projection: &Projection, columns: &[Column]) -> Vec<Column> {
    if projection.expr.iter().any(Expr::is_volatile) {
        return Vec::new();
    }
    let places =
        columns.iter().filter_map(|column| projection.schema.maybe_index_of_column(column));
    places.filter_map(|place| column_of(&projection.expr[place])).collect()
}

/// The column that is NULL wherever an expression would be NULL for it.
fn column_of(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Alias(alias) => column_of(&alias.expr),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}

/// A join, with rows that have NULL in any of the columns left out where an outer join makes them:
/// this one, or one below.
fn of_join(join: &Join, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let of = |side: &LogicalPlan| -> Vec<Column> {
        columns.iter().filter(|column| side.schema().has_column(column)).cloned().collect()
    };
    let (mut left, mut right) = (of(&join.left), of(&join.right));
    let join_type = eliminate_outer(join.join_type, !left.is_empty(), !right.is_empty());
    let compares_nulls = join.null_equality == NullEquality::NullEqualsNull || join.null_aware;
    if !compares_nulls {
        let (drops_left, drops_right) = drops_unmatched(join_type);
        let keys = |side: fn(&(Expr, Expr)) -> &Expr| {
            join.on.iter().filter_map(move |pair| column_of(side(pair)))
        };
        left.extend(keys(|(left, _)| left).filter(|_| drops_left));
        right.extend(keys(|(_, right)| right).filter(|_| drops_right));
    }
    let below = [without_nulls(&join.left, &left)?, without_nulls(&join.right, &right)?];
    if join_type == join.join_type && below.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [left, right] = below.map(|plan| plan.map(Arc::new));
    let mut join = join.clone();
    join.join_type = join_type;
    join.left = left.unwrap_or(join.left);
    join.right = right.unwrap_or(join.right);
    Ok(Some(LogicalPlan::Join(join)))
}

/// Whether rows of the left and of the right side that find no other are nowhere in the result.
pub const fn drops_unmatched(join_type: JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
    }
}
