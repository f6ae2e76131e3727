//! Rows of a recursive UNION, told apart by all that is in them.
//!
//! The engine numbers the rows that it has seen, and takes a row for new where its number is above
//! those before. But its numbers do not always go up: of several columns, and of lists and the
//! like, rows of one hash, as (5, NULL, 6) and (5, 6, NULL) are, get theirs behind the rest of
//! their batch, and all between them are lost. Beside a column of nothing but NULL, which that
//! table of rows does not take, it uses another one, that numbers them in their order.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, RecursiveQuery, TableScan};
use swingdb_common::hidden;

/// No user's column is called so.
const NOTHING: &str = hidden!("nothing");

/// The plan with that column in its recursive queries.
pub(crate) fn told_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let told = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::RecursiveQuery(query) if query.is_distinct && may_lose(&query) => {
            with_nothing(query).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(told?.data)
}

/// Whether rows are not numbered in their order as they are.
fn may_lose(query: &RecursiveQuery) -> bool {
    match query.schema.fields().as_ref() {
        [only] => {
            let given = only.data_type();
            !(given.is_integer() || given.is_floating() || given.is_string())
        }
        _ => true,
    }
}

fn with_nothing(query: RecursiveQuery) -> Result<LogicalPlan> {
    let RecursiveQuery { name, static_term, recursive_term, is_distinct, schema } = query;
    let recursive_term = Arc::unwrap_or_clone(recursive_term);
    let recursive_term = recursive_term.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) => of_more_columns(scan, &name),
        other => Ok(Transformed::no(other)),
    })?;
    let terms = [static_term, Arc::new(recursive_term.data)].map(beside_nothing);
    let [static_term, recursive_term] = terms;
    let query = RecursiveQuery::try_new(name, static_term?, recursive_term?, is_distinct)?;
    let query = LogicalPlan::RecursiveQuery(query);
    let shown = query.schema().iter().take(schema.fields().len()).map(Expr::from);
    let shown = shown.collect();
    let shown = Projection::try_new_with_schema(shown, Arc::new(query), schema)?;
    Ok(LogicalPlan::Projection(shown))
}

fn beside_nothing(term: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let columns = term.schema().iter().map(Expr::from);
    let nothing = Expr::Literal(ScalarValue::Null, None).alias(NOTHING);
    let columns = columns.chain([nothing]).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, term)?)))
}

/// The same columns of the rows before, which have one more.
fn of_more_columns(scan: TableScan, query: &str) -> Result<Transformed<LogicalPlan>> {
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<CteWorkTable>() else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    if table.name() != query {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    }
    let fields = table.schema().fields().clone();
    let shown = scan.projection.unwrap_or_else(|| (0..fields.len()).collect());
    let nothing = Arc::new(Field::new(NOTHING, DataType::Null, true));
    let schema = Schema::new(fields.iter().cloned().chain([nothing]).collect::<Vec<_>>());
    let source = provider_as_source(Arc::new(CteWorkTable::new(query, Arc::new(schema))));
    let scan = TableScan { source, projection: Some(shown), ..scan };
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}
