//! PREPARE, EXECUTE and DEALLOCATE.
//!
//! A prepared statement is kept as its syntax tree, in the session. EXECUTE gives values to its
//! parameters and runs it as if it had been written there: names mean what they mean then. Values
//! may be any expressions without tables, and parameters of the EXECUTE itself.
//!
//! **Cycle.** EXECUTE runs a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Statement, Value};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::parts;
use swingdb_sql::bind::lookahead::Lookahead;
use swingdb_sql::planner::Planner;
use swingdb_sql::text::parameters;
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::template::{plain_execute, plain_value};

use crate::execute::query;
use crate::execute::query::Keep;
use crate::execute::statement::execute_kept;
use crate::session::plan_cache::Source;
use crate::session::result::QueryResult;
use crate::session::{PreparedStatement, Session};

/// Prepared statements a session may have.
const MAX_PREPARED: usize = 10_000;

/// Runs a PREPARE, EXECUTE or DEALLOCATE.
pub(crate) fn run(
    session: &Arc<Session>,
    statement: Statement,
    params: &Params,
) -> Result<QueryResult> {
    match statement {
        Statement::Prepare { name, statement, .. } => prepare(session, &name, *statement),
        Statement::Deallocate { name, .. } => deallocate(session, &name),
        Statement::Execute {
            name: Some(name), parameters, immediate: false, into, using, ..
        } if into.is_empty() && using.is_empty() => execute(session, &name, parameters, params),
        _ => Err(Error::unsupported("this form of EXECUTE; write EXECUTE name(values)")),
    }
}

fn prepare(session: &Session, name: &Ident, mut statement: Statement) -> Result<QueryResult> {
    if matches!(
        statement,
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. }
    ) {
        return Err(Error::unsupported("PREPARE of a statement about prepared statements"));
    }
    let mut prepared = session.prepared();
    let key = name.value.to_lowercase();
    // A later one of the same name takes its place, as in DuckDB.
    if prepared.len() >= MAX_PREPARED && !prepared.contains_key(&key) {
        return Err(Error::plan(format!("more than {MAX_PREPARED} prepared statements")));
    }
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let text = statement.to_string().len();
    let source = Source::Prepared(NEXT.fetch_add(1, Ordering::Relaxed), text);
    let (mut next, mut names) = (1, Vec::new());
    parameters::number_parameters(&mut statement, &mut next, &mut names)?;
    // $name in order of appearance: EXECUTE gives values without names.
    let count = if names.is_empty() { next - 1 } else { names.len() };
    let numbering = Numbering { count, names: Vec::new() };
    prepared.insert(key, PreparedStatement { statement, numbering, source });
    Ok(QueryResult::changed(None, "PREPARE"))
}

fn deallocate(session: &Session, name: &Ident) -> Result<QueryResult> {
    let mut prepared = session.prepared();
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
        prepared.clear();
    } else if prepared.remove(&name.value.to_lowercase()).is_none() {
        return Err(Error::not_found(ObjectKind::Statement, name.value.as_str(), prepared.keys()));
    }
    Ok(QueryResult::changed(None, "DEALLOCATE"))
}

/// The statement that EXECUTE runs under a name.
pub(crate) fn find(session: &Session, name: &ObjectName) -> Option<Statement> {
    let name = parts(name).ok()?.join(".");
    let prepared = session.prepared();
    prepared.get(&name.to_lowercase()).map(|found| found.statement.clone())
}

/// Starts the query of a text that is one EXECUTE of plain values, if its optimized plan is kept.
pub(crate) fn again(session: &Session, sql: &str) -> Result<Option<QueryResult>> {
    match plain(session, sql) {
        Some((source, values)) => query::again_optimized(session, &source, &values),
        None => Ok(None),
    }
}

/// Whether the plan of such a text is kept.
pub(crate) fn is_kept(session: &Session, sql: &str) -> bool {
    let Some(conditions) = session.conditions() else { return false };
    plain(session, sql).is_some_and(|(source, _)| session.plans().knows(&source, conditions))
}

/// What a text runs that is one EXECUTE of plain values, and the values.
fn plain(session: &Session, sql: &str) -> Option<(Source, Params)> {
    let (name, values) = plain_execute(sql)?;
    let source = session.prepared().get(&name)?.source.clone();
    Some((source, Params::of_scalars(values)))
}

fn execute(
    session: &Arc<Session>,
    name: &ObjectName,
    given: Vec<Expr>,
    params: &Params,
) -> Result<QueryResult> {
    let name = parts(name)?.join(".");
    let found = {
        let prepared = session.prepared();
        let found = prepared.get(&name.to_lowercase()).cloned();
        found.ok_or_else(|| {
            Error::not_found(ObjectKind::Statement, name.as_str(), prepared.keys())
        })?
    };
    let PreparedStatement { statement, numbering, source } = found;
    let values = Params::of_scalars(values(session, given, params)?);
    if let Some(rows) = query::again(session, &source, &values)? {
        return Ok(rows);
    }
    let values = values.in_numbering(&numbering)?;
    let keep = Keep { source, numbering, template: None };
    execute_kept(session, statement, &values, Some(keep))
}

/// The values of the expressions of an EXECUTE.
fn values(session: &Session, given: Vec<Expr>, params: &Params) -> Result<Vec<ScalarValue>> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(values) = given.iter().map(literal).collect() {
        return Ok(values);
    }
    // Nearly always they are written as they are, and no query need run.
    let written = given.iter().all(|value| match value {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        _ => false,
    });
    let items = given.into_iter().enumerate();
    let items = items.map(|(index, expr)| build::item(expr, format!("{index}"))).collect();
    let mut query = build::statement(build::select(items, Vec::new(), None)?, None);
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::new(&view, &engine).with_params(params);
    if written {
        return planner.constants(query);
    }
    planner.prepare(&mut query)?;
    let stream = session.run(planner.plan(query)?)?;
    let batches = stream.collect::<Result<Vec<RecordBatch>>>()?;
    match batches.as_slice() {
        [batch] if batch.num_rows() == 1 => {
            let columns = batch.columns().iter();
            columns.map(|c| Ok(ScalarValue::try_from_array(c, 0)?)).collect()
        }
        _ => Err(Error::internal("EXECUTE computed more or less than one row of values")),
    }
}

/// The value of an expression that is a whole number, text, truth value or NULL, as the engine
/// takes it.
fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Boolean(truth) => Some(ScalarValue::Boolean(Some(*truth))),
            Value::Null => Some(ScalarValue::Null),
            _ => plain_value(expr),
        },
        other => plain_value(other),
    }
}
