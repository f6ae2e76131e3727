//! A version of a Delta table as a table of a query: its Parquet files, with the columns and the
//! values of partitions that the log has.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use swingdb_common::error::{Error, ObjectKind, Result};

use super::actions::Add;
use super::failure::broken;
use super::log::{LOG_FOLDER, Version};
use super::schema;
use crate::input::{InputFile, MAX_FILES};
use crate::parquet::table::ParquetTable;
use crate::reading::file_columns::FileColumns;

/// Whether a directory is a Delta table.
pub(crate) fn is_table(path: &str) -> bool {
    Path::new(path).join(LOG_FOLDER).is_dir()
}

/// A version of a table, the newest one if `version` is `None`.
pub(crate) fn table(path: &str, version: Option<u64>) -> Result<Arc<dyn TableProvider>> {
    let root = Path::new(path);
    if !is_table(path) {
        return Err(match root.exists() {
            true => broken(root, format!("is no Delta table: it has no folder {LOG_FOLDER}")),
            false => Error::not_found(ObjectKind::File, path, Vec::<String>::new()),
        });
    }
    let version = Version::read(root, version)?;
    let fields = schema::fields(root, &version.metadata.schema)?;
    let schema = Arc::new(Schema::new(fields));
    if version.files.len() > MAX_FILES {
        return Err(Error::plan(format!("a table of more than {MAX_FILES} files")));
    }
    if version.files.is_empty() {
        return Ok(Arc::new(EmptyTable::new(schema)));
    }
    let input = |add: &Add| InputFile::of_path(&add.place(root)?);
    let files = version.files.iter().map(input).collect::<Result<Vec<_>>>()?;
    let partitions = partitions(root, &schema, &version, &files)?;
    ParquetTable::declared(files, schema, partitions)
}

/// The columns whose values the log has for each file.
fn partitions(
    root: &Path,
    schema: &Schema,
    version: &Version,
    files: &[InputFile],
) -> Result<FileColumns> {
    let mut columns = Vec::new();
    for name in &version.metadata.partition_columns {
        let Some((_, field)) = schema.fields().find(name) else {
            return Err(broken(root, format!("has no column {name:?}, which partitions it")));
        };
        let field: FieldRef = Arc::new(Field::clone(field).with_nullable(true));
        let texts = version.files.iter().map(|add| {
            // As the protocol has it: an empty text is NULL for all types.
            let text = add.partition_values.get(name).and_then(Option::as_deref);
            text.filter(|text| !text.is_empty())
        });
        columns.push((field, texts.collect::<Vec<_>>()));
    }
    FileColumns::given(columns, files)
}
