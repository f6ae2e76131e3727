//! The tables and views of a session: columns, types, rows, bytes.

use super::grid::{Grid, Limit};
use crate::failure::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use swingdb::Connection;

/// The most tables that are described.
const MAX_TABLES: usize = 2000;
/// The most columns of all tables together.
const MAX_COLUMNS: usize = 50_000;
const MAX_BYTES: usize = 32 << 20;

const TABLES: &str = "SELECT schema_name, table_name, 'table', comment FROM duckdb_tables()
    UNION ALL SELECT schema_name, view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
    ORDER BY 1, 2";
const COLUMNS: &str = "SELECT schema_name, table_name, column_name, data_type, is_nullable,
    column_default, comment FROM duckdb_columns() ORDER BY 1, 2, column_index";

/// All of them, by schema and name.
pub fn all(connection: &Connection) -> Outcome<Value> {
    let mut columns: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    let rows = texts(connection, COLUMNS, MAX_COLUMNS)?;
    for row in 0..rows.rows() {
        let text = |column| rows.value(row, column);
        let of = (text(0).unwrap_or_default().to_string(), text(1).unwrap_or_default().to_string());
        columns.entry(of).or_default().push(json!({
            "name": text(2),
            "type": text(3),
            "nullable": text(4) == Some("true"),
            "default": text(5),
            "comment": text(6),
        }));
    }
    let rows = texts(connection, TABLES, MAX_TABLES)?;
    let tables = (0..rows.rows()).map(|row| {
        let text = |column| rows.value(row, column);
        let (schema, name) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
        let name_in_sql = format!("{}.{}", quoted(schema), quoted(name));
        // Views have no rows of their own.
        let table = match text(2) {
            Some("table") => connection.table(&name_in_sql).ok(),
            _ => None,
        };
        json!({
            "schema": schema,
            "name": name,
            "sql": name_in_sql,
            "kind": text(2),
            "comment": text(3),
            "rows": table.as_ref().map(|table| table.row_count()),
            "bytes": table.as_ref().map(|table| table.bytes()),
            "columns": columns.remove(&(schema.to_string(), name.to_string())).unwrap_or_default(),
        })
    });
    let tables: Vec<_> = tables.collect();
    Ok(json!({"tables": tables, "more": rows.about()["more"]}))
}

fn texts(connection: &Connection, sql: &str, rows: usize) -> Outcome<Grid> {
    let result = connection.query(sql)?;
    let mut grid = Grid::new(result.schema());
    for batch in result {
        if !grid.add(&batch?, Limit { rows, bytes: MAX_BYTES, cell_bytes: 1000 })? {
            break;
        }
    }
    Ok(grid)
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
