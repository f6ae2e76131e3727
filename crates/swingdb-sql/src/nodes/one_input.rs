//! What operators of our own with one input have in common.
//!
//! [`one_input`] and [`rows_of_input`] are methods of [`ExecutionPlan`] for an operator with a
//! field `input` and a method `over`, which is the same operator with another input.
//!
//! [`ExecutionPlan`]: datafusion::physical_plan::ExecutionPlan

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

/// The only one of an operator's new inputs.
pub(crate) fn only(
    mut inputs: Vec<Arc<dyn ExecutionPlan>>,
    operator: &str,
) -> Result<Arc<dyn ExecutionPlan>> {
    match (inputs.pop(), inputs.is_empty()) {
        (Some(input), true) => Ok(input),
        _ => internal_err!("{operator} has one input"),
    }
}

/// The input of an operator that has no expressions and wants the partitions of its input as they
/// are.
macro_rules! one_input {
    () => {
        fn children(&self) -> Vec<&std::sync::Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            let input = $crate::nodes::one_input::only(children, self.name())?;
            Ok(std::sync::Arc::new(self.over(input)))
        }
    };
}
pub(crate) use one_input;

/// The statistics of an operator that gives the rows of its input.
macro_rules! rows_of_input {
    () => {
        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::ChildStats> {
            vec![datafusion::physical_plan::ChildStats::At(partition)]
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            _: &datafusion::physical_plan::StatisticsArgs,
        ) -> datafusion::common::Result<std::sync::Arc<datafusion::common::Statistics>> {
            match inputs {
                [input] => Ok(std::sync::Arc::clone(input)),
                _ => datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }
    };
}
pub(crate) use rows_of_input;
