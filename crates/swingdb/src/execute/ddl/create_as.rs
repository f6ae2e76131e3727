//! CREATE TABLE ... AS: a table with the columns and the rows of a query.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast as sql;
use datafusion::sql::sqlparser::ast::{CreateTable, Query};
use swingdb_common::cast::convert::{Origin, check_assignable, convert_batch};
use swingdb_common::cast::encoded::plain_type;
use swingdb_common::enums::EnumType;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::arrow_types::{TEXT, column_type, enum_type, is_uuid_type};
use swingdb_common::uuid;
use swingdb_sql::ast::build;
use swingdb_sql::text::parameters::Params;
use swingdb_store::{ColumnDef, IfExists, TableDef, WriteTxn};

use crate::execute::atomic::Outcome;
use crate::execute::ddl::column_defs::{check_columns, is_untyped};
use crate::execute::dml::insert::append_stream;
use crate::execute::target::QualifiedName;
use crate::session::Session;

/// Runs the statement. The query reads the state before the statement, so a table may be replaced
/// by a query over itself.
pub(crate) fn create_as(
    session: &Session,
    txn: &mut WriteTxn,
    place: QualifiedName,
    create: &CreateTable,
    query: &Query,
    if_exists: IfExists,
    params: &Params,
) -> Result<Outcome> {
    if !create.constraints.is_empty() {
        return Err(Error::unsupported("constraints with AS; ALTER TABLE ... ADD them afterwards"));
    }
    let plan = session.plan(&build::statement(query.clone(), None), params)?;
    let stream = session.run(plan)?;
    let columns = query_columns(&stream.schema(), &create.columns)?;
    check_columns(&columns)?;
    let (schema, name) = (place.schema, place.name);
    let stored = arrow_schema(&columns);
    for (given, field) in stream.schema().fields().iter().zip(stored.fields()) {
        check_assignable(given.data_type(), field.data_type(), field.name())?;
    }
    let definition =
        TableDef { schema: schema.clone(), name: name.clone(), columns, constraints: Vec::new() };
    txn.create_table(definition, if_exists)?;
    let zone = session.zone();
    let rows = append_stream(session, txn, &schema, &name, stream, |batch, before| {
        convert_batch(&batch, &stored, Origin::rows(before), zone)
    })?;
    Ok(Outcome::changed("CREATE TABLE", rows))
}

/// The columns of a table made from a query; `given` renames them, and may give types.
fn query_columns(schema: &SchemaRef, given: &[sql::ColumnDef]) -> Result<Vec<ColumnDef>> {
    if !given.is_empty() && given.len() != schema.fields().len() {
        return Err(Error::plan(format!(
            "{} column names are given, and the query has {} columns",
            given.len(),
            schema.fields().len()
        )));
    }
    let mut columns: Vec<ColumnDef> = Vec::with_capacity(schema.fields().len());
    let mut taken = HashSet::new();
    for (index, field) in schema.fields().iter().enumerate() {
        let is_uuid = uuid::is_marked(field) || uuid::has_bytes(field);
        let enumeration = EnumType::of_field(field);
        let (name, data_type, is_uuid, enumeration) = match given.get(index) {
            None => (free_name(field.name(), &taken), storable(field), is_uuid, enumeration),
            Some(column) if !column.options.is_empty() => {
                let name = &column.name;
                return Err(Error::unsupported(format!("options of column {name} with AS")));
            }
            Some(column) => match &column.data_type {
                untyped if is_untyped(untyped) => {
                    (column.name.value.clone(), storable(field), is_uuid, enumeration)
                }
                named => {
                    let (is_uuid, enumeration) = (is_uuid_type(named), enum_type(named)?);
                    (column.name.value.clone(), column_type(named)?, is_uuid, enumeration)
                }
            },
        };
        taken.insert(name.to_lowercase());
        columns.push(ColumnDef {
            name,
            data_type,
            nullable: true,
            is_uuid,
            enumeration,
            default_sql: None,
        });
    }
    Ok(columns)
}

/// `a`, or `a_1`, `a_2` ... when it is taken, as in DuckDB.
fn free_name(name: &str, taken: &HashSet<String>) -> String {
    let candidates = std::iter::once(name.to_string());
    let mut candidates = candidates.chain((1..).map(|n| format!("{name}_{n}")));
    let free = candidates.find(|candidate| !taken.contains(&candidate.to_lowercase()));
    free.unwrap_or_else(|| name.to_string())
}

/// The type in which results of a query are stored: one form of text, and an integer for a column
/// of nothing but NULL, as in DuckDB. Forms that other libraries have are none of a column.
fn storable(field: &Field) -> DataType {
    match field.data_type() {
        _ if uuid::has_bytes(field) => TEXT,
        DataType::Null => DataType::Int32,
        DataType::Utf8 | DataType::LargeUtf8 => TEXT,
        other => plain_type(other).unwrap_or_else(|| other.clone()),
    }
}

fn arrow_schema(columns: &[ColumnDef]) -> SchemaRef {
    let field = |column: &ColumnDef| column.field().with_nullable(true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<Field>>()))
}
