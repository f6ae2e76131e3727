//! Bulk appends: Arrow batches into a table.

use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::ObjectName;
use swingdb_common::cast::convert::check_assignable;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{find_name, parse_table_name};
use swingdb_store::Table;

use crate::execute::atomic::with_txn;
use crate::execute::dml::insert::Mapping;
use crate::execute::target::{check_given, column, target};
use crate::session::{Session, temporary};

/// Appends all batches of `reader` to a table; the number of rows. All or nothing.
///
/// Columns are matched by name when every column of the input is one of the table (in any case and
/// order; columns of the table that are missing get their default), by position when there are as
/// many as the table has. Values are converted as INSERT converts them.
pub(crate) fn append_batches(
    session: &Arc<Session>,
    table: &str,
    reader: impl RecordBatchReader + Send,
) -> Result<u64> {
    let _one_at_a_time = session.lock_statement()?;
    let (session, name) = &temporary::of_table(session, &append_name(table));
    with_txn(session, |txn| {
        let target = target(session, &txn.view(), name)?;
        let columns = match_columns(&target.table, &reader.schema())?;
        let mapping = Mapping::new(session, &target.table, &columns)?;
        let token = session.cancel_token();
        let batches = reader.map(|batch| {
            token.check()?;
            Ok(batch?)
        });
        mapping.append(txn, &target, batches)
    })
}

/// The table that a call of the API names.
pub(crate) fn append_name(table: &str) -> ObjectName {
    let reference = parse_table_name(table);
    let parts: Vec<&str> = [reference.catalog(), reference.schema(), Some(reference.table())]
        .into_iter()
        .flatten()
        .collect();
    build::name(&parts)
}

/// The column of the table that each column of the input goes to.
pub(crate) fn match_columns(table: &Arc<Table>, input: &SchemaRef) -> Result<Vec<usize>> {
    let names: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
    let unknown = input.fields().iter().find(|field| find_name(&names, field.name()).is_none());
    let columns: Vec<usize> = match unknown {
        None => {
            let columns: Result<Vec<usize>> =
                input.fields().iter().map(|field| column(table, field.name())).collect();
            columns?
        }
        Some(_) if input.fields().len() == table.given_columns().len() => table.given_columns(),
        Some(field) => {
            return Err(Error::not_found(ObjectKind::Column, field.name().as_str(), &names));
        }
    };
    check_given(table, &columns)?;
    for (position, index) in columns.iter().enumerate() {
        let name = &names[*index];
        if columns[..position].contains(index) {
            return Err(Error::plan(format!("column {name:?} is given twice")));
        }
        let given = input.field(position).data_type();
        check_assignable(given, &table.columns()[*index].data_type, name)?;
    }
    Ok(columns)
}
