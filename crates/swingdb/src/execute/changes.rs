//! Which statement goes where.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectType, Query, SetExpr, Statement, TransactionAccessMode, TransactionMode,
    TransactionModifier, With,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;
use swingdb_sql::bind::sequences;
use swingdb_sql::text::parameters::Params;

use crate::execute::atomic::{Outcome, all_or_nothing, with_txn};
use crate::execute::ddl::{alter, comments, create, drop, indexes};
use crate::execute::dml::update::{delete_query, delete_target, update_query, update_target};
use crate::execute::dml::{insert, merge, set_list, update};
use crate::session::transaction::Begin;
use crate::session::{Session, temporary};

/// The savepoint of a statement that changes temporary tables, and takes numbers from sequences of
/// the session's database: no identifier that a person writes contains a control character.
const NUMBERS: &str = hidden!("numbers");

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
        | Statement::Comment { .. }
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
        Statement::CreateIndex(create) => indexes::create(session, create),
        Statement::Comment { object_type, object_name, comment, if_exists } => {
            comments::comment(session, *object_type, object_name, comment.as_deref(), *if_exists)
        }
        Statement::AlterTable(alter) => alter::table(session, alter),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
            ObjectType::Table => drop::tables(session, names, *if_exists),
            ObjectType::View => drop::views(session, names, *if_exists),
            ObjectType::Index => indexes::remove(session, names, *if_exists),
            ObjectType::Schema => drop::schemas(session, names, *if_exists, *cascade),
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
            session.commit()?;
            Ok(Outcome::done("COMMIT"))
        }
        Statement::Rollback { chain: false, savepoint } => roll_back(session, savepoint.as_ref()),
        Statement::Savepoint { name } => {
            session.savepoint(&name.value)?;
            Ok(Outcome::done("SAVEPOINT"))
        }
        Statement::ReleaseSavepoint { name } => {
            session.release(&name.value)?;
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
    session.begin(how)?;
    Ok(Outcome::done("BEGIN"))
}

fn roll_back(session: &Session, savepoint: Option<&Ident>) -> Result<Outcome> {
    match savepoint {
        Some(name) => session.rollback_to(&name.value)?,
        None => session.rollback()?,
    }
    Ok(Outcome::done("ROLLBACK"))
}

/// The query whose plan EXPLAIN shows for a statement that changes data; nothing is executed.
/// `None` for statements without such a query.
pub(crate) fn explain_query(session: &Session, statement: &Statement) -> Result<Option<Query>> {
    let catalog = session.catalog();
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
            let sets = set_list::sets(&named.target.table, &update.assignments, &named.names())?;
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

/// Runs a statement that [`handles`] accepts, on the side that it changes.
pub(crate) fn run(
    session: &Arc<Session>,
    statement: &mut Statement,
    params: &Params,
) -> Result<Outcome> {
    let changing = temporary::of_statement(session, statement)?;
    match changing.changes_temp() && sequences::are_used(statement) {
        // The numbers are of the session's own database.
        true => all_or_nothing(session, NUMBERS, || {
            with_txn(session, |_| execute(&changing, statement, params))
        }),
        false => execute(&changing, statement, params),
    }
}
