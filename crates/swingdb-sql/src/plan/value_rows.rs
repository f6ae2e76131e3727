//! `VALUES ((SELECT 1), (SELECT 2))`: rows with subqueries in them.
//!
//! The engine computes a list of values while it makes the physical plan, before it runs any
//! subquery. So a row that has one becomes a query without FROM, and what is left stays a list: all
//! of them together are a UNION ALL.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, Values};

/// A list of values, or what takes its place.
pub(crate) fn rewrite(list: Values) -> Result<Transformed<LogicalPlan>> {
    if !list.values.iter().any(|row| has_subquery(row)) {
        return Ok(Transformed::no(LogicalPlan::Values(list)));
    }
    let mut parts = Vec::new();
    for rows in list.values.chunk_by(|one, next| !has_subquery(one) && !has_subquery(next)) {
        parts.push(Arc::new(match rows {
            [row] if has_subquery(row) => {
                let names = list.schema.fields().iter().map(|field| field.name());
                let columns = row.iter().zip(names).map(|(value, name)| value.clone().alias(name));
                LogicalPlanBuilder::empty(true).project(columns)?.build()?
            }
            rows => LogicalPlan::Values(Values {
                schema: Arc::clone(&list.schema),
                values: rows.to_vec(),
            }),
        }));
    }
    Ok(Transformed::yes(match parts.as_slice() {
        [only] => only.as_ref().clone(),
        _ => LogicalPlan::Union(Union::try_new(parts)?),
    }))
}

fn has_subquery(row: &[Expr]) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    };
    row.iter().any(|value| value.exists(is_subquery).unwrap_or(true))
}
