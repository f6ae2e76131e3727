//! From the node to the operator.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::AsofJoinExec;
use super::node::AsofJoin;

/// The engine's planner, which also plans ASOF JOIN.
#[derive(Debug)]
pub(crate) struct PlannerWithAsof;

#[async_trait]
impl QueryPlanner for PlannerWithAsof {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Self)]);
        planner.create_physical_plan(plan, session).await
    }
}

#[async_trait]
impl ExtensionPlanner for PlannerWithAsof {
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
