//! Files in and out: Parquet, CSV, JSON lines and Arrow IPC, by API, by `COPY` and in `FROM 'file'`.

mod options;

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::sql::parser::{CopyToStatement, CreateExternalTable};
use datafusion::sql::sqlparser::ast::Statement;

use crate::error::{Error, Result};
use crate::sql::params::Params;
use crate::sql::result::QueryResult;
use crate::sql::session::Session;

pub use options::{ExportOptions, ExportReport, FileFormat, ImportOptions, ImportReport};

/// COPY ... TO.
pub(crate) fn copy_to(
    _session: &Arc<Session>,
    copy: CopyToStatement,
    _params: &Params,
) -> Result<QueryResult> {
    Err(Error::unsupported(copy.to_string()))
}

/// COPY ... FROM; `statement` is an `ast::Statement::Copy`.
pub(crate) fn copy_from(
    _session: &Arc<Session>,
    statement: &Statement,
    _params: &Params,
) -> Result<QueryResult> {
    Err(Error::unsupported(statement.to_string()))
}

/// CREATE EXTERNAL TABLE: [`Session::register_provider`] makes it queryable.
pub(crate) fn create_external_table(
    _session: &Arc<Session>,
    create: CreateExternalTable,
) -> Result<QueryResult> {
    Err(Error::unsupported(create.to_string()))
}

/// A file, or a pattern of files, as a table: what `FROM 'file.parquet'` reads.
pub(crate) fn file_table(path: &str) -> Result<Arc<dyn TableProvider>> {
    Err(Error::unsupported(format!("reading {path}")))
}

/// Appends a file to a table; see [`Connection::import_file`](crate::Connection::import_file).
pub(crate) fn import_file(
    _session: &Arc<Session>,
    path: &Path,
    _table: &str,
    _options: ImportOptions,
) -> Result<ImportReport> {
    Err(Error::unsupported(format!("importing {}", path.display())))
}

/// Writes a query's rows to a file; see [`Connection::export_file`](crate::Connection::export_file).
pub(crate) fn export_file(
    _session: &Arc<Session>,
    _sql_or_table: &str,
    path: &Path,
    _options: ExportOptions,
) -> Result<ExportReport> {
    Err(Error::unsupported(format!("exporting {}", path.display())))
}
