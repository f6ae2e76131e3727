//! What determines the rows of a relation is right before a query reads it.
//!
//! The query engine adds columns to a GROUP BY that its keys determine. It takes from the relations
//! of FROM what determines what, so each of these is corrected
//! ([`nodes::dependencies`](crate::nodes::dependencies)) as soon as it is planned.

use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::nodes::dependencies::corrected;

/// Corrects the relations of one planner, which plans on one thread.
#[derive(Debug, Default)]
pub(crate) struct SoundRelations {
    /// Whether the engine asks for the relation that it was just told to plan.
    asks_back: AtomicBool,
}

impl RelationPlanner for SoundRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if self.asks_back.swap(false, Ordering::Relaxed) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.asks_back.store(true, Ordering::Relaxed);
        let mut plan = context.plan(relation)?;
        if !plan.schema().functional_dependencies().is_empty() {
            plan = corrected(plan)?;
        }
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}
