//! Which parts of a plan are computed once.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    Distinct, Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, TableSource,
};

use crate::nodes::expressions::{any_node_or_view, any_part};
use crate::nodes::materialize::{Materialize, PartId, part_of};
use crate::plan::drawn_subqueries;
use crate::plan::repeated::{Part, Parts, Sameness};
use crate::plan::unsteady;

/// The plan of a statement, as it was made of its text, with a node around the queries of a `WITH`
/// that are named more than once and might not give the same rows twice.
pub(crate) fn of_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut parts = Parts::find(Copies, &plan)?;
    if !parts.keep(|part| part.times > 1 && stands_alone(&part.plan)) {
        return Ok(plan);
    }
    let compared = unsteady::is_compared(&plan)?;
    let differs = |part: &Part| compared && unsteady::computes(&part.plan).unwrap_or(true);
    if !parts.keep(|part| may_vary(&part.plan).unwrap_or(false) || differs(part)) {
        return Ok(plan);
    }
    let whole = plan.clone();
    let narrow = |part: &LogicalPlan, input| with_used_columns(&whole, part, input);
    let plan = parts.replace(plan, &narrow)?.data;
    // What is above a part that has become narrower.
    plan.transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes)).data()
}

/// A copy of a plan that has nothing in common with it: neither parts that are computed once, nor
/// what the engine or [`of_names`] would take for such.
pub(crate) fn anew(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut parts = HashMap::new();
    let copy = plan.transform_up_with_subqueries(|node| {
        if let Some((part, input)) = part_of(&node) {
            let part = *parts.entry(part).or_insert_with(PartId::new);
            let copy = Materialize { part, input: Arc::clone(input) };
            return Ok(Transformed::yes(copy.into_plan()));
        }
        let LogicalPlan::SubqueryAlias(alias) = node else { return Ok(Transformed::no(node)) };
        let name = drawn_subqueries::name_anew(alias.alias);
        let copy = SubqueryAlias::try_new(alias.input, name)?;
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(copy)))
    });
    copy.data()
}

/// A plan to be put in several places, which is computed once; `None` for one that reads the rows
/// of the last round of a recursive query.
pub(crate) fn shared(plan: LogicalPlan) -> Option<LogicalPlan> {
    let is_alone = !sources(&plan).iter().any(is_work_table);
    is_alone.then(|| Materialize { part: PartId::new(), input: Arc::new(plan) }.into_plan())
}

/// An optimized plan with a node around the parts of queries of a `WITH` that are the same
/// wherever it is named, when they make fewer rows of many, or order them.
pub(crate) fn of_equals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut parts = Parts::find(Equals, &plan)?;
    let is_stable = |part: &Part| !is_volatile(&part.plan).unwrap_or(true);
    if !parts.keep(|part| part.times > 1 && is_stable(part) && stands_alone(&part.plan)) {
        return Ok(plan);
    }
    Ok(parts.replace(plan, &|_, input| Ok(input))?.data)
}

/// Copies of the query of one name: each has the name's alias around it, with the schema made when
/// the name was introduced.
struct Copies;

impl Copies {
    fn place(plan: &LogicalPlan) -> Option<*const DFSchema> {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => Some(Arc::as_ptr(&alias.schema)),
            _ => None,
        }
    }
}

impl Sameness for Copies {
    fn key(&self, plan: &LogicalPlan) -> Option<u64> {
        Self::place(plan).map(|place| hash_of(&place))
    }

    fn same(&self, one: &LogicalPlan, other: &LogicalPlan) -> bool {
        Self::place(one) == Self::place(other)
    }
}

/// Parts that are written the same, and read the same tables.
struct Equals;

impl Sameness for Equals {
    fn key(&self, plan: &LogicalPlan) -> Option<u64> {
        is_heavy(plan).then(|| hash_of(plan))
    }

    fn same(&self, one: &LogicalPlan, other: &LogicalPlan) -> bool {
        // Tables are compared by name; files and the like all have the name of their function.
        let place = |source: &Arc<dyn TableSource>| Arc::as_ptr(source).cast::<()>();
        let places = |plan| sources(plan).iter().map(place).collect::<Vec<_>>();
        one == other && places(one) == places(other)
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether it is worth to keep what this gives: it has read and worked more than that.
fn is_heavy(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_) => true,
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        _ => false,
    }
}

/// Whether running this twice may give different rows: random numbers, or a choice among rows whose
/// order is not said.
pub(crate) fn may_vary(plan: &LogicalPlan) -> Result<bool> {
    any_node_or_view(plan, &|node| match node {
        LogicalPlan::Limit(_) | LogicalPlan::Window(_) => true,
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        other => draws(other),
    })
}

/// Whether an expression in it has another value each time.
pub fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    any_node_or_view(plan, &draws)
}

fn draws(node: &LogicalPlan) -> bool {
    any_part(node, Expr::is_volatile_node)
}

/// Whether this can be computed without what is around it: no row of an outer query, no rows of the
/// last round of a recursive one.
fn stands_alone(plan: &LogicalPlan) -> bool {
    let is_outer = |part: &Expr| matches!(part, Expr::OuterReferenceColumn(..));
    let outer = any_node_or_view(plan, &|node| any_part(node, is_outer));
    matches!(outer, Ok(false)) && !sources(plan).iter().any(is_work_table)
}

/// Whether a table is what the last round of a recursive query gave.
fn is_work_table(source: &Arc<dyn TableSource>) -> bool {
    source_as_provider(source).is_ok_and(|provider| provider.is::<CteWorkTable>())
}

/// The tables that a plan reads, in its order.
fn sources(plan: &LogicalPlan) -> Vec<Arc<dyn TableSource>> {
    let mut found = Vec::new();
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found.push(Arc::clone(&scan.source));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(looked.is_ok(), "nothing in it fails");
    found
}

/// `input`, which is what became of `part`, without the columns that nothing else in the `whole`
/// statement names.
fn with_used_columns(
    whole: &LogicalPlan,
    part: &LogicalPlan,
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    let mut used = Used { part, names: HashSet::new(), all: false };
    used.look(whole, false)?;
    let schema = Arc::clone(input.schema());
    let is_used = |field: &(Option<&TableReference>, &Arc<arrow::datatypes::Field>)| {
        used.names.contains(field.1.name())
    };
    let mut kept: Vec<Expr> = schema.iter().filter(is_used).map(Expr::from).collect();
    if used.all || kept.len() == schema.fields().len() {
        return Ok(input);
    }
    if kept.is_empty() {
        kept.extend(schema.iter().next().map(Expr::from));
    }
    LogicalPlanBuilder::from(input).project(kept)?.build()
}

/// What of the columns of a part is used outside of it.
struct Used<'a> {
    part: &'a LogicalPlan,
    /// Names of columns that occur.
    names: HashSet<String>,
    /// Somewhere all are used without being named.
    all: bool,
}

impl Used<'_> {
    /// `listed`: of the columns that come out of `plan` only those are used that are named above.
    fn look(&mut self, plan: &LogicalPlan, listed: bool) -> Result<()> {
        if Copies::place(plan).is_some() && Copies.same(plan, self.part) {
            self.all |= !listed;
            return Ok(());
        }
        plan.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part {
                    self.names.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let listed = match plan {
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => true,
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Window(_) => listed,
            _ => false,
        };
        plan.apply_subqueries(|subquery| {
            self.look(subquery, false)?;
            Ok(TreeNodeRecursion::Jump)
        })?;
        plan.inputs().into_iter().try_for_each(|input| self.look(input, listed))
    }
}
