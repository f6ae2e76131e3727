//! Tables and queries into files.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_files::options::{ExportOptions, ExportReport};
use swingdb_files::write::{Reporting, write};
use swingdb_sql::text::parameters::Params;

use crate::session::Session;
use crate::session::table_scan::TableScan;

/// Writes a query's rows to a file; see
/// [`Connection::export_file`](crate::Connection::export_file).
pub(crate) fn export_file(
    session: &Arc<Session>,
    sql_or_table: &str,
    path: &Path,
    options: ExportOptions,
) -> Result<ExportReport> {
    let mut sql = sql_or_table.to_string();
    if !is_query(sql_or_table) {
        let name = crate::execute::copy::import::parse_name(sql_or_table)?;
        if let Some((schema, mut rows)) = table_rows(session, &name, &[])? {
            let _running = session.lock_statement()?;
            return write(schema, &mut rows, path, &options, session.zone(), &reporting(session)?);
        }
        sql = format!("SELECT * FROM {name}");
    }
    let mut rows = session.execute(&sql, Params::default())?;
    if !rows.has_rows() {
        return Err(Error::plan("there is nothing to export: the statement returns no rows"));
    }
    let schema = rows.schema();
    write(schema, &mut rows, path, &options, session.zone(), &reporting(session)?)
}

/// Who hears of a statement of the session, and how many threads it may use.
pub(crate) fn reporting(session: &Session) -> Result<Reporting> {
    let (token, progress) = (Some(session.cancel_token()), session.progress());
    Ok(Reporting { token, progress, threads: session.threads()? })
}

/// Batches from anywhere.
pub(crate) type Rows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a table in their order, which a query would not promise; `None` when `name` is no
/// table (it may be a view or a file).
pub(crate) fn table_rows(
    session: &Session,
    name: &ObjectName,
    columns: &[Ident],
) -> Result<Option<(SchemaRef, Rows)>> {
    let scan = match TableScan::new(session, &name.to_string()) {
        Ok(scan) => scan,
        Err(Error::NotFound { .. } | Error::Plan { .. } | Error::Unsupported { .. }) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let all = scan.schema();
    if columns.is_empty() {
        return Ok(Some(given_rows(scan)?));
    }
    let find = |column: &Ident| {
        let names = || all.fields().iter().map(|field| field.name());
        let exact = names().position(|name| *name == column.value);
        exact
            .or_else(|| names().position(|name| name.eq_ignore_ascii_case(&column.value)))
            .ok_or_else(|| Error::not_found(ObjectKind::Column, &column.value, names()))
    };
    let places: Vec<usize> = columns.iter().map(find).collect::<Result<_>>()?;
    let schema = Arc::new(all.project(&places)?);
    let rows = scan.map(move |batch| Ok(batch?.project(&places)?));
    Ok(Some((schema, Box::new(rows))))
}

/// The rows of a table without its generated columns, which whoever reads them computes anew.
pub(crate) fn given_rows(scan: TableScan) -> Result<(SchemaRef, Rows)> {
    let (all, places) = (scan.schema(), scan.given_columns());
    if places.len() == all.fields().len() {
        return Ok((all, Box::new(scan)));
    }
    let schema = Arc::new(all.project(&places)?);
    Ok((schema, Box::new(scan.map(move |batch| Ok(batch?.project(&places)?)))))
}

/// Whether the text begins like a query; a table whose name is one of these words must be quoted.
fn is_query(text: &str) -> bool {
    const WORDS: [&str; 9] =
        ["select", "with", "values", "from", "table", "show", "describe", "explain", "summarize"];
    let text = text.trim_start();
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    text.starts_with('(')
        || text.len() > word.len() && WORDS.iter().any(|other| word.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_table_names_are_told_apart() {
        for query in
            ["SELECT 1", " with x as (select 1) table x", "(select 1)", "FROM t", "values (1)"]
        {
            assert!(is_query(query), "{query}");
        }
        for table in ["trips", "main.trips", "\"select\"", "selected", "select", "x y"] {
            assert!(!is_query(table), "{table}");
        }
    }
}
