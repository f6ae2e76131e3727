//! On which [side](super::side) of a session the names lie that a statement changes.
//!
//! What is chosen is taken off the names: `temp.t` is `t` on the side of temporary tables.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    CommentObject, FromTable, ObjectName, ObjectNamePart, ObjectType, SetExpr, Statement,
    TableFactor, TableObject,
};
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::names::SCHEMA;
use swingdb_sql::bind::catalogs::match_name;
use swingdb_store::{Catalog, MacroKind};

use crate::session::Session;
use crate::session::side::TEMP;

/// The session for what a statement changes, whose names are then those of the side.
pub(crate) fn of_statement(
    session: &Arc<Session>,
    statement: &mut Statement,
) -> Result<Arc<Session>> {
    let creates = match statement {
        Statement::CreateTable(create) => std::mem::take(&mut create.temporary),
        Statement::CreateView(create) => std::mem::take(&mut create.temporary),
        _ => false,
    };
    let is_new = matches!(statement, Statement::CreateTable(_) | Statement::CreateView(_));
    let side = match creates || (is_new && targets(statement).iter().any(|name| is_ours(name))) {
        true => Some(session.make_temp()?),
        false => session.temp(),
    };
    let Some(side) = side else { return Ok(Arc::clone(session)) };
    let catalog = side.catalog();
    let mut names = targets(statement);
    let there = |name: &ObjectName| match is_new {
        true => creates || is_ours(name),
        false => is_ours(name) || has(&catalog, name),
    };
    let ours = names.iter().filter(|name| there(name)).count();
    if ours == 0 {
        return Ok(Arc::clone(session));
    }
    if ours < names.len() {
        return Err(Error::unsupported("temporary and other tables in one statement"));
    }
    names.iter_mut().for_each(|name| {
        take_off(name);
    });
    Ok(session.changing(side))
}

/// The session for a table that a program, or COPY, names, and the table's name on its side.
pub(crate) fn of_table(session: &Arc<Session>, name: &ObjectName) -> (Arc<Session>, ObjectName) {
    let mut name = name.clone();
    match session.temp() {
        Some(side) if take_off(&mut name) || has(&side.catalog(), &name) => {
            (session.changing(side), name)
        }
        _ => (Arc::clone(session), name),
    }
}

/// The session for a macro that is made, whose name is then that on its side.
pub(crate) fn of_new_macro(
    session: &Arc<Session>,
    temporary: bool,
    name: &mut ObjectName,
) -> Result<Arc<Session>> {
    match take_off(name) || temporary {
        true => Ok(session.changing(session.make_temp()?)),
        false => Ok(Arc::clone(session)),
    }
}

/// The session for a macro, whose name is then that on its side.
pub(crate) fn of_macro(
    session: &Arc<Session>,
    name: &mut ObjectName,
    kind: MacroKind,
) -> Arc<Session> {
    match session.temp() {
        Some(side) if take_off(name) || has_macro(&side.catalog(), name, kind) => {
            session.changing(side)
        }
        _ => Arc::clone(session),
    }
}

fn has_macro(catalog: &Catalog, name: &ObjectName, kind: MacroKind) -> bool {
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return false };
    let mut names = catalog.macro_names(SCHEMA, kind);
    if kind == MacroKind::Scalar {
        // Without a word about its kind, either may be meant.
        names.extend(catalog.macro_names(SCHEMA, MacroKind::Table));
    }
    match_name(names.iter().map(String::as_str), &ident.value).is_some()
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

/// Takes `temp.` off a name; whether there was one.
fn take_off(name: &mut ObjectName) -> bool {
    let is_ours = is_ours(name);
    if is_ours {
        name.0.remove(0);
    }
    is_ours
}

/// Whether an unqualified name is one of the temporary tables or views.
fn has(catalog: &Catalog, name: &ObjectName) -> bool {
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return false };
    let mut names = catalog.table_names(SCHEMA).unwrap_or_default();
    names.extend(catalog.view_names(SCHEMA));
    match_name(names.iter().map(String::as_str), &ident.value).is_some()
}
