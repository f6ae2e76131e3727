//! `COPY`: files into tables, tables and queries into files, in SQL.
//!
//! ```text
//! COPY table [(column, ...)] FROM 'path' [options]
//! COPY table [(column, ...)] TO 'path' [options]
//! COPY (query) TO 'path' [options]
//! options: [WITH] (name [value], ...) | STORED AS format | OPTIONS (name value, ...)
//! value:   'string' | word | number | (a, b) | ['a', 'b'] | {'a': 'b'}
//! ```
//!
//! **Cycle.** COPY of a query runs it.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{ObjectNamePart, Statement, Value as SqlValue};
use swingdb_common::error::{Error, Result};
use swingdb_files::table::file_table_with;
use swingdb_files::write::write;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::statement::{CopyStatement, What};

use crate::execute::copy::export::{Rows, reporting, table_rows};
use crate::execute::copy::import::import;
use crate::execute::statement;
use crate::session::Session;
use crate::session::result::QueryResult;

pub(crate) use swingdb_files::options::{ExportOptions, ImportOptions, OptionValue};

/// Runs a COPY statement inside the session's running statement.
pub(crate) fn execute(
    session: &Arc<Session>,
    copy: CopyStatement,
    params: &Params,
) -> Result<QueryResult> {
    let query = match copy.what {
        What::From { table, columns } => {
            let mut options = ImportOptions { must_exist: true, ..ImportOptions::default() };
            for (name, value) in &copy.options {
                options.set(name, value)?;
            }
            options.columns = columns.into_iter().map(|column| column.value).collect();
            let rows = import(session, &copy.path, &table, &options)?.rows;
            return Ok(QueryResult::changed(Some(rows), "COPY"));
        }
        What::TableTo { table, columns, query } => match table_rows(session, &table, &columns)? {
            Some(rows) => return copy_to(session, &copy.path, &copy.options, rows),
            None => query,
        },
        What::To(query) => query,
    };
    let rows = statement::execute_sql(session, Statement::Query(query), params)?;
    copy_to(session, &copy.path, &copy.options, (rows.schema(), Box::new(rows)))
}

fn copy_to(
    session: &Session,
    path: &str,
    given: &[(String, OptionValue)],
    (schema, mut rows): (SchemaRef, Rows),
) -> Result<QueryResult> {
    let mut options = ExportOptions::default();
    for (name, value) in given {
        options.set(name, value)?;
    }
    let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
    let report = write(schema, &mut rows, path, &options, session.zone(), &reporting(session)?)?;
    Ok(QueryResult::changed(Some(report.rows), "COPY"))
}

/// CREATE EXTERNAL TABLE: the files are a table of this session.
pub(crate) fn create_external_table(
    session: &Arc<Session>,
    create: CreateExternalTable,
) -> Result<QueryResult> {
    let mut options = ImportOptions::default();
    if !create.file_type.is_empty() {
        options.set("format", &OptionValue::Text(create.file_type.clone()))?;
    }
    for (name, value) in &create.options {
        let name = name.rsplit_once('.').map_or(name.as_str(), |(_, last)| last);
        options.set(name, &option_value(value)?)?;
    }
    for column in &create.columns {
        let data_type = swingdb_common::types::arrow_types::arrow_type(&column.data_type)?;
        options.types.push((column.name.value.clone(), data_type));
    }
    let [.., ObjectNamePart::Identifier(name)] = &create.name.0[..] else {
        return Err(Error::plan(format!("{} is not the name of a table", create.name)));
    };
    let taken = session.view()?.names().iter().any(|other| other.eq_ignore_ascii_case(&name.value));
    if taken && create.if_not_exists {
        return Ok(QueryResult::changed(None, "CREATE EXTERNAL TABLE"));
    }
    if taken && !create.or_replace {
        let kind = swingdb_common::error::ObjectKind::Table;
        return Err(Error::AlreadyExists { kind, name: name.value.clone() });
    }
    let [location] = &create.locations[..] else {
        return Err(Error::unsupported("several locations; use a pattern such as '/path/*.csv'"));
    };
    let provider = file_table_with(std::slice::from_ref(location), &options)?;
    session.register_provider(&name.value, provider);
    Ok(QueryResult::changed(None, "CREATE EXTERNAL TABLE"))
}

fn option_value(value: &SqlValue) -> Result<OptionValue> {
    match value {
        SqlValue::Number(number, _) => Ok(OptionValue::Number(number.to_string())),
        SqlValue::Boolean(flag) => Ok(OptionValue::Text(flag.to_string())),
        SqlValue::SingleQuotedString(text)
        | SqlValue::DoubleQuotedString(text)
        | SqlValue::EscapedStringLiteral(text) => Ok(OptionValue::Text(text.clone())),
        other => Err(Error::plan(format!("{other} is no value for an option"))),
    }
}
