//! What rewrites of plans share: the expressions of a node, conditions above it, and how many rows
//! it gives.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, Subquery};

/// Rewrites every part of a node's expressions, the inner ones first, if any part `is_concerned`.
/// `rewrite` also gets what the node reads. Columns keep their names.
pub(crate) fn rewrite_parts(
    plan: LogicalPlan,
    is_concerned: impl Fn(&Expr) -> bool,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    if !any_part(&plan, &is_concerned) {
        return Ok(Transformed::no(plan));
    }
    let schema = read_by(&plan)?;
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| rewrite(part, &schema))?;
        let changed = rewritten.transformed;
        Ok(rewritten.update_data(|expr| if changed { name.restore(expr) } else { expr }))
    })
}

/// The columns that a node reads.
fn read_by(plan: &LogicalPlan) -> Result<DFSchemaRef> {
    Ok(match (plan.inputs().as_slice(), plan) {
        ([input], _) => Arc::clone(input.schema()),
        ([], LogicalPlan::TableScan(scan)) => {
            let table = scan.table_name.clone();
            Arc::new(DFSchema::try_from_qualified_schema(table, &scan.source.schema())?)
        }
        (inputs, _) => Arc::new(merge_schema(inputs)),
    })
}

/// Whether it is true of a part of a node's expressions.
pub(crate) fn any_part(node: &LogicalPlan, mut is: impl FnMut(&Expr) -> bool) -> bool {
    let mut found = false;
    let looked = node.apply_expressions(|expr| {
        expr.apply(|part| {
            found |= is(part);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found && looked.is_ok()
}

/// Whether it is true of a node of a plan, or of a subquery in it. To look is much cheaper than to
/// take a plan apart and put it together again, as rewrites do.
pub(crate) fn any_node(plan: &LogicalPlan, is: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= is(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// As [`any_node`], with the queries of views.
pub(crate) fn any_node_or_view(
    plan: &LogicalPlan,
    is: &impl Fn(&LogicalPlan) -> bool,
) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= is(node);
        if let LogicalPlan::TableScan(scan) = node
            && let Some(view) = scan.source.get_logical_plan()
        {
            found |= any_node_or_view(&view, is)?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The rows of a plan that fulfil all of some conditions.
pub(crate) fn filtered(plan: Arc<LogicalPlan>, conditions: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    Ok(match conjunction(conditions) {
        Some(all) => Arc::new(LogicalPlan::Filter(Filter::try_new(all, plan)?)),
        None => plan,
    })
}

/// The subquery of `x IN (SELECT y ...)` with what `change` makes of `y`, which also gets the
/// columns that `y` is of. What selects the elements stays one projection: correlated subqueries
/// are looked into.
pub(crate) fn with_element(
    subquery: Subquery,
    change: impl FnOnce(Expr, &DFSchema) -> Expr,
) -> Result<Subquery> {
    let Subquery { subquery: rows, outer_ref_columns, spans } = subquery;
    let (relation, field) = rows.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    let (element, input) = match rows.as_ref() {
        LogicalPlan::Projection(list) if list.expr.len() == 1 => {
            (list.expr[0].clone().unalias(), Arc::clone(&list.input))
        }
        _ => (Expr::Column(rows.schema().qualified_field(0).into()), rows),
    };
    let element = change(element, input.schema()).alias_qualified(relation, name);
    let list = LogicalPlan::Projection(Projection::try_new(vec![element], input)?);
    Ok(Subquery { subquery: Arc::new(list), outer_ref_columns, spans })
}

/// Whether this is an aggregate of all rows, and nothing above it that could leave it out.
pub(crate) fn is_exactly_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(list) => is_exactly_one_row(&list.input),
        LogicalPlan::SubqueryAlias(alias) => is_exactly_one_row(&alias.input),
        _ => false,
    }
}

/// Aggregates whose values are those of the first rows, of the last, or a list of all.
pub(crate) const IN_ORDER: [&str; 5] =
    ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];
