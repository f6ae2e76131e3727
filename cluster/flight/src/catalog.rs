//! What there is, as Flight SQL asks for it: catalogs, schemas, tables, and what the server can do.
//!
//! The rows come from the engine's own catalog functions.

use std::sync::{Arc, LazyLock};

use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{GetCatalogsBuilder, SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, SqlInfo, SqlSupportedTransaction,
};
use swingdb::plain_rows::plain_schema;
use swingdb::{Error, Value};
use tonic::Status;

use crate::call::{Call, Turn};
use crate::status::{of_arrow, of_database};

/// The kinds of tables.
const TABLE_TYPES: [&str; 3] = ["BASE TABLE", "LOCAL TEMPORARY", "VIEW"];

const SCHEMAS: &str = "SELECT DISTINCT catalog, schema FROM (\
     SELECT catalog_name AS catalog, schema_name AS schema FROM information_schema.schemata \
     UNION ALL SELECT database_name, schema_name FROM duckdb_tables()) AS s \
     WHERE schema LIKE $1 ORDER BY catalog, schema";

const TABLES: &str = "SELECT catalog, schema, name, kind FROM (\
     SELECT database_name AS catalog, schema_name AS schema, table_name AS name, \
       CASE WHEN temporary THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE' END AS kind \
       FROM duckdb_tables() \
     UNION ALL SELECT database_name, schema_name, view_name, 'VIEW' FROM duckdb_views()) AS t \
     WHERE schema LIKE $1 AND name LIKE $2 ORDER BY catalog, schema, name";

/// The rows of a query about the catalog, as texts.
fn texts(turn: &Turn<'_>, sql: &str, patterns: &[&str]) -> Result<Vec<Vec<String>>, Status> {
    let values = patterns.iter().map(|pattern| Value::from(*pattern)).collect::<Vec<_>>();
    let mut rows = Vec::new();
    let result = turn.connection().execute(sql, &values);
    for batch in result.map_err(|error| of_database(&error))? {
        let batch = batch.map_err(|error| of_database(&error))?;
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(of_arrow)?;
        for row in 0..batch.num_rows() {
            let text = |column: &Arc<dyn Array>| match column.is_valid(row) {
                true => column.as_string::<i32>().value(row).to_string(),
                false => String::new(),
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    Ok(rows)
}

fn built(batch: Result<RecordBatch, FlightError>) -> Result<RecordBatch, Status> {
    batch.map_err(Status::from)
}

/// The catalogs.
pub fn catalogs(call: &Call) -> Result<RecordBatch, Status> {
    let turn = call.turn()?;
    turn.refresh()?;
    let mut builder = GetCatalogsBuilder::new();
    let mut all = texts(&turn, SCHEMAS, &["%"])?;
    all.dedup_by(|row, before| row[0] == before[0]);
    for row in all {
        builder.append(&row[0]);
    }
    built(builder.build())
}

/// The schemas that are asked for.
pub fn schemas(call: &Call, asked: CommandGetDbSchemas) -> Result<RecordBatch, Status> {
    let turn = call.turn()?;
    turn.refresh()?;
    let pattern = asked.db_schema_filter_pattern.clone().unwrap_or_else(|| "%".to_string());
    let mut builder = asked.into_builder();
    for row in texts(&turn, SCHEMAS, &[&pattern])? {
        builder.append(&row[0], &row[1]);
    }
    built(builder.build())
}

/// The tables and views that are asked for.
pub fn tables(call: &Call, asked: CommandGetTables) -> Result<RecordBatch, Status> {
    let turn = call.turn()?;
    turn.refresh()?;
    let all = || "%".to_string();
    let schema = asked.db_schema_filter_pattern.clone().unwrap_or_else(all);
    let name = asked.table_name_filter_pattern.clone().unwrap_or_else(all);
    let (types, catalog) = (asked.table_types.clone(), asked.catalog.clone());
    let with_columns = asked.include_schema;
    let mut builder = asked.into_builder();
    for row in texts(&turn, TABLES, &[&schema, &name])? {
        let is_type = types.is_empty() || types.contains(&row[3]);
        if !is_type || catalog.as_ref().is_some_and(|catalog| *catalog != row[0]) {
            continue;
        }
        let columns = match with_columns {
            true => columns(&turn, &row)?,
            false => Arc::new(Schema::empty()),
        };
        let added = builder.append(&row[0], &row[1], &row[2], &row[3], &columns);
        added.map_err(Status::from)?;
    }
    built(builder.build())
}

/// The columns of a table; none of a view that cannot be planned any more.
fn columns(turn: &Turn<'_>, row: &[String]) -> Result<SchemaRef, Status> {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let place = row[..3].iter().map(quoted).collect::<Vec<_>>().join(".");
    match turn.connection().query(&format!("SELECT * FROM {place} LIMIT 0")) {
        Ok(rows) => Ok(Arc::new(plain_schema(&rows.schema()))),
        Err(error) if row[3] == "VIEW" && is_of_view(&error) => Ok(Arc::new(Schema::empty())),
        Err(error) => Err(of_database(&error)),
    }
}

/// Whether an error says that a view cannot be read, by whomever and whenever: what it reads has
/// changed or gone, or is no session's to read.
fn is_of_view(error: &Error) -> bool {
    match error {
        Error::InStatement { error, .. } => is_of_view(error),
        Error::Parse { .. }
        | Error::Plan { .. }
        | Error::NotFound { .. }
        | Error::Conversion { .. }
        | Error::Import { .. }
        | Error::Io { .. }
        | Error::NotAllowed { .. }
        | Error::Unsupported { .. }
        | Error::Execution { .. } => true,
        _ => false,
    }
}

/// The kinds of tables.
pub fn table_types() -> Result<RecordBatch, Status> {
    let mut builder = CommandGetTableTypes {}.into_builder();
    for kind in TABLE_TYPES {
        builder.append(kind);
    }
    built(builder.build())
}

/// What the server can do.
pub fn sql_info() -> Result<&'static SqlInfoData, Status> {
    static INFO: LazyLock<Result<SqlInfoData, FlightError>> = LazyLock::new(|| {
        let mut info = SqlInfoDataBuilder::new();
        info.append(SqlInfo::FlightSqlServerName, "SwingDB");
        info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
        info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
        info.append(SqlInfo::FlightSqlServerReadOnly, true);
        info.append(SqlInfo::FlightSqlServerSql, true);
        info.append(SqlInfo::FlightSqlServerSubstrait, false);
        info.append(
            SqlInfo::FlightSqlServerTransaction,
            SqlSupportedTransaction::Transaction as i32,
        );
        info.append(SqlInfo::FlightSqlServerCancel, true);
        info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
        info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
        info.append(SqlInfo::SqlDdlCatalog, false);
        info.append(SqlInfo::SqlDdlSchema, false);
        info.append(SqlInfo::SqlDdlTable, false);
        info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
        info.append(SqlInfo::SqlSearchStringEscape, "\\");
        info.append(SqlInfo::SqlAllTablesAreSelectable, true);
        info.append(SqlInfo::SqlNullPlusNullIsNull, true);
        info.append(SqlInfo::SqlSupportsColumnAliasing, true);
        info.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
        info.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
        info.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
        info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
        info.append(SqlInfo::SqlTransactionsSupported, true);
        info.append(SqlInfo::SqlSchemaTerm, "schema");
        info.append(SqlInfo::SqlCatalogTerm, "database");
        info.build()
    });
    INFO.as_ref().map_err(|error| Status::internal(error.to_string()))
}
