//! Equations as keys of joins in which NULL equals NULL: [`equal_keys`].
//!
//! `ON x IS NOT DISTINCT FROM u` and joins of our own compare all their keys so that NULLs are
//! equal. The query engine's rule makes keys of the equations in a join's condition, whatever the
//! join takes NULLs for: after `... WHERE y = v` a NULL in `y` then finds one in `v`. `y = v` is
//! `y IS NOT DISTINCT FROM v AND y IS NOT NULL`, so the latter is put beside the new key.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::optimize::rewritten;

/// The engine's rule, with NULLs equal to nothing in what it makes of equations.
pub(crate) fn equal_keys(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull && join.filter.is_some() =>
        {
            of_join(rule, join, config)
        }
        _ => rule.rewrite(plan, config),
    }
}

fn of_join(
    rule: &dyn OptimizerRule,
    mut join: Join,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let known = join.on.len();
    if known == 0 {
        // Without keys it compares nothing yet.
        join.null_equality = NullEquality::NullEqualsNothing;
        return rule.rewrite(LogicalPlan::Join(join), config);
    }
    rewritten(rule, join, config, |join| {
        let mut conditions: Vec<Expr> = join.filter.take().into_iter().collect();
        for (left, right) in join.on.iter().skip(known) {
            if left.nullable(join.left.schema())? && right.nullable(join.right.schema())? {
                conditions.push(left.clone().is_not_null());
            }
        }
        join.filter = conjunction(conditions);
        Ok(())
    })
}
