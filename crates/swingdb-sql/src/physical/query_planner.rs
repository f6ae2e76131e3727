//! From the optimized logical plan to the physical one: the engine's planner, and our operators.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use crate::optimize::rollups;
use crate::physical::asof::planner::AsofPlanner;
use crate::physical::materialize::planner::MaterializePlanner;
use crate::plan::{materialized_parts, recursive_rows};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct OwnOperators;

#[async_trait]
impl QueryPlanner for OwnOperators {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = rollups::level_by_level(materialized_parts::of_equals(plan.clone())?)?;
        let plan = recursive_rows::told_apart(plan)?;
        let own: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> =
            vec![Arc::new(AsofPlanner), Arc::new(MaterializePlanner)];
        let planner = DefaultPhysicalPlanner::with_extension_planners(own);
        planner.create_physical_plan(&plan, session).await
    }
}
