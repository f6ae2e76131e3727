//! What the rules of this folder are made of: [`OwnRule`], and [`Guarded`] for a rule of the engine
//! that is not asked about every plan.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// A rule as the engine holds it.
pub(crate) type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// A rule of our own.
pub(crate) struct OwnRule {
    name: &'static str,
    /// In which order it is asked about the nodes of a plan; `None`: it is asked about the plan.
    order: Option<ApplyOrder>,
    rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

impl OwnRule {
    /// A rule that is asked once about the whole plan.
    pub(crate) const fn of_plan(
        name: &'static str,
        rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
    ) -> Self {
        Self { name, order: None, rewrite }
    }

    /// A rule that is asked about each node, those above others first.
    pub(crate) const fn top_down(
        name: &'static str,
        rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
    ) -> Self {
        Self { name, order: Some(ApplyOrder::TopDown), rewrite }
    }

    /// A rule that is asked about each node, those below others first.
    pub(crate) const fn bottom_up(
        name: &'static str,
        rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
    ) -> Self {
        Self { name, order: Some(ApplyOrder::BottomUp), rewrite }
    }
}

impl OptimizerRule for OwnRule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.order
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

impl fmt::Debug for OwnRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What stands before a rule of the engine: asks it, or does something else.
type Guard =
    fn(&dyn OptimizerRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

/// A rule of the engine, under its own name, that only a function asks.
pub(crate) struct Guarded {
    rule: Rule,
    /// In which order the function is asked about the nodes of a plan.
    order: Option<ApplyOrder>,
    guard: Guard,
}

impl Guarded {
    /// The function is asked whenever the rule would be.
    pub(crate) fn new(rule: Rule, guard: Guard) -> Arc<Self> {
        let order = rule.apply_order();
        Arc::new(Self { rule, order, guard })
    }

    /// The function is asked once about the whole plan.
    pub(crate) fn of_plan(rule: Rule, guard: Guard) -> Arc<Self> {
        Arc::new(Self { rule, order: None, guard })
    }
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.order
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.guard)(self.rule.as_ref(), plan, config)
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guarded {}", self.rule.name())
    }
}
