//! From the node to the operator.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use crate::nodes::asof::AsofJoin;
use crate::physical::asof::exec::AsofJoinExec;

/// Plans ASOF JOIN.
#[derive(Debug)]
pub(crate) struct AsofPlanner;

#[async_trait]
impl ExtensionPlanner for AsofPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = Arc::clone(node.schema().inner());
        let (Some(join), [left, right]) = (AsofJoin::of(node), physical) else {
            return Ok(None);
        };
        let condition = join.condition.try_map(|side, expr| {
            planner.create_physical_expr(expr, logical[side].schema(), session, context)
        })?;
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Ok(Some(Arc::new(AsofJoinExec::new(left, right, condition, join.outer, schema))))
    }
}
