//! Names of columns in a UNION of a UNION: [`nested_unions`].

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The engine's rule that makes one UNION of nested ones. It moves a projection above a UNION to
/// each of its inputs, and there the projection's columns go by name, while those of the UNION go
/// by position. So the inputs of what it makes get the UNION's names, before an outer UNION sees
/// them.
pub(crate) fn nested_unions(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    rule.rewrite(plan, config)?.map_data(|plan| match plan {
        LogicalPlan::Union(union) => named(union),
        LogicalPlan::Distinct(Distinct::All(input)) => match Arc::unwrap_or_clone(input) {
            LogicalPlan::Union(union) => {
                Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(named(union)?))))
            }
            input => Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input)))),
        },
        plan => Ok(plan),
    })
}

/// The UNION with its names in all inputs.
fn named(union: Union) -> Result<LogicalPlan> {
    let Union { inputs, schema } = union;
    let inputs = inputs.into_iter().map(|input| match has_names(input.schema(), &schema) {
        true => Ok(input),
        false => renamed(input, &schema),
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

/// Whether the names of a UNION mean the same columns in an input.
fn has_names(input: &DFSchema, union: &DFSchema) -> bool {
    input.iter().zip(union.iter()).all(|((relation, field), (of_union, name))| {
        field.name() == name.name() && (of_union.is_none() || of_union == relation)
    })
}

fn renamed(input: Arc<LogicalPlan>, union: &DFSchema) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().iter().zip(union.iter());
    let columns = columns.map(|((relation, field), (of_union, name))| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        column.alias_qualified(of_union.cloned(), name.name())
    });
    let columns = columns.collect::<Vec<_>>();
    Ok(Arc::new(LogicalPlanBuilder::from(input).project(columns)?.build()?))
}
