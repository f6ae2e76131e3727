//! What there is: databases, schemas, tables, columns and constraints, for `get_objects`.
//!
//! The rows come from the catalog functions of SQL. They are put together as JSON, which Arrow
//! decodes into the nested columns that ADBC asks for.

use std::sync::Arc;

use adbc_core::options::ObjectDepth;
use adbc_core::schemas::GET_OBJECTS_SCHEMA;
use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use serde_json::{Value as Json, json};
use swingdb::{Connection, Value};

use crate::error::{Result, of_arrow, of_database};
use crate::rows::{Reader, ready};

/// What is asked for: patterns as LIKE has them, or all.
pub(crate) struct Wanted<'a> {
    pub(crate) catalog: Option<&'a str>,
    pub(crate) schema: Option<&'a str>,
    pub(crate) table: Option<&'a str>,
    pub(crate) types: Vec<&'a str>,
    pub(crate) column: Option<&'a str>,
}

/// A row of texts.
type Row = Vec<Option<String>>;

const SCHEMAS: &str = "SELECT DISTINCT catalog, schema FROM (\
     SELECT catalog_name AS catalog, schema_name AS schema FROM information_schema.schemata \
     UNION ALL SELECT database_name, schema_name FROM duckdb_tables()) AS s \
     WHERE catalog LIKE $1 AND schema LIKE $2 ORDER BY catalog, schema";

const TABLES: &str = "SELECT catalog, schema, name, kind FROM (\
     SELECT database_name AS catalog, schema_name AS schema, table_name AS name, \
       CASE WHEN temporary THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE' END AS kind \
       FROM duckdb_tables() \
     UNION ALL SELECT database_name, schema_name, view_name, 'VIEW' FROM duckdb_views()) AS t \
     WHERE catalog LIKE $1 AND schema LIKE $2 AND name LIKE $3 ORDER BY catalog, schema, name";

const COLUMNS: &str = "SELECT database_name, schema_name, table_name, column_name, \
       column_index::VARCHAR, data_type, is_nullable::VARCHAR, column_default, comment \
     FROM duckdb_columns() WHERE database_name LIKE $1 AND schema_name LIKE $2 \
       AND table_name LIKE $3 AND column_name LIKE $4 \
     ORDER BY database_name, schema_name, table_name, column_index";

const CONSTRAINTS: &str = "SELECT database_name, schema_name, table_name, constraint_name, \
       constraint_type, to_json(constraint_column_names)::VARCHAR, referenced_table, \
       to_json(referenced_column_names)::VARCHAR \
     FROM duckdb_constraints() WHERE database_name LIKE $1 AND schema_name LIKE $2 \
       AND table_name LIKE $3 AND constraint_type <> 'NOT NULL' \
     ORDER BY database_name, schema_name, table_name, constraint_index";

/// The rows of a query, as texts.
pub(crate) fn texts(connection: &Connection, sql: &str, params: &[&str]) -> Result<Vec<Row>> {
    let params: Vec<Value> = params.iter().map(|text| Value::from(*text)).collect();
    let mut rows = Vec::new();
    for batch in connection.execute(sql, &params).map_err(of_database)? {
        let batch = batch.map_err(of_database)?;
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(of_arrow)?;
        for row in 0..batch.num_rows() {
            let text = |column: &Arc<dyn Array>| {
                column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_string())
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    Ok(rows)
}

/// The objects down to some depth.
pub(crate) fn reader(
    connection: &Connection,
    depth: ObjectDepth,
    wanted: &Wanted<'_>,
) -> Result<Reader> {
    let pattern = |given: Option<&str>| given.unwrap_or("%").to_string();
    let (catalog, schema) = (pattern(wanted.catalog), pattern(wanted.schema));
    let (table, column) = (pattern(wanted.table), pattern(wanted.column));
    let schemas = texts(connection, SCHEMAS, &[&catalog, &schema])?;
    let has_tables = !matches!(depth, ObjectDepth::Catalogs | ObjectDepth::Schemas);
    let has_columns = has_tables && !matches!(depth, ObjectDepth::Tables);
    let of_tables: &[&str] = &[&catalog, &schema, &table];
    let tables = if has_tables { texts(connection, TABLES, of_tables)? } else { Vec::new() };
    let (columns, constraints) = match has_columns {
        true => (
            texts(connection, COLUMNS, &[&catalog, &schema, &table, &column])?,
            texts(connection, CONSTRAINTS, of_tables)?,
        ),
        false => (Vec::new(), Vec::new()),
    };
    let one_table = |row: &Row| {
        let mine = |other: &&Row| other[..3] == row[..3];
        let columns = columns.iter().filter(mine).map(json_of_column).collect::<Vec<_>>();
        let constraints =
            constraints.iter().filter(mine).map(json_of_constraint).collect::<Vec<_>>();
        json!({
            "table_name": row[2],
            "table_type": row[3],
            "table_columns": has_columns.then_some(columns),
            "table_constraints": has_columns.then_some(constraints),
        })
    };
    let is_wanted = |row: &&Row| row[3].as_deref().is_some_and(|kind| wanted.types.contains(&kind));
    let one_schema = |row: &Row| {
        let mine = tables.iter().filter(|table| table[..2] == row[..2]).filter(is_wanted);
        let mine = mine.map(one_table).collect::<Vec<_>>();
        json!({"db_schema_name": row[1], "db_schema_tables": has_tables.then_some(mine)})
    };
    let mut catalogs: Vec<Option<String>> = schemas.iter().map(|row| row[0].clone()).collect();
    catalogs.dedup();
    let has_schemas = !matches!(depth, ObjectDepth::Catalogs);
    let objects: Vec<Json> = catalogs
        .iter()
        .map(|name| {
            let mine = schemas.iter().filter(|row| row[0] == *name).map(one_schema);
            let mine = has_schemas.then(|| mine.collect::<Vec<_>>());
            json!({"catalog_name": name, "catalog_db_schemas": mine})
        })
        .collect();
    decoded(&objects)
}

fn json_of_column(row: &Row) -> Json {
    let number = row[4].as_deref().and_then(|text| text.parse::<i32>().ok());
    let is_nullable = row[6].as_deref() == Some("true");
    json!({
        "column_name": row[3],
        "ordinal_position": number,
        "remarks": row[8],
        "xdbc_type_name": row[5],
        "xdbc_nullable": i16::from(is_nullable),
        "xdbc_is_nullable": if is_nullable { "YES" } else { "NO" },
        "xdbc_column_def": row[7],
    })
}

fn json_of_constraint(row: &Row) -> Json {
    let names = |text: &Option<String>| -> Vec<String> {
        text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let usage = row[6].as_ref().map(|table| {
        let one = |column: String| {
            json!({
                "fk_catalog": row[0],
                "fk_db_schema": row[1],
                "fk_table": table,
                "fk_column_name": column,
            })
        };
        names(&row[7]).into_iter().map(one).collect::<Vec<_>>()
    });
    json!({
        "constraint_name": row[3],
        "constraint_type": row[4],
        "constraint_column_names": names(&row[5]),
        "constraint_column_usage": usage,
    })
}

fn decoded(objects: &[Json]) -> Result<Reader> {
    let schema = Arc::clone(&GET_OBJECTS_SCHEMA);
    let decode = || {
        let builder = arrow::json::ReaderBuilder::new(Arc::clone(&schema));
        let mut decoder = builder.with_batch_size(objects.len().max(1)).build_decoder()?;
        decoder.serialize(objects)?;
        decoder.flush()
    };
    let batch = decode().map_err(of_arrow)?;
    let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema)));
    Ok(ready(schema, vec![batch]))
}
