//! A part of a logical plan that occurs more than once and is computed once.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};

/// Says which nodes are occurrences of the same part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(u64);

impl PartId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Memory::Relaxed))
    }
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Materialize {
    pub part: PartId,
    pub input: Arc<LogicalPlan>,
}

impl Materialize {
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node as what it is, if it is one.
    pub fn of(node: &dyn UserDefinedLogicalNode) -> Option<&Self> {
        let node: &dyn Any = node.as_any();
        node.downcast_ref()
    }
}

/// What is materialized, if `plan` is that.
pub(crate) fn materialized(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    part_of(plan).map(|(_, input)| input.as_ref())
}

/// Which part `plan` is an occurrence of, and what is materialized, if it is one.
pub fn part_of(plan: &LogicalPlan) -> Option<(PartId, &Arc<LogicalPlan>)> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return None };
    Materialize::of(node.as_ref()).map(|node| (node.part, &node.input))
}

/// A plan with other plans in the place of what is materialized, for those parts that have one.
pub fn with_parts(
    plan: LogicalPlan,
    inputs: &HashMap<PartId, Arc<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let done = plan.transform_down_with_subqueries(|node| {
        let known = part_of(&node).and_then(|(part, _)| Some((part, inputs.get(&part)?)));
        let Some((part, input)) = known else { return Ok(Transformed::no(node)) };
        let node = Materialize { part, input: Arc::clone(input) };
        Ok(Transformed::new(node.into_plan(), true, TreeNodeRecursion::Jump))
    });
    done.data()
}

impl PartialOrd for Materialize {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let order = (self.part, &self.input).partial_cmp(&(other.part, &other.input));
        // Plans that differ may be equal in order.
        order.filter(|order| order.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Materialize {
    fn name(&self) -> &str {
        "Materialize"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Materialize")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([input]) = <[LogicalPlan; 1]>::try_from(inputs) else {
            return internal_err!("what is materialized is one input");
        };
        Ok(Self { part: self.part, input: Arc::new(input) })
    }
}
