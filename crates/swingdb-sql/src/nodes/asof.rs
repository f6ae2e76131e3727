//! An ASOF JOIN in a logical plan.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};

use crate::nodes::asof_condition::Condition;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AsofJoin {
    pub left: Arc<LogicalPlan>,
    pub right: Arc<LogicalPlan>,
    pub condition: Condition<Expr>,
    /// Whether rows of the left side stay that find none.
    pub outer: bool,
    schema: DFSchemaRef,
}

impl AsofJoin {
    pub fn try_new(
        left: Arc<LogicalPlan>,
        right: Arc<LogicalPlan>,
        condition: Condition<Expr>,
        outer: bool,
    ) -> Result<Self> {
        let join_type = if outer { JoinType::Left } else { JoinType::Inner };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(Self { left, right, condition, outer, schema })
    }

    /// The node as what it is, if it is one.
    pub fn of(node: &dyn UserDefinedLogicalNode) -> Option<&Self> {
        let node: &dyn Any = node.as_any();
        node.downcast_ref()
    }

    /// All that the schema follows from.
    fn parts(&self) -> (&LogicalPlan, &LogicalPlan, &Condition<Expr>, bool) {
        (&self.left, &self.right, &self.condition, self.outer)
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // Plans that differ may be equal in order.
        self.parts().partial_cmp(&other.parts()).filter(|order| order.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// Left and right by turns.
    fn expressions(&self) -> Vec<Expr> {
        let Condition { keys, time, .. } = &self.condition;
        keys.iter().chain([time]).flatten().cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}AsofJoin: ", if self.outer { "Left" } else { "" })?;
        let Condition { keys, time, nearest } = &self.condition;
        for [left, right] in keys {
            write!(f, "{left} = {right}, ")?;
        }
        write!(f, "{} {} {}", time[0], nearest.operator(), time[1])
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let given = exprs.len();
        let condition = self.condition.try_map(|_, _| exprs.next().ok_or(()));
        let (Ok(condition), Ok([left, right])) = (condition, <[LogicalPlan; 2]>::try_from(inputs))
        else {
            return internal_err!("{given} expressions of an ASOF JOIN, or not two inputs");
        };
        Self::try_new(Arc::new(left), Arc::new(right), condition, self.outer)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let (left, right) = output_columns.iter().partition::<Vec<usize>, _>(|at| **at < width);
        Some(vec![left, right.into_iter().map(|at| at - width).collect()])
    }
}

/// The function that marks the condition of an ASOF JOIN until types are settled.
pub(crate) const MARK: &str = "asof_join";
