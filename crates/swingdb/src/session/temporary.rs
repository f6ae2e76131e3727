//! Temporary tables, views and macros: a private database of the session's own, called `temp`.
//!
//! `CREATE TEMP TABLE` makes it, with a session of its own, which runs the statements that change
//! something in it. To queries of the outer session it is an attached database whose tables need no
//! qualifier, and go before all others of their name; to the inner session the outer one's tables
//! are there as well. It is memory of its own, so it is never shared, and goes with the session.
//! BEGIN, COMMIT and ROLLBACK are carried out in both; the outer one first, which may fail.
//!
//! **Cycle.** Temporary tables live in a session of their own inside of the session.

use std::sync::{Arc, Weak};

use datafusion::sql::sqlparser::ast::{
    CommentObject, FromTable, ObjectName, ObjectNamePart, ObjectType, SetExpr, Statement,
    TableFactor, TableObject,
};
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_sql::bind::catalogs::{Catalogs, Source, match_name};
use swingdb_store::{Catalog, MacroKind};

use crate::database::Database;
use crate::session::Session;
use crate::session::transaction::Begin;

/// What the database is called.
pub(crate) const TEMP: &str = "temp";

/// A session's relation to its temporary tables, or to whose temporary tables it has.
#[derive(Default)]
pub(crate) struct Temporary {
    inner: Mutex<Option<Arc<Session>>>,
    outer: Option<Weak<Session>>,
}

impl Temporary {
    /// The session of the temporary tables, once there have been some.
    fn inner(&self) -> Option<Arc<Session>> {
        self.inner.lock().clone()
    }

    /// The session whose temporary tables this one has.
    pub(crate) fn outer(&self) -> Option<Arc<Session>> {
        self.outer.as_ref().and_then(Weak::upgrade)
    }

    /// The temporary database as queries see it.
    pub(crate) fn source(&self) -> Option<Source> {
        let inner = self.inner()?;
        let catalog = inner.txn.lock().catalog(inner.store());
        Some(Source { name: TEMP.to_string(), catalog, store: inner.store().clone() })
    }

    /// What names mean to the session of the temporary tables, whose database is `main`.
    pub(crate) fn view(&self, main: Source) -> Result<Option<Catalogs>> {
        let Some(outer) = self.outer() else { return Ok(None) };
        let mut behind = outer.view()?;
        behind.temp = None;
        Ok(Some(Catalogs {
            main,
            database_name: Some(TEMP.to_string()),
            attached: Arc::clone(&behind.attached),
            registered: Arc::clone(&behind.registered),
            registered_in_main: false,
            extra: behind.extra.clone(),
            temp: None,
            outer: Some(Arc::new(behind)),
            defined: None,
        }))
    }
}

/// The session to run a statement in that is about temporary tables, whose names are then what that
/// session calls them.
pub(crate) fn holder(
    session: &Arc<Session>,
    statement: &mut Statement,
) -> Result<Option<Arc<Session>>> {
    let creates = match statement {
        Statement::CreateTable(create) => std::mem::take(&mut create.temporary),
        Statement::CreateView(create) => std::mem::take(&mut create.temporary),
        _ => false,
    };
    let is_new = matches!(statement, Statement::CreateTable(_) | Statement::CreateView(_));
    let inner = match creates || (is_new && targets(statement).iter().any(|name| is_ours(name))) {
        true => Some(make(session)?),
        false => session.temporary.inner(),
    };
    let Some(inner) = inner else { return Ok(None) };
    let catalog = inner.txn.lock().catalog(inner.store());
    let mut names = targets(statement);
    let there = |name: &ObjectName| match is_new {
        true => creates || is_ours(name),
        false => is_ours(name) || has(&catalog, name),
    };
    let ours = names.iter().filter(|name| there(name)).count();
    if ours == 0 {
        return Ok(None);
    }
    if ours < names.len() {
        return Err(Error::unsupported("temporary and other tables in one statement"));
    }
    for name in &mut names {
        if is_ours(name) {
            name.0.remove(0);
        }
    }
    Ok(Some(inner))
}

/// Whether a statement changes temporary tables.
pub(crate) fn is_about(session: &Session, statement: &mut Statement) -> bool {
    targets(statement).iter().any(|name| holder_of(session, name).is_some())
}

/// The session in which a table named by a program, or by COPY, is changed, and its name there.
pub(crate) fn holder_of(
    session: &Session,
    name: &ObjectName,
) -> Option<(Arc<Session>, ObjectName)> {
    let inner = session.temporary.inner()?;
    let catalog = inner.txn.lock().catalog(inner.store());
    let mut name = name.clone();
    if is_ours(&name) {
        name.0.remove(0);
    } else if !has(&catalog, &name) {
        return None;
    }
    Some((inner, name))
}

/// The session in which a macro is made that is temporary, and its name there.
pub(crate) fn maker(
    session: &Arc<Session>,
    temporary: bool,
    name: &mut ObjectName,
) -> Result<Option<Arc<Session>>> {
    let ours = is_ours(name);
    if ours {
        name.0.remove(0);
    }
    if temporary || ours { make(session).map(Some) } else { Ok(None) }
}

/// The session that has a temporary macro, and its name there.
pub(crate) fn holder_of_macro(
    session: &Session,
    name: &mut ObjectName,
    kind: MacroKind,
) -> Option<Arc<Session>> {
    let inner = session.temporary.inner()?;
    let catalog = inner.txn.lock().catalog(inner.store());
    if is_ours(name) {
        name.0.remove(0);
        return Some(inner);
    }
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    let mut names = catalog.macro_names(swingdb_sql::ast::names::SCHEMA, kind);
    if kind == MacroKind::Scalar {
        // Without a word about its kind, either may be meant.
        names.extend(catalog.macro_names(swingdb_sql::ast::names::SCHEMA, MacroKind::Table));
    }
    match_name(names.iter().map(String::as_str), &ident.value).map(|_| inner)
}

fn make(session: &Arc<Session>) -> Result<Arc<Session>> {
    let mut inner = session.temporary.inner.lock();
    if let Some(inner) = &*inner {
        return Ok(Arc::clone(inner));
    }
    let database = match session.database().home() {
        Some(home) => Database::private_in(home)?,
        None => Database::private()?,
    };
    let outer = Some(Arc::downgrade(session));
    let made = Arc::new(Session::with(database, Temporary { outer, ..Temporary::default() }));
    if session.in_transaction() {
        made.txn.lock().begin(made.store(), Begin::Deferred)?;
    }
    *inner = Some(Arc::clone(&made));
    Ok(made)
}

/// Does to the temporary tables what a statement about the transaction did to the others.
pub(crate) fn follow(session: &Session, statement: &Statement, done: bool) -> Result<()> {
    let Some(inner) = session.temporary.inner() else { return Ok(()) };
    let mut txn = inner.txn.lock();
    match statement {
        Statement::StartTransaction { .. } if done => txn.begin(inner.store(), Begin::Deferred),
        Statement::Commit { .. } if done => txn.commit(),
        // A COMMIT that fails ends the transaction too.
        Statement::Commit { .. } | Statement::Rollback { savepoint: None, .. }
            if txn.is_open() && !session.in_transaction() =>
        {
            txn.rollback()
        }
        Statement::Savepoint { name } if done => txn.savepoint(&name.value),
        Statement::Rollback { savepoint: Some(name), .. } if done => {
            match txn.rollback_to(&name.value) {
                // It was made before there were temporary tables.
                Err(Error::NotFound { .. }) => {
                    txn.rollback()?;
                    txn.begin(inner.store(), Begin::Deferred)
                }
                other => other,
            }
        }
        Statement::ReleaseSavepoint { name } if done => match txn.release(&name.value) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        },
        _ => Ok(()),
    }
}

/// The names of the tables and views that a statement changes.
fn targets(statement: &mut Statement) -> Vec<&mut ObjectName> {
    fn factor(factor: &mut TableFactor) -> Vec<&mut ObjectName> {
        match factor {
            TableFactor::Table { name, .. } => vec![name],
            _ => Vec::new(),
        }
    }
    match statement {
        Statement::CreateTable(create) => vec![&mut create.name],
        Statement::CreateView(create) => vec![&mut create.name],
        Statement::CreateIndex(create) => vec![&mut create.table_name],
        Statement::Comment {
            object_type: CommentObject::Table | CommentObject::View,
            object_name,
            ..
        } => vec![object_name],
        Statement::Insert(insert) => match &mut insert.table {
            TableObject::TableName(name) => vec![name],
            _ => Vec::new(),
        },
        Statement::Update(update) => factor(&mut update.table.relation),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                &mut delete.from;
            from.iter_mut().flat_map(|table| factor(&mut table.relation)).collect()
        }
        Statement::Merge(merge) => factor(&mut merge.table),
        Statement::Truncate(truncate) => {
            truncate.table_names.iter_mut().map(|table| &mut table.name).collect()
        }
        Statement::AlterTable(alter) => vec![&mut alter.name],
        Statement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
            names.iter_mut().collect()
        }
        Statement::Query(query) => match query.body.as_mut() {
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => targets(statement),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// `temp.x`.
fn is_ours(name: &ObjectName) -> bool {
    let first = name.0.first().and_then(ObjectNamePart::as_ident);
    name.0.len() > 1 && first.is_some_and(|ident| ident.value.eq_ignore_ascii_case(TEMP))
}

/// Whether an unqualified name is one of the temporary tables or views.
fn has(catalog: &Catalog, name: &ObjectName) -> bool {
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return false };
    // Marks of the statement's own code begin with a control character.
    let name = ident.value.split('\u{1}').next().unwrap_or_default();
    let mut names = catalog.table_names(swingdb_sql::ast::names::SCHEMA).unwrap_or_default();
    names.extend(catalog.view_names(swingdb_sql::ast::names::SCHEMA));
    match_name(names.iter().map(String::as_str), name).is_some()
}
