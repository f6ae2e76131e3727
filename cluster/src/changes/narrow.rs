//! Which nodes an UPDATE or DELETE looks for rows at: [`places_of_rows`].
//!
//! The coordinator plans a SELECT with the conditions of the statement, and asks
//! [`Placing::places`] about those that reach the scan of the table. A condition with a subquery
//! says nothing here. So does one that the table alone gives no meaning to, since it is about the
//! other tables of FROM or USING. Both only leave fewer nodes out.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FromTable, Query, Statement, TableFactor, TableWithJoins, VisitorMut,
};
use swingdb::Value;
use swingdb_sql::ast::build;
use swingdb_sql::ast::walk::walk_statement;
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

use crate::error::Result;
use crate::prune::Placing;
use crate::session::{Known, Session};

/// The nodes, in order, that can have rows which a statement changes: with one copy of a shard, all
/// of its copies.
pub(crate) fn places_of_rows(
    session: &Session,
    known: &Known,
    sql: &str,
    values: &[Value],
) -> Result<Vec<usize>> {
    let cluster = session.cluster();
    let all = || (0..cluster.places().len()).collect::<Vec<_>>();
    let Some(column) = known.cut.column() else { return Ok(all()) };
    let Some((table, condition)) = target(sql)? else { return Ok(all()) };
    let mut conditions = Vec::new();
    for one in conjuncts(condition) {
        conditions.extend(pushed(session, &table, one, values)?);
    }
    let (bounds, shards) = (session.bounds(known)?, cluster.shards());
    let placing = Placing { cut: known.cut.clone(), bounds, nodes: shards };
    let places = placing.places(&conditions, known.schema.field_with_name(column)?);
    Ok(all().into_iter().filter(|nth| places.contains(&(nth % shards))).collect())
}

/// The table of an UPDATE or DELETE, with its alias, and the condition for its rows.
fn target(sql: &str) -> Result<Option<(TableFactor, Expr)>> {
    let Some(Parsed::Sql(statement)) = parse(sql)?.pop_front() else { return Ok(None) };
    let (table, condition) = match *statement {
        Statement::Update(update) => (Some(update.table), update.selection),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(mut from) | FromTable::WithoutKeyword(mut from)) =
                delete.from;
            (if from.len() == 1 { from.pop() } else { None }, delete.selection)
        }
        _ => (None, None),
    };
    let table = table.filter(|table: &TableWithJoins| table.joins.is_empty());
    Ok(table.map(|table| table.relation).zip(condition))
}

/// The conditions that all have to hold.
fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(*left);
            all.extend(conjuncts(*right));
            all
        }
        Expr::Nested(inner) => conjuncts(*inner),
        other => vec![other],
    }
}

/// What the scan of the table is asked for a condition; nothing where that is not known.
fn pushed(
    session: &Session,
    table: &TableFactor,
    condition: Expr,
    values: &[Value],
) -> Result<Vec<PlanExpr>> {
    let mut query = build::parse_query("SELECT 1 FROM t")?;
    let select = build::select_of(&mut query)?;
    select.from = vec![build::from(table.clone())];
    select.selection = Some(condition);
    let mut statement = build::statement(query, None);
    let mut queries = Queries(0);
    let _ = walk_statement(&mut statement, &mut queries);
    if queries.0 > 1 {
        return Ok(Vec::new());
    }
    match session.connection().optimized_plan(statement, values) {
        Ok(plan) => Ok(asked_of_scan(&plan)?),
        // The nodes say what is wrong, if something is.
        Err(_) => Ok(Vec::new()),
    }
}

/// Counts queries, the outermost included.
struct Queries(usize);

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// The conditions of the one scan of a plan.
fn asked_of_scan(plan: &LogicalPlan) -> Result<Vec<PlanExpr>> {
    let (mut scans, mut conditions) = (0, Vec::new());
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            scans += 1;
            conditions = scan.filters.clone();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(if scans == 1 { conditions } else { Vec::new() })
}
