//! `WITH gone AS (DELETE FROM t WHERE old RETURNING *) INSERT INTO archive SELECT * FROM gone`.
//!
//! The changes of the WITH clause are carried out one after the other, in the order in which they
//! are written; each of them, and the statement behind them, sees what those before it did. The
//! rows that one returns are a table to those that follow. All of it happens, or nothing.
//!
//! **Cycle.** It runs statements.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement, With};
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_sql::ast::build;
use swingdb_sql::text::parameters::Params;

use crate::execute::atomic::all_or_nothing;
use crate::execute::statement;
use crate::session::Session;
use crate::session::given::GivenTable;
use crate::session::result::QueryResult;

/// The savepoint; the tables of returned rows are called so, with a number.
const CHANGED: &str = hidden!("changed");

/// Whether a statement has changes in its WITH clause.
pub(crate) fn has_some(statement: &Statement) -> bool {
    let Statement::Query(query) = statement else { return false };
    let with = query.with.as_ref();
    with.is_some_and(|with| with.cte_tables.iter().any(|one| is_change(&one.query)))
}

fn is_change(query: &Query) -> bool {
    matches!(
        query.body.as_ref(),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

/// Runs such a statement.
pub(crate) fn run(
    session: &Arc<Session>,
    statement: Statement,
    params: &Params,
) -> Result<QueryResult> {
    let Statement::Query(query) = statement else {
        return Err(Error::internal("a statement without a WITH clause"));
    };
    let _given = Given(session);
    all_or_nothing(session, CHANGED, || changed(session, *query, params))
}

/// Forgets the returned rows, whatever happens.
struct Given<'a>(&'a Arc<Session>);

impl Drop for Given<'_> {
    fn drop(&mut self) {
        self.0.forget_given();
    }
}

fn changed(session: &Arc<Session>, mut query: Query, params: &Params) -> Result<QueryResult> {
    let Some(With { with_token, recursive, cte_tables }) = query.with.take() else {
        return Err(Error::internal("a statement without a WITH clause"));
    };
    let mut known = With { with_token, recursive, cte_tables: Vec::new() };
    for (at, mut one) in cte_tables.into_iter().enumerate() {
        if is_change(&one.query) {
            let mut change = Statement::Query(one.query);
            if let Statement::Query(change) = &mut change {
                add_before(change, &known);
            }
            let rows = statement::execute_sql(session, change, params)?;
            let schema = rows.schema();
            if schema.fields().is_empty() {
                // Nothing is returned, so there is nothing to name.
                continue;
            }
            let name = format!("{CHANGED} {at}");
            one.query = Box::new(build::parse_query(&format!("SELECT * FROM \"{name}\""))?);
            session.give(name, Arc::new(GivenTable::try_new(schema, rows.collect()?)?));
        }
        known.cte_tables.push(one);
    }
    add_before(&mut query, &known);
    let rows = statement::execute_sql(session, Statement::Query(Box::new(query)), params)?;
    let (schema, tag, count) = (rows.schema(), rows.tag(), rows.rows_changed());
    let engine = session.engine()?;
    let batches = AccountedRows::new("SELECT", &engine).over(rows).collect::<Result<Vec<_>>>()?;
    let result = match schema.fields().is_empty() {
        true => QueryResult::changed(count, tag),
        false => QueryResult::ready(schema, batches, tag).with_rows_changed(count),
    };
    Ok(result.in_zone(session.zone()))
}

/// Lets a query use the queries of a WITH clause, beside those of its own.
fn add_before(query: &mut Query, known: &With) {
    if known.cte_tables.is_empty() {
        return;
    }
    match &mut query.with {
        Some(own) => {
            own.recursive |= known.recursive;
            own.cte_tables.splice(0..0, known.cte_tables.iter().cloned());
        }
        None => query.with = Some(known.clone()),
    }
}
