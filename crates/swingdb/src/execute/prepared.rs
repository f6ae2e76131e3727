//! PREPARE, EXECUTE and DEALLOCATE.
//!
//! A prepared statement is kept as its syntax tree, in the session. EXECUTE gives values to its
//! parameters and runs it as if it had been written there: names mean what they mean then. Values
//! may be any expressions without tables, and parameters of the EXECUTE itself.
//!
//! **Cycle.** EXECUTE runs a statement.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Statement, Value};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::execute::statement::execute_sql;
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::sql::ast::build;
use crate::sql::ast::names::parts;
use crate::sql::bind::lookahead::Lookahead;
use crate::sql::planner::Planner;
use crate::sql::text::parameters;
use crate::sql::text::parameters::Params;

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

fn prepare(session: &Session, name: &Ident, statement: Statement) -> Result<QueryResult> {
    if matches!(
        statement,
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. }
    ) {
        return Err(Error::unsupported("PREPARE of a statement about prepared statements"));
    }
    let mut prepared = session.prepared.lock();
    let key = name.value.to_lowercase();
    // A later one of the same name takes its place, as in DuckDB.
    if prepared.len() >= MAX_PREPARED && !prepared.contains_key(&key) {
        return Err(Error::plan(format!("more than {MAX_PREPARED} prepared statements")));
    }
    prepared.insert(key, statement);
    Ok(QueryResult::changed(None, "PREPARE"))
}

fn deallocate(session: &Session, name: &Ident) -> Result<QueryResult> {
    let mut prepared = session.prepared.lock();
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
    session.prepared.lock().get(&name.to_lowercase()).cloned()
}

fn execute(
    session: &Arc<Session>,
    name: &ObjectName,
    given: Vec<Expr>,
    params: &Params,
) -> Result<QueryResult> {
    let name = parts(name)?.join(".");
    let mut statement = {
        let prepared = session.prepared.lock();
        let found = prepared.get(&name.to_lowercase()).cloned();
        found.ok_or_else(|| {
            Error::not_found(ObjectKind::Statement, name.as_str(), prepared.keys())
        })?
    };
    let (mut next, mut names) = (1, Vec::new());
    parameters::number_parameters(&mut statement, &mut next, &mut names)?;
    let values = values(session, given, params)?;
    let values = match names.is_empty() {
        true => Params::of_scalars(values).of_count(next - 1)?,
        // $name in order of appearance.
        false => Params::of_scalars(values).of_count(names.len())?,
    };
    execute_sql(session, statement, &values)
}

/// The values of the expressions of an EXECUTE.
fn values(session: &Session, given: Vec<Expr>, params: &Params) -> Result<Vec<ScalarValue>> {
    if given.is_empty() {
        return Ok(Vec::new());
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
