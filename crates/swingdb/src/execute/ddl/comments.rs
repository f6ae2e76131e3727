//! COMMENT ON.

use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{find_name, parts, quoted};
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Commented, MacroKind, WriteTxn, view_column};

use crate::execute::atomic::{Outcome, with_txn};
use crate::execute::ddl::indexes;
use crate::execute::target::{QualifiedName, column, place, target};
use crate::session::Session;

/// Runs a COMMENT ON; without a text it removes the comment.
pub(crate) fn comment(
    session: &Session,
    kind: CommentObject,
    name: &ObjectName,
    text: Option<&str>,
    if_exists: bool,
) -> Result<Outcome> {
    with_txn(session, |txn| {
        match set(session, txn, kind, name, text) {
            Err(Error::NotFound { .. }) if if_exists => {}
            other => other?,
        }
        Ok(Outcome::done("COMMENT"))
    })
}

fn set(
    session: &Session,
    txn: &mut WriteTxn,
    kind: CommentObject,
    name: &ObjectName,
    text: Option<&str>,
) -> Result<()> {
    let catalog = txn.view();
    if kind == CommentObject::Column {
        return on_column(session, txn, name, text);
    }
    let place = place(session, &catalog, name)?;
    let (on, kind, known) = match kind {
        CommentObject::Table => {
            let found = target(session, &catalog, name)?;
            let mut notes = found.table.notes().clone();
            notes.comment = text.map(str::to_string);
            return txn.set_notes(&found.schema, &found.name, notes);
        }
        CommentObject::Index => {
            let Some((table, at)) = catalog.find_index(&place.schema, &place.name)? else {
                return Err(indexes::unknown(&catalog, &place));
            };
            let mut notes = table.notes().clone();
            notes.indexes[at].comment = text.map(str::to_string);
            return txn.set_notes(&place.schema, table.name(), notes);
        }
        CommentObject::View => {
            (Commented::View, ObjectKind::View, catalog.view_names(&place.schema))
        }
        CommentObject::Sequence => {
            (Commented::Sequence, ObjectKind::Sequence, catalog.sequence_names(&place.schema))
        }
        CommentObject::Function => {
            let scalar = catalog.macro_names(&place.schema, MacroKind::Scalar);
            match find_name(&scalar, &place.name) {
                Some(_) => (Commented::Macro, ObjectKind::Macro, scalar),
                None => {
                    let tables = catalog.macro_names(&place.schema, MacroKind::Table);
                    (Commented::TableMacro, ObjectKind::Macro, tables)
                }
            }
        }
        other => return Err(Error::unsupported(format!("COMMENT ON {other}"))),
    };
    let QualifiedName { schema, name } = &place;
    match find_name(&known, name) {
        Some(name) => txn.set_comment(schema, on, &name, text),
        None => Err(Error::not_found(kind, place.shown(), known)),
    }
}

/// `COMMENT ON COLUMN t.a`, `s.t.a`, of a table or a view.
fn on_column(
    session: &Session,
    txn: &mut WriteTxn,
    name: &ObjectName,
    text: Option<&str>,
) -> Result<()> {
    let (table, last) = split(name)?;
    let catalog = txn.view();
    let place = place(session, &catalog, &table)?;
    if let Some(view) = find_name(&catalog.view_names(&place.schema), &place.name) {
        let columns = columns_of(session, &table)?;
        let Some(column) = find_name(&columns, &last) else {
            return Err(Error::not_found(ObjectKind::Column, last, columns));
        };
        let name = view_column(&view, &column);
        return txn.set_comment(&place.schema, Commented::ViewColumn, &name, text);
    }
    let found = target(session, &txn.view(), &table)?;
    let at = column(&found.table, &last)?;
    let mut notes = found.table.notes().clone();
    match text {
        Some(text) => drop(notes.columns.insert(at, text.to_string())),
        None => drop(notes.columns.remove(&at)),
    }
    txn.set_notes(&found.schema, &found.name, notes)
}

/// The columns that a view shows.
fn columns_of(session: &Session, view: &ObjectName) -> Result<Vec<String>> {
    let mut query = build::parse_query("SELECT *")?;
    let parts = parts(view)?;
    let parts = parts.iter().map(String::as_str).collect::<Vec<_>>();
    let relation = build::table(&parts, &quoted("v"));
    build::select_of(&mut query)?.from = vec![build::from(relation)];
    let plan = session.plan(&build::statement(query, None), &Params::default())?;
    Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
}

/// A table's name and the column after it.
pub(crate) fn split(name: &ObjectName) -> Result<(ObjectName, String)> {
    let mut table = name.clone();
    let last = table.0.pop().and_then(|part| part.as_ident().map(|ident| ident.value.clone()));
    match last {
        Some(last) if !table.0.is_empty() => Ok((table, last)),
        _ => Err(Error::plan(format!("COMMENT ON COLUMN {name}: write table.column"))),
    }
}
