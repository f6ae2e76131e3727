//! Aggregates that may differ each time they are computed, and where that would be seen:
//! [`is_compared`].
//!
//! A sum of floating point numbers depends on their order, and so does which value is the first
//! one. Rows come in another order each time, as threads share the work. Nobody sees that in one
//! result. But where a query of a `WITH` is computed for each of its names, with other conditions,
//! it is seen where the copies are compared: `WITH s AS (SELECT g, sum(x) AS x ...) SELECT g FROM s
//! WHERE g > 1 AND x = (SELECT max(x) FROM s)` finds nothing.
//!
//! Columns are followed by their names alone, so more may be found than there is.

use std::collections::HashSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};

use crate::nodes::expressions::any_node_or_view;

/// Aggregates that do not depend on the order of rows.
const STEADY: [&str; 10] = [
    "count",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "median",
    "approx_distinct",
];
/// Those that do not where their values are no floating point numbers.
const STEADY_IF_EXACT: [&str; 2] = ["sum", "avg"];

/// Whether a plan computes something that may differ the next time.
pub(crate) fn computes(plan: &LogicalPlan) -> Result<bool> {
    any_node_or_view(plan, &|node| match node {
        LogicalPlan::Aggregate(node) => {
            node.aggr_expr.iter().any(|expr| is_unsteady(expr, node.input.schema()))
        }
        _ => false,
    })
}

/// Whether what may differ meets values from elsewhere, in a comparison or in one expression.
pub(crate) fn is_compared(plan: &LogicalPlan) -> Result<bool> {
    let mut names = Unsteady::default();
    loop {
        let before = names.0.len();
        names.follow(plan)?;
        if names.0.len() == before {
            break;
        }
    }
    Ok(!names.0.is_empty() && names.meet(plan, true)?)
}

/// Names of columns that may differ.
#[derive(Default)]
struct Unsteady(HashSet<String>);

/// What an expression is made of.
#[derive(Default)]
struct Made<'a> {
    /// Some of it may differ.
    is_unsteady: bool,
    relations: HashSet<Option<&'a TableReference>>,
    /// It names rows of another query, or has one in it.
    has_query: bool,
}

impl Unsteady {
    /// Adds the names that nodes give to what may differ.
    fn follow(&mut self, plan: &LogicalPlan) -> Result<()> {
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::Aggregate(node) => {
                    let input = node.input.schema();
                    self.name(&node.aggr_expr, |expr| is_unsteady(expr, input))?;
                    self.name(&node.group_expr, |_| false)?;
                }
                LogicalPlan::Projection(node) => self.name(&node.expr, |_| false)?,
                LogicalPlan::Window(node) => self.name(&node.window_expr, |_| false)?,
                LogicalPlan::Union(union) => {
                    for input in &union.inputs {
                        let fields = input.schema().fields().iter().zip(union.schema.fields());
                        let differ = fields.filter(|(field, _)| self.0.contains(field.name()));
                        let names: Vec<_> = differ.map(|(_, field)| field.name().clone()).collect();
                        self.0.extend(names);
                    }
                }
                LogicalPlan::TableScan(scan) => {
                    if let Some(view) = scan.source.get_logical_plan() {
                        self.follow(&view)?;
                    }
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// Adds the names of those that are made of what may differ, or are said to.
    fn name(&mut self, exprs: &[Expr], are: impl Fn(&Expr) -> bool) -> Result<()> {
        for expr in exprs {
            if are(expr) || self.made(expr)?.is_unsteady {
                self.0.insert(expr.qualified_name().1);
            }
        }
        Ok(())
    }

    fn made<'a>(&self, expr: &'a Expr) -> Result<Made<'a>> {
        let mut made = Made::default();
        expr.apply(|part| {
            let query = match part {
                Expr::Column(column) => {
                    made.is_unsteady |= self.0.contains(&column.name);
                    made.relations.insert(column.relation.as_ref());
                    None
                }
                Expr::OuterReferenceColumn(_, column) => {
                    made.is_unsteady |= self.0.contains(&column.name);
                    made.has_query = true;
                    None
                }
                Expr::ScalarSubquery(query) => Some(query),
                Expr::InSubquery(list) => Some(&list.subquery),
                Expr::SetComparison(set) => Some(&set.subquery),
                _ => None,
            };
            if let Some(query) = query {
                made.has_query = true;
                made.is_unsteady |= self.is_of(query.subquery.schema());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(made)
    }

    fn is_of(&self, schema: &DFSchema) -> bool {
        schema.fields().iter().any(|field| self.0.contains(field.name()))
    }

    /// `is_result`: the rows of `plan` are those of the statement, so nothing compares them.
    fn meet(&self, plan: &LogicalPlan, is_result: bool) -> Result<bool> {
        let mut meet = false;
        let mut relations = HashSet::new();
        plan.apply_expressions(|expr| {
            for part in split_conjunction(expr) {
                let made = self.made(part)?;
                meet |= made.is_unsteady && (made.relations.len() > 1 || made.has_query);
                if made.is_unsteady {
                    relations.extend(made.relations.into_iter().map(|of| of.cloned()));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        meet |= match plan {
            // Columns of several copies get out under names that do not tell where they come from.
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => {
                !is_result && relations.len() > 1
            }
            LogicalPlan::Join(join) => {
                let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
                keys.map(|key| self.made(key)).any(|made| made.is_ok_and(|it| it.is_unsteady))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                matches!(input.as_ref(), LogicalPlan::Union(_)) && self.is_of(input.schema())
            }
            _ => false,
        };
        plan.apply_subqueries(|query| {
            meet = meet || self.meet(query, false)?;
            Ok(TreeNodeRecursion::Jump)
        })?;
        let is_result = is_result && matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Limit(_));
        for input in plan.inputs() {
            meet = meet || self.meet(input, is_result)?;
        }
        Ok(meet)
    }
}

/// Whether an expression over an aggregate's input may differ.
fn is_unsteady(expr: &Expr, input: &DFSchema) -> bool {
    let unsteady = |call: &AggregateFunction| match call.func.name() {
        name if STEADY.contains(&name) => false,
        name if STEADY_IF_EXACT.contains(&name) => call.params.args.iter().any(|arg| {
            let of = arg.get_type(input);
            of.is_err() || of.is_ok_and(|of| of.is_floating())
        }),
        _ => true,
    };
    let found = expr.exists(|part| match part {
        Expr::AggregateFunction(call) => Ok(unsteady(call)),
        _ => Ok(false),
    });
    found.unwrap_or(true)
}
