//! Which statement goes where.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectType, Query, SetExpr, Statement, TransactionAccessMode, TransactionMode,
    TransactionModifier, With,
};
use swingdb_common::error::{Error, Result};
use swingdb_store::WriteTxn;

use super::txn::{Begin, Length};
use super::update::{delete_query, delete_target, update_query, update_target};
use super::{alter, assign, create, insert, merge, remove, txn, update};
use crate::sql::params::Params;
use crate::sql::session::Session;

/// What a statement did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Rows inserted, updated or deleted; `None` for statements that do not count rows.
    pub(crate) rows_changed: Option<u64>,
    /// The kind of statement, "INSERT".
    pub(crate) tag: &'static str,
    /// The rows of RETURNING.
    pub(crate) rows: Option<(SchemaRef, Vec<RecordBatch>)>,
}

impl Outcome {
    /// A statement that changed rows.
    pub(crate) fn changed(tag: &'static str, rows: u64) -> Self {
        Self { rows_changed: Some(rows), tag, rows: None }
    }

    /// A statement that does not count rows.
    pub(crate) fn done(tag: &'static str) -> Self {
        Self { rows_changed: None, tag, rows: None }
    }
}

/// Runs `run` as one atomic statement: committed at once when no transaction is open.
pub(crate) fn with_txn<T>(
    session: &Session,
    run: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    with_txn_of(session, Length::Any, run)
}

/// The same, for a statement of which it is known how long it takes.
pub(crate) fn with_txn_of<T>(
    session: &Session,
    length: Length,
    run: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    txn::with_txn(&session.txn, session.store(), length, |txn| {
        txn.set_threads(session.threads()?);
        let taking = session.numbers.begin(txn.view());
        let value = run(txn)?;
        for (schema, moved) in taking.moved() {
            txn.advance_sequence(&schema, moved)?;
        }
        Ok(value)
    })
}

/// Whether [`execute`] runs this statement.
pub(crate) fn handles(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => changing_body(query).is_some(),
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Truncate(_)
        | Statement::CreateTable(_)
        | Statement::CreateView(_)
        | Statement::CreateSchema { .. }
        | Statement::CreateIndex(_)
        | Statement::AlterTable(_)
        | Statement::Drop { .. }
        | Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. } => true,
        _ => false,
    }
}

/// `WITH ... INSERT / UPDATE / DELETE / MERGE`: the parser makes it the body of a query.
fn changing_body(query: &Query) -> Option<&Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

/// Runs a statement that [`handles`] accepts.
pub(crate) fn execute(
    session: &Session,
    statement: &Statement,
    params: &Params,
) -> Result<Outcome> {
    match statement {
        Statement::Query(query) => match changing_body(query) {
            Some(body) => data(session, body, query.with.as_ref(), params),
            None => Err(Error::internal("a query is no change")),
        },
        Statement::CreateTable(create) => create::table(session, create, params),
        Statement::CreateView(view) => create::view(session, view),
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            create::schema(session, schema_name, *if_not_exists)
        }
        Statement::CreateIndex(_) => Err(Error::unsupported(
            "CREATE INDEX; scans skip segments by their statistics, and ALTER TABLE t ADD UNIQUE \
             (a) is enforced without one",
        )),
        Statement::AlterTable(alter) => alter::table(session, alter),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
            ObjectType::Table => remove::tables(session, names, *if_exists),
            ObjectType::View => remove::views(session, names, *if_exists),
            ObjectType::Schema => remove::schemas(session, names, *if_exists, *cascade),
            other => Err(Error::unsupported(format!("DROP {other}"))),
        },
        Statement::Truncate(truncate) => {
            let names: Vec<_> = truncate.table_names.iter().map(|t| t.name.clone()).collect();
            update::truncate(session, &names, truncate.if_exists)
        }
        Statement::StartTransaction { modes, modifier, .. } => {
            begin(session, modes, modifier.as_ref())
        }
        Statement::Commit { chain: false, .. } => {
            session.txn.lock().commit()?;
            Ok(Outcome::done("COMMIT"))
        }
        Statement::Rollback { chain: false, savepoint } => roll_back(session, savepoint.as_ref()),
        Statement::Savepoint { name } => {
            session.txn.lock().savepoint(&name.value)?;
            Ok(Outcome::done("SAVEPOINT"))
        }
        Statement::ReleaseSavepoint { name } => {
            session.txn.lock().release(&name.value)?;
            Ok(Outcome::done("RELEASE"))
        }
        other => data(session, other, None, params),
    }
}

/// INSERT, UPDATE, DELETE, MERGE.
fn data(
    session: &Session,
    statement: &Statement,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    match statement {
        Statement::Insert(insert) => insert::insert(session, insert, with, params),
        Statement::Update(update) => update::update(session, update, with, params),
        Statement::Delete(delete) => update::delete(session, delete, with, params),
        Statement::Merge(merge) => merge::merge(session, merge, with, params),
        other => Err(Error::unsupported(other.to_string())),
    }
}

fn begin(
    session: &Session,
    modes: &[TransactionMode],
    modifier: Option<&TransactionModifier>,
) -> Result<Outcome> {
    let read_only = modes.contains(&TransactionMode::AccessMode(TransactionAccessMode::ReadOnly));
    let how = match modifier {
        None | Some(TransactionModifier::Deferred) if read_only => Begin::ReadOnly,
        None | Some(TransactionModifier::Deferred) => Begin::Deferred,
        Some(TransactionModifier::Immediate | TransactionModifier::Exclusive) if !read_only => {
            Begin::Immediate
        }
        Some(other) => return Err(Error::unsupported(format!("BEGIN {other} in this form"))),
    };
    session.txn.lock().begin(session.store(), how)?;
    Ok(Outcome::done("BEGIN"))
}

fn roll_back(session: &Session, savepoint: Option<&Ident>) -> Result<Outcome> {
    let mut state = session.txn.lock();
    match savepoint {
        Some(name) => state.rollback_to(&name.value)?,
        None => state.rollback()?,
    }
    Ok(Outcome::done("ROLLBACK"))
}

/// The query whose plan EXPLAIN shows for a statement that changes data; nothing is executed.
/// `None` for statements without such a query.
pub(crate) fn explain_query(session: &Session, statement: &Statement) -> Result<Option<Query>> {
    let catalog = session.txn.lock().catalog(session.store());
    let (statement, with) = match statement {
        Statement::Query(query) => match changing_body(query) {
            Some(body) => (body, query.with.as_ref()),
            None => return Ok(None),
        },
        other => (other, None),
    };
    match statement {
        Statement::Insert(insert) => Ok(insert.source.as_deref().cloned().map(|mut query| {
            if query.with.is_none() {
                query.with = with.cloned();
            }
            query
        })),
        Statement::Update(update) => {
            let named = update_target(session, &catalog, update)?;
            let sets = assign::sets(&named.target.table, &update.assignments, &named.names())?;
            update_query(&named, update, &sets, with).map(Some)
        }
        Statement::Delete(delete) => {
            let named = delete_target(session, &catalog, delete)?;
            delete_query(&named, delete, with).map(Some)
        }
        Statement::Merge(merge) => merge::explain(session, &catalog, merge, with).map(Some),
        Statement::CreateTable(create) => Ok(create.query.as_deref().cloned()),
        _ => Ok(None),
    }
}
