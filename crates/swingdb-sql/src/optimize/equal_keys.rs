//! Equations as keys of joins in which NULL equals NULL: [`EqualKeys`].
//!
//! `ON x IS NOT DISTINCT FROM u` and joins of our own compare all their keys so that NULLs are
//! equal. The query engine's rule makes keys of the equations in a join's condition, whatever the
//! join takes NULLs for: after `... WHERE y = v` a NULL in `y` then finds one in `v`. `y = v` is
//! `y IS NOT DISTINCT FROM v AND y IS NOT NULL`, so the latter is put beside the new key.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan};
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::optimize::rewritten;

/// The engine's rule, with NULLs equal to nothing in what it makes of equations.
#[derive(Debug, Default)]
pub(crate) struct EqualKeys(ExtractEquijoinPredicate);

impl EqualKeys {
    /// The name of the rule, its own and that of the one it stands for.
    pub(crate) const NAME: &str = "extract_equijoin_predicate";

    fn of_join(
        &self,
        mut join: Join,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let known = join.on.len();
        if known == 0 {
            // Without keys it compares nothing yet.
            join.null_equality = NullEquality::NullEqualsNothing;
            return self.0.rewrite(LogicalPlan::Join(join), config);
        }
        rewritten(&self.0, join, config, |join| {
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
}

impl OptimizerRule for EqualKeys {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join)
                if join.null_equality == NullEquality::NullEqualsNull && join.filter.is_some() =>
            {
                self.of_join(join, config)
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}
