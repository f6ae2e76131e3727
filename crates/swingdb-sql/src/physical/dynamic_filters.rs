//! Conditions handed down a physical plan to the scans they concern: [`HandDown`].
//!
//! A hash join, a sorted LIMIT or a MIN learns while it runs which rows below it can still matter.
//! It hands that down as a condition, which scans evaluate again and again. The query engine's own
//! rule finds the columns of such a condition in a child **by name**. If two tables of a join both
//! have a column `id`, the rule ends at the first of them, and rows of the result are left out.
//! This rule asks the same operators for their conditions, but follows each column by its position
//! ([`column_lineage`]), and hands nothing past an operator that it cannot follow.
//!
//! Nor does it hand down the bounds of an aggregate that tell of a part of its values, nor anything
//! past a limit, whether an operator or a part of one (a scan of the first rows, a sorted LIMIT): a
//! row that is left out below a limit would let another row in. Nor a condition on what is drawn
//! for each row, `random()` or `nextval('s')`, past the projection that draws it: what is below
//! would draw other values.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown,
};
use swingdb_functions::keys::order::is_sorted_by_bytes;

use crate::physical::column_lineage;

type Plan = Arc<dyn ExecutionPlan>;
type Condition = Arc<dyn PhysicalExpr>;

/// See the [module documentation](self). Stands where the engine's rule of the same phase stood.
#[derive(Debug)]
pub(crate) struct HandDown {
    phase: FilterPushdownPhase,
    name: &'static str,
}

impl HandDown {
    /// In place of the engine's rule that hands down what the plan says.
    pub(crate) fn of_plan() -> Self {
        Self { phase: FilterPushdownPhase::Pre, name: "FilterPushdown" }
    }

    /// In place of the engine's rule that hands down what becomes known while a query runs.
    pub(crate) fn of_running() -> Self {
        Self { phase: FilterPushdownPhase::Post, name: "FilterPushdown(Post)" }
    }

    /// Offers conditions, in the columns of `node`, to it and all below it.
    fn hand_down(
        &self,
        node: &Plan,
        conditions: &[Condition],
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        let is_limited = node.fetch().is_some();
        if is_limited && node.children().is_empty() {
            let answers = vec![PushedDown::No; conditions.len()];
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers));
        }
        let description =
            node.gather_filters_for_pushdown(self.phase, conditions.to_vec(), config)?;
        let (given, own) = (description.parent_filters(), description.self_filters());
        let mut children = Vec::with_capacity(given.len());
        let mut answers = vec![Vec::with_capacity(given.len()); conditions.len()];
        let mut own_answers = Vec::with_capacity(given.len());
        for (place, child) in node.children().into_iter().enumerate() {
            let (given, own) = match (given.get(place), own.get(place)) {
                (Some(given), Some(own)) if given.len() == conditions.len() => (given, own),
                _ => return datafusion::common::internal_err!("{} lost a condition", node.name()),
            };
            let mut passed = Passed::default();
            for condition in own {
                let offered = lasting(condition) && is_of_all(node);
                passed.offer(offered.then(|| Arc::clone(condition)));
            }
            for (condition, given) in conditions.iter().zip(given) {
                let wanted = matches!(given.discriminant, PushedDown::Yes)
                    && lasting(condition)
                    && !is_limited;
                let followed = match wanted {
                    true => column_lineage::in_child(node.as_ref(), place, condition)?,
                    false => None,
                };
                passed.offer(followed.filter(lasting));
            }
            let result = self.hand_down(child, &passed.conditions, config)?;
            let mut told = passed.answers(&result.filters).into_iter();
            let own = own.iter().zip(told.by_ref());
            own_answers.push(own.map(|(c, told)| told.wrap_expression(Arc::clone(c))).collect());
            answers.iter_mut().zip(told).for_each(|(answer, told)| answer.push(told));
            children.push(result.updated_node.unwrap_or_else(|| Arc::clone(child)));
        }
        let filters = conditions.iter().zip(answers);
        let parent_filters = filters.map(|(condition, child_results)| {
            let filter = Arc::clone(condition);
            ChildFilterPushdownResult { filter, child_results }
        });
        let result = ChildPushdownResult {
            parent_filters: parent_filters.collect(),
            self_filters: own_answers,
        };
        conclude(node, children, self.phase, result, config)
    }
}

/// A plan whose scans know conditions that become known while it runs; the rows that it gives still
/// have to pass them.
pub(crate) fn told(plan: Plan, conditions: &[Condition], config: &ConfigOptions) -> Result<Plan> {
    let told = HandDown::of_running().hand_down(&plan, conditions, config)?;
    Ok(told.updated_node.unwrap_or(plan))
}

/// Lets a node with its new children decide what becomes of the conditions.
fn conclude(
    node: &Plan,
    children: Vec<Plan>,
    phase: FilterPushdownPhase,
    result: ChildPushdownResult,
    config: &ConfigOptions,
) -> Result<FilterPushdownPropagation<Plan>> {
    let changed = node.children().into_iter().zip(&children).any(|(a, b)| !Arc::ptr_eq(a, b));
    let renewed = match changed {
        true => replace_children_if_necessary(Arc::clone(node), children)?,
        false => Arc::clone(node),
    };
    let mut propagation = renewed.handle_child_pushdown_result(phase, result, config)?;
    if propagation.updated_node.is_none() && changed {
        propagation.updated_node = Some(renewed);
    }
    Ok(propagation)
}

/// Whether a condition that an aggregate makes of its bounds says what matters for all of it. The
/// engine makes `a > 7` of `max(a), max(b + 1)`, and of `max(a), max(b)` as long as each `b` was
/// NULL; and it compares lists and the like in an order that is not SQL's.
fn is_of_all(node: &Plan) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return true };
    let calls = aggregate.aggr_expr();
    let columns: Vec<_> = calls.iter().map(|call| call.expressions()).collect();
    let is_column = |args: &[Condition]| matches!(args, [arg] if arg.is::<Column>());
    let is_one = columns.windows(2).all(|pair| pair[0] == pair[1])
        && (calls.len() == 1 || aggregate.filter_expr().iter().all(Option::is_none));
    is_one
        && columns.iter().all(|args| is_column(args))
        && !calls.iter().any(|call| is_sorted_by_bytes(call.field().data_type()))
}

/// What is offered to one child, and the places of what is not.
#[derive(Default)]
struct Passed {
    conditions: Vec<Condition>,
    offered: Vec<bool>,
}

impl Passed {
    fn offer(&mut self, condition: Option<Condition>) {
        self.offered.push(condition.is_some());
        self.conditions.extend(condition);
    }

    /// The child's answers, and No for all that it was not offered.
    fn answers(&self, told: &[PushedDown]) -> Vec<PushedDown> {
        let mut told = told.iter().copied();
        let answer = |offered: &bool| match offered {
            true => told.next().unwrap_or(PushedDown::No),
            false => PushedDown::No,
        };
        self.offered.iter().map(answer).collect()
    }
}

/// Whether a condition gives the same answer wherever it is asked: `random()` does not.
fn lasting(condition: &Condition) -> bool {
    let mut lasting = true;
    let walked = condition.apply(|part| {
        lasting &= !part.is_volatile_node();
        Ok(if lasting { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && lasting
}

impl PhysicalOptimizerRule for HandDown {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        Ok(self.hand_down(&plan, &[], config)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
