//! UNION of columns whose types differ, below subqueries that refer to them.
//!
//! The query engine gives such a column the type of the first query until it settles all types.
//! What refers to it from inside of a subquery keeps that type, and is then compared with values of
//! another one. So the queries of a UNION get one type here, and references are told of it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery, Union};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;

use crate::nodes::expressions::{any_node, any_part};

/// The plan with one type for each column of a UNION, and for what refers to it. `retyped`: there
/// were columns of several types, which have one by now.
pub(crate) fn settle(plan: LogicalPlan, retyped: bool) -> Result<LogicalPlan> {
    let is_mixed = |node: &LogicalPlan| matches!(node, LogicalPlan::Union(union) if mixed(union));
    let is_correlated =
        |node: &LogicalPlan| any_part(node, |part| matches!(part, Expr::OuterReferenceColumn(..)));
    if !(retyped || any_node(&plan, is_mixed)?) || !any_node(&plan, is_correlated)? {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) if mixed(&union) => of_one_type(union),
        node => node.recompute_schema().map(Transformed::yes),
    })?;
    let plan = plan.data.transform_down_with_subqueries(told)?;
    let plan = plan
        .data
        .transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
    Ok(plan.data)
}

fn mixed(union: &Union) -> bool {
    union.inputs.iter().any(|input| {
        let types = input.schema().fields().iter().zip(union.schema.fields());
        types.into_iter().any(|(given, column)| given.data_type() != column.data_type())
    })
}

/// The UNION with all queries cast; where they cannot be, the engine says so later.
pub(crate) fn of_one_type(union: Union) -> Result<Transformed<LogicalPlan>> {
    if !mixed(&union) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let Ok(schema) = coerce_union_schema(&union.inputs) else {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    };
    let inputs = union.inputs.into_iter().map(|input| {
        let input = Arc::unwrap_or_clone(input);
        coerce_plan_expr_for_schema(input, &schema).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) })))
}

/// Tells the subqueries of a node, and what is LATERAL to it, the types of its columns.
fn told(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Join(Join { left, right, .. }) = &node
        && any_node(right, |node| matches!(node, LogicalPlan::Subquery(_)))?
    {
        let right = referring(right.as_ref().clone(), left.schema())?;
        let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
        let join = Join { right: Arc::new(right), ..join };
        return Ok(Transformed::yes(LogicalPlan::Join(join)));
    }
    let scope = match node.inputs().as_slice() {
        [] => return Ok(Transformed::no(node)),
        [input] => Arc::clone(input.schema()),
        inputs => Arc::new(merge_schema(inputs)),
    };
    node.map_subqueries(|subquery| referring(subquery, &scope).map(Transformed::yes))
}

/// A subquery whose references to columns outside have the types of these.
fn referring(plan: LogicalPlan, scope: &DFSchema) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Subquery(subquery) => {
                let columns = subquery.outer_ref_columns.into_iter();
                let columns = columns.map(|column| reference(column, scope).data).collect();
                let subquery = Subquery { outer_ref_columns: columns, ..subquery };
                return Ok(Transformed::yes(LogicalPlan::Subquery(subquery)));
            }
            node => node,
        };
        let node =
            node.map_expressions(|expr| expr.transform_up(|part| Ok(reference(part, scope))))?;
        node.data.recompute_schema().map(Transformed::yes)
    })?;
    Ok(plan.data)
}

fn reference(expr: Expr, scope: &DFSchema) -> Transformed<Expr> {
    let Expr::OuterReferenceColumn(field, column) = expr else { return Transformed::no(expr) };
    let known = match &column.relation {
        Some(relation) => scope.field_with_qualified_name(relation, &column.name),
        None => scope.field_with_unqualified_name(&column.name),
    };
    match known {
        Ok(known) if known.data_type() != field.data_type() => {
            Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(known), column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}
