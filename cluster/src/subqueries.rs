//! Subqueries that give one value by themselves, as in `WHERE a > (SELECT avg(a) FROM t)`.
//!
//! The engine computes such a value in the operator that stands above the plan: only one process
//! would know it. So the planner of a cluster computes it first, in stages as any other query, and
//! the plan that goes to the nodes has the value in its place.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

/// The subqueries of a plan, not those within them.
pub(crate) fn found(plan: &LogicalPlan) -> Result<Vec<Subquery>> {
    let mut all = Vec::new();
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarSubquery(subquery) = part
                    && !all.contains(subquery)
                {
                    all.push(subquery.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all)
}

/// The value of a subquery; none of no rows, which is NULL.
pub(crate) async fn value_of(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<ScalarValue> {
    let schema = plan.schema();
    let mut rows = execute_stream(plan, context)?;
    let mut value = None;
    while let Some(batch) = rows.next().await.transpose()? {
        if batch.num_rows() == 0 {
            continue;
        }
        if value.is_some() || batch.num_rows() > 1 {
            return exec_err!("Scalar subquery returned more than one row");
        }
        value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
    }
    match value {
        Some(value) => Ok(value),
        None => ScalarValue::try_from(schema.field(0).data_type()),
    }
}

/// A value that stands for that of a subquery which is only shown.
pub(crate) fn stand_in(subquery: &Subquery) -> Result<ScalarValue> {
    let data_type = subquery.subquery.schema().field(0).data_type().clone();
    ScalarValue::new_default(&data_type).or_else(|_| ScalarValue::try_from(&data_type))
}

/// The plan with values in the places of its subqueries.
pub(crate) fn replaced(
    plan: &LogicalPlan,
    values: &[(Subquery, ScalarValue)],
) -> Result<LogicalPlan> {
    let value_of = |expr: &Expr| match expr {
        Expr::ScalarSubquery(subquery) => {
            values.iter().find(|(known, _)| known == subquery).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    let done = plan.clone().transform_up(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let done = expr.transform_up(|part| {
                Ok(match value_of(&part) {
                    Some(value) => Transformed::yes(Expr::Literal(value, None)),
                    None => Transformed::no(part),
                })
            })?;
            // A name that an expression has from its parts is what others know it by.
            Ok(if done.transformed { done.update_data(|expr| name.restore(expr)) } else { done })
        })
    })?;
    Ok(done.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, scalar_subquery};

    #[test]
    fn values_take_the_places_of_subqueries_and_keep_their_names() {
        let one = LogicalPlanBuilder::empty(true).project(vec![lit(1_i64).alias("a")]).unwrap();
        let one = one.build().unwrap();
        let inner = || scalar_subquery(Arc::new(one.clone()));
        let plan = LogicalPlanBuilder::from(one.clone())
            .filter(col("a").lt(inner() + inner()))
            .unwrap()
            .project(vec![inner() + lit(2_i64), col("a")])
            .unwrap()
            .build()
            .unwrap();
        let subqueries = found(&plan).unwrap();
        assert_eq!(subqueries.len(), 1);
        let values = subqueries.into_iter().map(|one| (one, ScalarValue::from(7_i64)));
        let done = replaced(&plan, &values.collect::<Vec<_>>()).unwrap();
        assert!(found(&done).unwrap().is_empty());
        assert_eq!(done.schema().field_names(), plan.schema().field_names());
        let text = done.display_indent().to_string();
        assert!(text.contains("Int64(7) + Int64(7)"), "{text}");
    }
}
