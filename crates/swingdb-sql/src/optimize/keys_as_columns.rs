//! Keys that the engine cannot follow, or computes again and again, become columns:
//! [`KEYS_AS_COLUMNS`].
//!
//! Operators ask for rows in an order, and the engine's last rule checks that they come in it. It
//! derives that from bounds of each part of a key, and gives up where parts have bounds of types
//! that do not fit: `length(s) > 3`, `NOT starts_with(s, 'a')`, whose functions tell no bounds. It
//! refuses the order then that a sort by the same key has just made. A column needs no bounds. Nor
//! can it contain another key, see [`contains_another`].
//!
//! Each operator computes its keys by itself: a sort in each partition, the merge of these, the
//! window above them, the condition that tells a sorted LIMIT which rows can still come first. Of
//! `random()` and `nextval('s')` each of them would see other values. A column has one for each
//! row.
//!
//! | this | becomes |
//! |---|---|
//! | a sort by `length(s) > 3` | a sort by a column, between projections with and without it |
//! | `rank() OVER (ORDER BY length(s) > 3)` | the same around the window |
//! | `list(x ORDER BY length(s) > 3)` | the aggregate above a projection |

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Sort, SortExpr, Window};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr, create_physical_expr};

use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run after all rules that change keys.
pub(crate) const KEYS_AS_COLUMNS: OwnRule = OwnRule::bottom_up("keys_as_columns", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let made = match &plan {
        LogicalPlan::Sort(sort) => of_sort(sort)?,
        LogicalPlan::Window(window) => of_window(window)?,
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate)?,
        _ => None,
    };
    Ok(made.map_or_else(|| Transformed::no(plan), Transformed::yes))
}

fn of_sort(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let mut keys = Keys::new(&sort.input);
    let mut expr = sort.expr.clone();
    for key in &mut expr {
        if sort.fetch.is_some() && contains_another(&key.expr, &sort.expr)? {
            keys.put(&mut key.expr);
        }
    }
    keys.set_all(&mut expr);
    let Some(input) = keys.below()? else { return Ok(None) };
    let columns = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let sort = LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: sort.fetch });
    Ok(Some(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(sort))?)))
}

fn of_window(window: &Window) -> Result<Option<LogicalPlan>> {
    let mut keys = Keys::new(&window.input);
    let names = NamePreserver::new_for_projection();
    let mut calls = Vec::with_capacity(window.window_expr.len());
    for call in &window.window_expr {
        let name = names.save(call);
        let changed = call.clone().transform_down(|part| match part {
            Expr::WindowFunction(mut call) => {
                keys.set_all(&mut call.params.order_by);
                call.params.partition_by.iter_mut().for_each(|key| keys.set(key));
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        calls.push(name.restore(changed.data));
    }
    let Some(input) = keys.below()? else { return Ok(None) };
    let kept = window.input.schema().fields().len();
    let window = LogicalPlan::Window(Window::try_new(calls, Arc::new(input))?);
    let all = window.schema().columns();
    let behind = kept + keys.new.len();
    let columns = all[..kept].iter().chain(&all[behind..]).cloned().map(Expr::Column);
    Ok(Some(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(window))?)))
}

fn of_aggregate(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let mut keys = Keys::new(&aggregate.input);
    let names = NamePreserver::new_for_projection();
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for call in &aggregate.aggr_expr {
        let name = names.save(call);
        let changed = call.clone().transform_down(|part| match part {
            // With DISTINCT the keys are what the function is called with.
            Expr::AggregateFunction(AggregateFunction { func, mut params }) if !params.distinct => {
                keys.set_all(&mut params.order_by);
                Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
            }
            other => Ok(Transformed::no(other)),
        })?;
        calls.push(name.restore(changed.data));
    }
    let Some(input) = keys.below()? else { return Ok(None) };
    let groups = aggregate.group_expr.clone();
    Ok(Some(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, calls)?)))
}

/// The keys of an operator that become columns of its input.
struct Keys<'a> {
    input: &'a Arc<LogicalPlan>,
    new: Vec<Expr>,
}

impl<'a> Keys<'a> {
    fn new(input: &'a Arc<LogicalPlan>) -> Self {
        Self { input, new: Vec::new() }
    }

    fn set_all(&mut self, keys: &mut [SortExpr]) {
        keys.iter_mut().for_each(|key| self.set(&mut key.expr));
    }

    /// Puts a column in the place of a key whose order is lost, or whose values are drawn.
    fn set(&mut self, key: &mut Expr) {
        if key.is_volatile() || loses_order(key, self.input.schema()) {
            self.put(key);
        }
    }

    /// Puts a column in the place of a key.
    fn put(&mut self, key: &mut Expr) {
        let place = self.new.iter().position(|known| known == key).unwrap_or_else(|| {
            self.new.push(key.clone());
            self.new.len() - 1
        });
        *key = Expr::Column(Column::new_unqualified(name(place)));
    }

    /// The input with the new columns behind its own; `None` where there are none.
    fn below(&self) -> Result<Option<LogicalPlan>> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let known = self.input.schema().columns().into_iter().map(Expr::Column);
        let new = self.new.iter().enumerate().map(|(place, key)| key.clone().alias(name(place)));
        let all = known.chain(new).collect();
        Ok(Some(LogicalPlan::Projection(Projection::try_new(all, Arc::clone(self.input))?)))
    }
}

/// Whether one of the other keys is a part of a key. Of `ORDER BY a + b, b LIMIT 3` the engine
/// tells scans which rows can still come first. It finds the columns of the scan key by key, and
/// does not know `a + b` any more once it has found `b`.
fn contains_another(key: &Expr, keys: &[SortExpr]) -> Result<bool> {
    key.exists(|part| Ok(part != key && keys.iter().any(|other| other.expr == *part)))
}

fn name(place: usize) -> String {
    format!("__key_{place}")
}

/// Whether rows in the order of a key are not known to be in it.
fn loses_order(key: &Expr, schema: &DFSchema) -> bool {
    if matches!(key, Expr::Column(_) | Expr::Literal(..)) {
        return false;
    }
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    // What cannot be made here has a subquery, or is refused later.
    let Ok(key) = create_physical_expr(key, schema, &props, &context) else { return false };
    let key = PhysicalSortExpr::new_default(key);
    let mut known = EquivalenceProperties::new(Arc::clone(schema.inner()));
    known.add_ordering([key.clone()]);
    !known.ordering_satisfy([key]).unwrap_or(true)
}
