//! Finding the parts of a plan that occur more than once, and putting something around them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;

use crate::nodes::materialize::{Materialize, PartId};

/// What it means that two parts are the same.
pub(crate) trait Sameness {
    /// Equal for parts that are the same; `None` for what is none, however often it occurs.
    fn key(&self, plan: &LogicalPlan) -> Option<u64>;

    fn same(&self, one: &LogicalPlan, other: &LogicalPlan) -> bool;
}

/// The parts of a plan.
pub(crate) struct Parts<S> {
    by: S,
    found: HashMap<u64, Vec<Part>>,
}

pub(crate) struct Part {
    pub plan: LogicalPlan,
    /// How often it occurs, inside another part once for all its occurrences.
    pub times: usize,
    id: PartId,
    input: Option<Arc<LogicalPlan>>,
}

impl<S: Sameness> Parts<S> {
    /// Those of `plan` and of the subqueries in it, the outermost first.
    pub fn find(by: S, plan: &LogicalPlan) -> Result<Self> {
        let mut parts = Self { by, found: HashMap::new() };
        plan.apply_with_subqueries(|node| {
            let Some(key) = parts.by.key(node) else { return Ok(TreeNodeRecursion::Continue) };
            let alike = parts.found.entry(key).or_default();
            if let Some(part) = alike.iter_mut().find(|part| parts.by.same(&part.plan, node)) {
                part.times += 1;
                return Ok(TreeNodeRecursion::Jump);
            }
            alike.push(Part { plan: node.clone(), times: 1, id: PartId::new(), input: None });
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(parts)
    }

    /// Keeps those for which it is true; whether there are any.
    pub fn keep(&mut self, is_kept: impl Fn(&Part) -> bool) -> bool {
        self.found.retain(|_, alike| {
            alike.retain(&is_kept);
            !alike.is_empty()
        });
        !self.found.is_empty()
    }

    /// The part that a node is an occurrence of.
    pub fn of(&mut self, node: &LogicalPlan) -> Option<&mut Part> {
        let alike = self.found.get_mut(&self.by.key(node)?)?;
        alike.iter_mut().find(|part| self.by.same(&part.plan, node))
    }

    /// The plan with a node around each occurrence of each part. `narrow` gets a part, and what has
    /// become of it when the parts inside were replaced, and says what of that goes into the node.
    pub fn replace(
        &mut self,
        plan: LogicalPlan,
        narrow: &dyn Fn(&LogicalPlan, LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| {
            let Some(part) = self.of(&node) else { return Ok(Transformed::no(node)) };
            let (id, known) = (part.id, part.input.clone());
            let input = match known {
                Some(input) => input,
                None => {
                    let below = node.clone().map_subqueries(|plan| self.replace(plan, narrow))?;
                    let below = below.data.map_children(|plan| self.replace(plan, narrow))?;
                    let input = Arc::new(narrow(&node, below.data)?);
                    if let Some(part) = self.of(&node) {
                        part.input = Some(Arc::clone(&input));
                    }
                    input
                }
            };
            let plan = Materialize { part: id, input }.into_plan();
            Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
        })
    }
}
