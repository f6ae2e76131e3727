//! EXPORT DATABASE.
//!
//! **Cycle.** What it writes is tried out by running statements.

use std::path::Path;
use std::sync::Arc;

use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_files::input::check_local_output;
use swingdb_files::output_folder::OutputFolder;
use swingdb_files::write::write;
use swingdb_sql::ast::create::qualified;
use swingdb_sql::ast::names::SCHEMA as MAIN;
use swingdb_sql::text::statement::ExportDatabase;
use swingdb_store::Catalog;

use crate::execute::backup::files::{Names, Storable};
use crate::execute::backup::script::{scripts, tables};
use crate::execute::backup::{LOAD, OWN, SCHEMA};
use crate::execute::copy::export::{given_rows, reporting};
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::session::table_scan::TableScan;

pub(crate) use swingdb_files::options::{ExportOptions, FileFormat, ForceQuote};

/// Runs an EXPORT DATABASE.
pub(crate) fn export(session: &Arc<Session>, export: &ExportDatabase) -> Result<QueryResult> {
    session.limits().external("EXPORT DATABASE")?;
    check_local_output(&export.folder)?;
    let options = options(export)?;
    let catalog = catalog(session, export.database.as_deref())?;
    let scripts = scripts(session, &catalog)?;
    let path = export.folder.strip_prefix("file://").unwrap_or(&export.folder);
    let mut folder = OutputFolder::create(Path::new(path))?;
    let (mut names, mut load, mut rows) = (Names::new(&end(&options)), String::new(), 0);
    for (schema, table) in tables(&catalog)? {
        session.cancel_token().check()?;
        let file = names.of(&schema, table.name());
        let schema = Some(schema.as_str()).filter(|schema| *schema != MAIN);
        let name = qualified(schema, table.name());
        load.push_str(&format!("COPY {name} FROM '{file}' ({});\n", said(&options)));
        rows += write_table(session, TableScan::of(table), &folder.place(&file), &options)?;
    }
    folder.text(LOAD, &load)?;
    if !scripts.own.is_empty() {
        folder.text(OWN, &scripts.own)?;
    }
    folder.text(SCHEMA, &scripts.schema)?;
    // The last of them to be there: without it, it is no export.
    folder.commit(SCHEMA, &session.cancel_token())?;
    Ok(QueryResult::changed(Some(rows), "EXPORT"))
}

/// What makes a database anew, as text: see [`definitions`](crate::Connection::definitions).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Definitions {
    /// Statements that make schemas, sequences, tables, macros and views.
    pub schema: String,
    /// The tables to fill, as SQL writes their names, in the order of `schema`.
    pub tables: Vec<String>,
    /// Statements for what only SwingDB knows; they run after the tables are filled.
    pub own: String,
}

/// The definitions of what the session's database has.
pub(crate) fn definitions(session: &Arc<Session>) -> Result<Definitions> {
    let catalog = catalog(session, None)?;
    let scripts = scripts(session, &catalog)?;
    let name = |(schema, table): (String, Arc<swingdb_store::Table>)| {
        qualified(Some(schema.as_str()).filter(|schema| *schema != MAIN), table.name())
    };
    let tables = tables(&catalog)?.into_iter().map(name).collect();
    Ok(Definitions { schema: scripts.schema, tables, own: scripts.own })
}

/// The state of the session's database, or of the one that is named.
fn catalog(session: &Session, name: Option<&str>) -> Result<Arc<Catalog>> {
    let view = session.view()?;
    let Some(name) = name else { return Ok(view.main.catalog) };
    match view.database(name) {
        Some(source) => Ok(Arc::clone(&source.catalog)),
        None => {
            let known = view.attached.keys().chain(&view.database_name);
            Err(Error::not_found(ObjectKind::Database, name, known))
        }
    }
}

fn options(export: &ExportDatabase) -> Result<ExportOptions> {
    let mut options = ExportOptions::default();
    for (name, value) in &export.options {
        options.set(name, value)?;
    }
    let format = *options.format.get_or_insert(FileFormat::Parquet);
    if !matches!(format, FileFormat::Parquet | FileFormat::Csv) {
        return Err(Error::unsupported("EXPORT DATABASE in this format; take parquet or csv"));
    }
    if format == FileFormat::Parquet && options.compression.is_none() {
        // It is written once, and kept for long.
        options.compression = Some("zstd".to_string());
    }
    if !options.partition_by.is_empty() {
        return Err(Error::unsupported("EXPORT DATABASE with partition_by; COPY each table"));
    }
    if options.date_format.is_some() || options.timestamp_format.is_some() {
        let message = "EXPORT DATABASE with dateformat and timestampformat, which may leave parts \
                       of values out; COPY each table";
        return Err(Error::unsupported(message));
    }
    if matches!(options.force_quote, ForceQuote::Columns(_)) {
        let message = "EXPORT DATABASE with force_quote of some columns; write FORCE_QUOTE *";
        return Err(Error::unsupported(message));
    }
    options.check_for(format)?;
    Ok(options)
}

/// How the name of a data file ends.
fn end(options: &ExportOptions) -> String {
    let packing = match options.compression.as_deref() {
        Some("gzip" | "gz") => ".gz",
        Some("zstd" | "zst") => ".zst",
        _ => "",
    };
    match options.format {
        Some(FileFormat::Csv) => format!(".csv{packing}"),
        _ => ".parquet".to_string(),
    }
}

/// What COPY ... FROM has to be told about the files.
fn said(options: &ExportOptions) -> String {
    if options.format != Some(FileFormat::Csv) {
        return "FORMAT 'parquet'".to_string();
    }
    let quoted = |text: &str| text.replace('\'', "''");
    let byte = |byte: u8| quoted(&char::from(byte).to_string());
    let header = options.header.unwrap_or(true);
    let delimiter = options.delimiter.unwrap_or(b','.into());
    let delimiter = quoted(&String::from_utf8_lossy(delimiter.bytes()));
    let quote = options.quote.unwrap_or(b'"');
    let (quote, escape) = (byte(quote), byte(options.escape.unwrap_or(quote)));
    let null = quoted(options.null.as_deref().unwrap_or_default());
    format!(
        "FORMAT 'csv', HEADER {header}, DELIMITER '{delimiter}', QUOTE '{quote}', \
         ESCAPE '{escape}', NULLSTR '{null}', ALLOW_QUOTED_NULLS false"
    )
}

/// Writes the rows of a table; their number.
fn write_table(
    session: &Session,
    scan: TableScan,
    path: &Path,
    options: &ExportOptions,
) -> Result<u64> {
    let reporting = reporting(session)?;
    let (schema, mut rows) = given_rows(scan)?;
    if options.format == Some(FileFormat::Csv) {
        return Ok(write(schema, &mut rows, path, options, session.zone(), &reporting)?.rows);
    }
    let storable = Storable::new(&schema);
    let schema = Arc::clone(&storable.schema);
    let mut rows = rows.map(move |batch| storable.batch(batch?));
    Ok(write(schema, &mut rows, path, options, session.zone(), &reporting)?.rows)
}
