//! From the node to the operator.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use crate::nodes::materialize::Materialize;
use crate::physical::materialize::exec::MaterializeExec;

/// Plans what is computed once.
#[derive(Debug)]
pub(crate) struct MaterializePlanner;

#[async_trait]
impl ExtensionPlanner for MaterializePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (Materialize::of(node), physical) else { return Ok(None) };
        Ok(Some(Arc::new(MaterializeExec::new(node.part, Arc::clone(input)))))
    }
}
