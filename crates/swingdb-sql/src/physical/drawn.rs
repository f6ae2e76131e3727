//! Functions that give another value each time, called with constants: [`NotConstant`].
//!
//! The query engine takes what has constants inside and nothing else for one constant itself:
//! `ORDER BY n` of `SELECT nextval('s') AS n` would need no sort. So such a call has no parts that
//! the engine sees.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

/// See the [module documentation](self). To run before orders are looked at.
#[derive(Debug, Default)]
pub(crate) struct NotConstant;

impl PhysicalOptimizerRule for NotConstant {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(list) = node.downcast_ref::<ProjectionExec>() else {
                return Ok(Transformed::no(node));
            };
            let mut changed = false;
            let columns = list.expr().iter().map(|column| {
                let expr = Arc::clone(&column.expr).transform_down(|part| Ok(closed(part)))?;
                changed |= expr.transformed;
                Ok(ProjectionExpr { expr: expr.data, alias: column.alias.clone() })
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            if !changed {
                return Ok(Transformed::no(node));
            }
            let list = ProjectionExec::try_new(columns, Arc::clone(list.input()))?;
            Ok(Transformed::yes(Arc::new(list) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "NotConstant"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A call without parts, if it is one of constants that gives another value each time.
fn closed(part: Arc<dyn PhysicalExpr>) -> Transformed<Arc<dyn PhysicalExpr>> {
    let has_parts = !part.children().is_empty();
    if part.is_volatile_node() && has_parts && collect_columns(&part).is_empty() {
        return Transformed::yes(Arc::new(Drawn(part)));
    }
    Transformed::no(part)
}

/// A call whose parts nobody sees.
#[derive(Debug, Eq)]
struct Drawn(Arc<dyn PhysicalExpr>);

impl PartialEq for Drawn {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Drawn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Drawn {
    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.0.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }

    fn is_volatile_node(&self) -> bool {
        true
    }
}
