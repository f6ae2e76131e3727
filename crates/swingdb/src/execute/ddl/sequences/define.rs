//! CREATE SEQUENCE, ALTER SEQUENCE, DROP SEQUENCE, SHOW SEQUENCES.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::names::find_name;
use swingdb_sql::bind::sequences::{Named, default_of};
use swingdb_sql::text::statement::{AlterSequence, Change, CreateSequence, DropSequence, Options};
use swingdb_store::{Catalog, Sequence};

use crate::execute::atomic::with_txn;
use crate::execute::show::table::{result, strings};
use crate::execute::target::{QualifiedName, if_exists, place};
use crate::session::Session;
use crate::session::result::QueryResult;

/// The sequence that options describe: by default from 1 upwards, or from -1 downwards.
fn described(options: &Options, name: String) -> Sequence {
    let increment = options.increment.unwrap_or(1);
    let (least, greatest) = if increment < 0 { (i64::MIN, -1) } else { (1, i64::MAX) };
    let (min, max) = (options.min.unwrap_or(least), options.max.unwrap_or(greatest));
    let first = if increment < 0 { max } else { min };
    let start = options.start.unwrap_or(first);
    Sequence { name, start, increment, min, max, cycle: options.cycle, last: None }
}

/// Runs a CREATE SEQUENCE.
pub(crate) fn create(session: &Session, create: CreateSequence) -> Result<QueryResult> {
    let CreateSequence { or_replace, if_not_exists, temporary, name, options } = create;
    if temporary {
        return Err(Error::unsupported(
            "CREATE TEMPORARY SEQUENCE; create it in a transaction that is rolled back, or drop it",
        ));
    }
    let if_exists = if_exists(or_replace, if_not_exists)?;
    with_txn(session, |txn| {
        let QualifiedName { schema, name } = place(session, &txn.view(), &name)?;
        // Names that differ only in case are the same name.
        let same = find_name(&txn.view().sequence_names(&schema), &name);
        txn.create_sequence(&schema, described(&options, same.unwrap_or(name)), if_exists)
    })?;
    Ok(QueryResult::changed(None, "CREATE SEQUENCE"))
}

fn apply(change: &Change, sequence: &mut Sequence) {
    sequence.start = change.start.unwrap_or(sequence.start);
    sequence.increment = change.increment.unwrap_or(sequence.increment);
    sequence.min = change.min.unwrap_or(sequence.min);
    sequence.max = change.max.unwrap_or(sequence.max);
    sequence.cycle = change.cycle.unwrap_or(sequence.cycle);
    if change.restart {
        sequence.last = None;
    }
}

/// Runs an ALTER SEQUENCE.
pub(crate) fn change(session: &Session, alter: AlterSequence) -> Result<QueryResult> {
    with_txn(session, |txn| {
        let QualifiedName { schema, name } = place(session, &txn.view(), &alter.name)?;
        let names = txn.view().sequence_names(&schema);
        let found = find_name(&names, &name).and_then(|name| txn.view().sequence(&schema, &name));
        match found {
            Some(sequence) => {
                let mut changed = Sequence::clone(&sequence);
                apply(&alter.change, &mut changed);
                txn.advance_sequence(&schema, changed)
            }
            None if alter.if_exists => Ok(()),
            None => Err(Error::not_found(ObjectKind::Sequence, name, names)),
        }
    })?;
    Ok(QueryResult::changed(None, "ALTER SEQUENCE"))
}

/// Runs a DROP SEQUENCE.
pub(crate) fn remove(session: &Session, remove: DropSequence) -> Result<QueryResult> {
    if remove.cascade {
        return Err(Error::unsupported(
            "DROP SEQUENCE ... CASCADE; take it off the columns by ALTER TABLE t ALTER a DROP \
             DEFAULT",
        ));
    }
    with_txn(session, |txn| {
        for name in &remove.names {
            let QualifiedName { schema, name } = place(session, &txn.view(), name)?;
            let names = txn.view().sequence_names(&schema);
            match find_name(&names, &name) {
                Some(name) => {
                    let named = Named { schema, name };
                    check_unused(&txn.view(), &named)?;
                    txn.drop_sequence(&named.schema, &named.name)?;
                }
                None if remove.if_exists => {}
                None => return Err(Error::not_found(ObjectKind::Sequence, name, names)),
            }
        }
        Ok(())
    })?;
    Ok(QueryResult::changed(None, "DROP SEQUENCE"))
}

/// That no column has its defaults from a sequence.
fn check_unused(catalog: &Catalog, sequence: &Named) -> Result<()> {
    for schema in catalog.schema_names() {
        for name in catalog.table_names(&schema)? {
            let Some(table) = catalog.table(&schema, &name)? else { continue };
            for column in table.columns() {
                let Some(default) = &column.default_sql else { continue };
                if default_of(default)?.contains(sequence) {
                    return Err(Error::plan(format!(
                        "sequence {:?} gives column {:?} of table {name:?} its defaults; ALTER \
                         TABLE {name} ALTER {} DROP DEFAULT first",
                        sequence.name, column.name, column.name
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The sequences of the session's database.
pub(crate) fn all(session: &Session) -> Result<QueryResult> {
    let catalog = session.view()?.main.catalog;
    let (mut schemas, mut all) = (Vec::new(), Vec::new());
    for schema in catalog.schema_names() {
        for name in catalog.sequence_names(&schema) {
            if let Some(sequence) = catalog.sequence(&schema, &name) {
                schemas.push(schema.clone());
                all.push(sequence);
            }
        }
    }
    let numbers = |of: fn(&Sequence) -> Option<i64>| {
        Arc::new(all.iter().map(|one| of(one)).collect::<Int64Array>())
    };
    let cycles = all.iter().map(|one| Some(one.cycle)).collect::<BooleanArray>();
    let columns = vec![
        ("name", strings(all.iter().map(|one| one.name.as_str()))),
        ("schema", strings(schemas)),
        ("start_value", numbers(|one| Some(one.start)) as _),
        ("min_value", numbers(|one| Some(one.min)) as _),
        ("max_value", numbers(|one| Some(one.max)) as _),
        ("increment_by", numbers(|one| Some(one.increment)) as _),
        ("cycle", Arc::new(cycles) as _),
        ("last_value", numbers(|one| one.last) as _),
    ];
    result(columns, "SHOW")
}
