//! UPDATE and DELETE: a SELECT finds the rows and computes the values, the store applies them.
//!
//! `UPDATE t SET a = e FROM s WHERE c` runs `SELECT t.__rowid, e FROM t, s WHERE c` through the
//! ordinary query engine, so any condition a query can have works (`IN (SELECT ...)`, `EXISTS`,
//! joins), with the meaning it has there. All expressions see the row as it was before the
//! statement, so `SET a = b, b = a` swaps. A row with several partners in `s` is changed once, by
//! the first found, as in PostgreSQL.
//!
//! DELETE and UPDATE take ORDER BY and LIMIT: the rows to change are the first ones of that order.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query,
    TableWithJoins, Update, UpdateTableFromKind, With,
};
use swingdb_common::cast::convert::{Origin, check_assignable, convert_array, relabel};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_common::time::zones::Zone;
use swingdb_sql::ast::build;
use swingdb_sql::scan::hidden::ROWID_COLUMN;
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Catalog, WriteTxn};

use crate::execute::atomic::{Outcome, with_txn, with_txn_of};
use crate::execute::dml::length::length_of;
use crate::execute::dml::returning::{Changed, Returning};
use crate::execute::dml::row_set::{RowSet, collect, collect_ids};
use crate::execute::dml::set_list::{Set, sets};
use crate::execute::query::rows_of_change;
use crate::execute::target::{Named, Target, target};
use crate::session::Session;
use crate::session::transaction::Length;

/// The query behind an UPDATE: the row id, then a column for each SET.
pub(crate) fn update_query(
    named: &Named,
    update: &Update,
    sets: &[Set],
    with: Option<&With>,
) -> Result<Query> {
    let mut projection = vec![build::item(named.row_id(), ROWID_COLUMN)];
    for (index, set) in sets.iter().enumerate() {
        projection.push(build::item(set.value.clone(), format!("set {index}")));
    }
    let mut from = vec![build::from(named.relation())];
    if let Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) =
        &update.from
    {
        from.extend(more.iter().cloned());
    }
    let query = build::select(projection, from, update.selection.clone())?;
    finish(named, query, &update.order_by, update.limit.as_ref(), with)
}

/// The query behind a DELETE: the row ids.
pub(crate) fn delete_query(named: &Named, delete: &Delete, with: Option<&With>) -> Result<Query> {
    let mut from = vec![build::from(named.relation())];
    from.extend(delete.using.iter().flatten().cloned());
    let projection = vec![build::item(named.row_id(), ROWID_COLUMN)];
    let query = build::select(projection, from, delete.selection.clone())?;
    finish(named, query, &delete.order_by, delete.limit.as_ref(), with)
}

fn finish(
    named: &Named,
    mut query: Query,
    order_by: &[OrderByExpr],
    limit: Option<&Expr>,
    with: Option<&With>,
) -> Result<Query> {
    if !order_by.is_empty() {
        let kind = OrderByKind::Expressions(order_by.to_vec());
        query.order_by = Some(OrderBy { kind, interpolate: None });
    }
    if let Some(limit) = limit {
        query.limit_clause = Some(LimitClause::LimitOffset {
            limit: Some(limit.clone()),
            offset: None,
            limit_by: Vec::new(),
        });
    }
    let Target { schema, name, .. } = &named.target;
    build::shorten_qualifiers(&mut query, schema, name, &named.alias);
    query.with = with.cloned();
    Ok(query)
}

/// Runs an UPDATE.
pub(crate) fn update(
    session: &Session,
    update: &Update,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    // All rows are many, whatever the table has.
    let length = match update.selection {
        Some(_) => length_of(session, &[update], with),
        None => Length::Any,
    };
    with_txn_of(session, length, |txn| {
        let named = update_target(session, &txn.view(), update)?;
        let sets = sets(&named.target.table, &update.assignments, &named.names())?;
        let query = update_query(&named, update, &sets, with)?;
        let mut collected = session.collected("UPDATE")?;
        let rows = changed_rows(session, &named, query, &sets, params, &mut collected)?;
        let changed = apply(txn, &named.target, &sets, &rows)?;
        let mut outcome = Outcome::changed("UPDATE", changed);
        if let Some(items) = &update.returning {
            let ids = rows.ids.as_slice();
            let now = Changed::rows(&txn.view(), &named.target, ids, &mut collected)?;
            let list = Returning::new(&named, items, with);
            outcome.rows = Some(list.run(session, params, now, &mut collected)?);
        }
        Ok(outcome)
    })
}

/// The table of an UPDATE.
pub(crate) fn update_target(
    session: &Session,
    catalog: &Catalog,
    update: &Update,
) -> Result<Named> {
    let named = Named::resolve(session, catalog, &update.table.relation, "UPDATE")?;
    if !update.table.joins.is_empty() {
        return Err(Error::unsupported(
            "UPDATE of a join; write UPDATE t SET ... FROM s WHERE ...",
        ));
    }
    Ok(named)
}

fn changed_rows(
    session: &Session,
    named: &Named,
    query: Query,
    sets: &[Set],
    params: &Params,
    collected: &mut AccountedRows,
) -> Result<RowSet> {
    let schema = set_schema(named, sets);
    // Types that cannot be stored are an error even when no row is found.
    let check = |found: &DFSchema| {
        for (given, field) in found.fields().iter().skip(1).zip(schema.fields()) {
            check_assignable(given.data_type(), field.data_type(), field.name())?;
        }
        Ok(())
    };
    let rows = rows_of_change(session, build::statement(query, None), params, check)?;
    let (found, zone) = (collected.over(rows), session.zone());
    let threads = session.threads()?;
    collect(threads, found, |columns, rows| convert_sets(columns, &schema, rows, zone))
}

/// The columns of a SET list as they are stored.
pub(crate) fn set_schema(named: &Named, sets: &[Set]) -> SchemaRef {
    let fields = sets.iter().map(|set| named.target.table.schema().field(set.column).clone());
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// Converts computed values to what is stored.
pub(crate) fn convert_sets(
    columns: &[ArrayRef],
    schema: &SchemaRef,
    rows: usize,
    zone: Zone,
) -> Result<arrow::array::RecordBatch> {
    let mut converted = Vec::with_capacity(columns.len());
    for (array, field) in columns.iter().zip(schema.fields()) {
        let origin = Origin::UNNUMBERED;
        converted.push(convert_array(array, field, origin, zone)?);
    }
    relabel(converted, schema, rows)
}

/// Hands new values to the store.
pub(crate) fn apply(
    txn: &mut WriteTxn,
    target: &Target,
    sets: &[Set],
    rows: &RowSet,
) -> Result<u64> {
    if rows.ids.is_empty() {
        return Ok(0);
    }
    let columns: Vec<usize> = sets.iter().map(|set| set.column).collect();
    txn.update_rows(&target.schema, &target.name, &rows.ids, &columns, &rows.values)
}

/// Runs a DELETE.
pub(crate) fn delete(
    session: &Session,
    delete: &Delete,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    let length = length_of(session, &[delete], with);
    with_txn_of(session, length, |txn| {
        let named = delete_target(session, &txn.view(), delete)?;
        let Target { schema, name, .. } = &named.target;
        let everything = delete.selection.is_none()
            && delete.using.is_none()
            && delete.limit.is_none()
            && delete.returning.is_none();
        if everything {
            return Ok(Outcome::changed("DELETE", txn.truncate_table(schema, name)?));
        }
        let query = delete_query(&named, delete, with)?;
        let rows = rows_of_change(session, build::statement(query, None), params, |_| Ok(()))?;
        let mut collected = session.collected("DELETE")?;
        let ids = collect_ids(collected.over(rows))?;
        let mut outcome = Outcome::changed("DELETE", 0);
        if let Some(items) = &delete.returning {
            let before = Changed::rows(&txn.view(), &named.target, ids.as_slice(), &mut collected)?;
            let list = Returning::new(&named, items, with);
            outcome.rows = Some(list.run(session, params, before, &mut collected)?);
        }
        if !ids.is_empty() {
            outcome.rows_changed = Some(txn.delete_rows(schema, name, &ids)?);
        }
        Ok(outcome)
    })
}

/// The table of a DELETE.
pub(crate) fn delete_target(
    session: &Session,
    catalog: &Catalog,
    delete: &Delete,
) -> Result<Named> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [TableWithJoins { relation, joins }] if joins.is_empty() => {
            Named::resolve(session, catalog, relation, "DELETE FROM")
        }
        _ => Err(Error::unsupported(
            "DELETE from several tables; write DELETE FROM t USING s WHERE ...",
        )),
    }
}

/// TRUNCATE: all rows of the tables, or of none when one is missing.
pub(crate) fn truncate(
    session: &Session,
    names: &[ObjectName],
    if_exists: bool,
) -> Result<Outcome> {
    with_txn(session, |txn| {
        let mut rows = 0;
        for name in names {
            match target(session, &txn.view(), name) {
                Ok(target) => rows += txn.truncate_table(&target.schema, &target.name)?,
                Err(Error::NotFound { .. }) if if_exists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::changed("TRUNCATE", rows))
    })
}
