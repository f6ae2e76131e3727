//! `INTERSECT ALL` and `EXCEPT ALL`, which count how often a row is there.
//!
//! A row that is `l` times on the left and `r` times on the right comes out `min(l, r)` times of
//! INTERSECT ALL, and `max(0, l - r)` times of EXCEPT ALL. The query engine makes a semi or an anti
//! join of them, which keeps all `l` or none. Numbering equal rows on both sides and joining by
//! the number too makes the same join right: the `n`-th of the left finds a partner exactly when
//! `n <= r`.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
    WindowFunctionDefinition,
};

/// Whether a join stands for a set operation with ALL. No other join of a plan that has not been
/// optimized takes NULLs for equal, and without ALL the left side is made distinct first.
pub(crate) fn is_all(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

/// The join with equal rows numbered.
pub(crate) fn count_duplicates(join: &Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left, left_number) = numbered(&join.left, "nth on the left")?;
    let (right, right_number) = numbered(&join.right, "nth on the right")?;
    let mut on = join.on.clone();
    on.push((Expr::Column(left_number), Expr::Column(right_number)));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

/// The rows with one more column, which numbers rows that are equal.
fn numbered(input: &Arc<LogicalPlan>, name: &str) -> Result<(LogicalPlan, Column)> {
    let columns = || input.schema().columns().into_iter().map(Expr::Column);
    let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
    let number = Expr::from(WindowFunction::new(function, Vec::new()));
    let number = number.partition_by(columns().collect()).build()?;
    let text = number.schema_name().to_string();
    let named = Expr::Column(Column::from_name(text)).alias(name);
    let plan = LogicalPlanBuilder::from(Arc::clone(input))
        .window([number])?
        .project(columns().chain([named]))?
        .build()?;
    Ok((plan, Column::from_name(name)))
}
