//! CREATE INDEX and DROP INDEX.
//!
//! An index changes no answer: scans skip segments by their statistics, and keys are found without
//! one. What it says is kept and told. A unique index is enforced by a key of its table, which
//! comes and goes with it.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, Ident, ObjectName};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::create::quoted;
use swingdb_sql::ast::names::{last_part, parts};
use swingdb_sql::planner::Planner;
use swingdb_store::{Catalog, Index, WriteTxn};

use crate::execute::atomic::{Outcome, with_txn};
use crate::execute::ddl::alter;
use crate::execute::target::{QualifiedName, Target, column, place, target};
use crate::session::Session;

/// Runs a CREATE INDEX.
pub(crate) fn create(session: &Session, create: &CreateIndex) -> Result<Outcome> {
    let name = create.name.as_ref().ok_or_else(|| Error::plan("an index needs a name"))?;
    with_txn(session, |txn| {
        let found = target(session, &txn.view(), &create.table_name)?;
        let schema = found.schema.clone();
        if parts(name)?.len() > 1 && place(session, &txn.view(), name)?.schema != schema {
            return Err(Error::plan(format!("{name}: an index is in the schema of its table")));
        }
        let name = last_part(name)?;
        if txn.view().find_index(&schema, &name)?.is_some() {
            return match create.if_not_exists {
                true => Ok(Outcome::done("CREATE INDEX")),
                false => Err(Error::AlreadyExists { kind: ObjectKind::Index, name }),
            };
        }
        let exprs: Vec<&Expr> = create.columns.iter().map(|one| &one.column.expr).collect();
        let mut index = described(session, &found, &exprs, name)?;
        if create.unique {
            index.unique = true;
            index.owns_key = add_key(session, txn, &found, &mut index, &exprs)?;
        }
        let place = QualifiedName { schema, name: found.name };
        let now = crate::execute::target::find_table(&txn.view(), &place)?;
        let now = now.ok_or_else(|| Error::internal("the indexed table is gone"))?;
        let mut notes = now.table.notes().clone();
        notes.indexes.push(index);
        txn.set_notes(&place.schema, &place.name, notes)?;
        Ok(Outcome::done("CREATE INDEX"))
    })
}

/// The index, which is not unique yet; what it is on must mean something.
fn described(session: &Session, found: &Target, exprs: &[&Expr], name: String) -> Result<Index> {
    let columns = found.table.columns();
    let (mut on, mut read) = (Vec::new(), BTreeSet::new());
    for expr in exprs {
        match expr {
            Expr::Identifier(ident) => {
                let at = column(&found.table, &ident.value)?;
                read.insert(at);
                on.push(quoted(&columns[at].name));
            }
            expr => {
                let mut expr = (*expr).clone();
                while let Expr::Nested(inner) = expr {
                    expr = *inner;
                }
                read.extend(columns_of(found, &expr));
                on.push(format!("({expr})"));
            }
        }
    }
    let items = exprs.iter().enumerate();
    let items = items.map(|(at, expr)| build::item((*expr).clone(), format!("on {at}")));
    let path = [session.changed_database(), &found.schema, &found.name];
    let relation = build::table(&path, &Ident::with_quote('"', &found.name));
    let query = build::select(items.collect(), vec![build::from(relation)], None)?;
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::new(&view, &engine);
    let mut statement = build::statement(query, None);
    planner.prepare(&mut statement)?;
    planner.plan(statement)?;
    let columns = read.into_iter().collect();
    Ok(Index { name, on, columns, unique: false, owns_key: false, comment: None })
}

/// The columns of a table that an expression names.
fn columns_of(found: &Target, expr: &Expr) -> Vec<usize> {
    let mut all = Vec::new();
    build::rewrite_exprs(&mut expr.clone(), |part| {
        let name = match part {
            Expr::Identifier(ident) => Some(&ident.value),
            Expr::CompoundIdentifier(parts) => parts.first().map(|ident| &ident.value),
            _ => None,
        };
        all.extend(name.and_then(|name| column(&found.table, name).ok()));
    });
    all
}

/// Lets a key of the table enforce a unique index; whether it is a new one.
fn add_key(
    session: &Session,
    txn: &mut WriteTxn,
    found: &Target,
    index: &mut Index,
    exprs: &[&Expr],
) -> Result<bool> {
    let mut key = Vec::new();
    for expr in exprs {
        let Expr::Identifier(ident) = expr else {
            return Err(Error::unsupported(
                "CREATE UNIQUE INDEX on an expression; add a column with its values, and make the \
                 index on that",
            ));
        };
        let at = column(&found.table, &ident.value)?;
        if key.contains(&at) {
            return Err(Error::plan(format!("column {:?} is twice in one key", ident.value)));
        }
        key.push(at);
    }
    let same = |known: &[usize]| {
        known.len() == key.len() && known.iter().all(|column| key.contains(column))
    };
    if found.table.constraints().iter().any(|known| same(known.columns())) {
        return Ok(false);
    }
    index.columns = key.clone();
    alter::add_unique(session, txn, found, key)?;
    Ok(true)
}

/// Runs a DROP INDEX.
pub(crate) fn remove(session: &Session, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
    with_txn(session, |txn| {
        for name in names {
            match place(session, &txn.view(), name).and_then(|place| remove_one(txn, &place)) {
                Err(Error::NotFound { .. }) if if_exists => {}
                other => other?,
            }
        }
        Ok(Outcome::done("DROP INDEX"))
    })
}

fn remove_one(txn: &mut WriteTxn, place: &QualifiedName) -> Result<()> {
    let catalog = txn.view();
    let Some((table, at)) = catalog.find_index(&place.schema, &place.name)? else {
        return Err(unknown(&catalog, place));
    };
    let mut notes = table.notes().clone();
    let index = notes.indexes.remove(at);
    // Another unique index on the same columns goes on needing the key.
    let heir = |other: &&mut Index| other.unique && same_columns(&other.columns, &index.columns);
    let heir = notes.indexes.iter_mut().find(heir);
    let drops_key = index.owns_key && heir.is_none();
    if let Some(heir) = heir.filter(|_| index.owns_key) {
        heir.owns_key = true;
        heir.columns.clone_from(&index.columns);
    }
    txn.set_notes(&place.schema, table.name(), notes)?;
    match drops_key {
        true => txn.drop_unique(&place.schema, table.name(), &index.columns),
        false => Ok(()),
    }
}

fn same_columns(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && one.iter().all(|column| other.contains(column))
}

/// The error for an index that does not exist.
pub(crate) fn unknown(catalog: &Catalog, place: &QualifiedName) -> Error {
    let tables = catalog.table_names(&place.schema).unwrap_or_default().into_iter();
    let tables = tables.filter_map(|name| catalog.table(&place.schema, &name).ok().flatten());
    let names = tables.flat_map(|table| {
        let names = table.notes().indexes.iter().map(|index| index.name.clone());
        names.collect::<Vec<_>>()
    });
    Error::not_found(ObjectKind::Index, place.shown(), names)
}
