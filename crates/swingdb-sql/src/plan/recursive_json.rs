//! JSON in recursive queries.
//!
//! The rows of the first query decide whether a column is JSON. The engine refuses a recursive
//! query whose columns are not [marked](swingdb_functions::json::to_json) alike; what it makes
//! becomes text, or is checked to be JSON, as DuckDB casts it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, RecursiveQuery};

/// Gives the columns of the recursive part the marks of the first one's.
pub(crate) fn rewrite(mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let expected = query.static_term.schema().fields().iter();
    let given = query.recursive_term.schema();
    let mut changed = false;
    let items = expected.zip(given.iter()).map(|(expected, (relation, field))| {
        let column = Expr::from((relation, field));
        match swingdb_functions::json::to_json::marked_as(expected, field, &column) {
            Some(item) => {
                changed = true;
                item.alias(field.name())
            }
            None => column,
        }
    });
    let items = items.collect::<Vec<_>>();
    if changed {
        let term = LogicalPlanBuilder::from(query.recursive_term).project(items)?;
        query.recursive_term = Arc::new(term.build()?);
    }
    let plan = LogicalPlan::RecursiveQuery(query);
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}
