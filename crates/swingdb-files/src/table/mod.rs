//! Files as tables of a query: `FROM 'file.csv'`, `read_csv('file.csv')`, `CREATE EXTERNAL TABLE`.
//!
//! Parquet goes through DataFusion's own scan ([`crate::parquet::table`]), which skips row groups
//! and pages by their statistics. The other formats are read by the same code as imports, with only
//! the columns a query asks for ([`file_table`](mod@file_table)).

mod arguments;
mod delta_scan;
mod described_csv;
mod described_parquet;
mod file_table;
mod listing;
mod rejected_csv;
mod united;

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;
use swingdb_common::error::{Error, Result};

use self::arguments::given;
use self::file_table::one_table;
use self::united::united;
use crate::delta;
use crate::input::{MAX_FILES, find_read};
use crate::options::{FileFormat, ImportOptions};

/// A file, a pattern of files, or the directory of a Delta table, as a table: what
/// `FROM 'file.parquet'` reads.
pub fn file_table(path: &str) -> Result<Arc<dyn TableProvider>> {
    if delta::is_table(path) {
        return delta::table(path, None);
    }
    file_table_with(&[path.to_string()], &ImportOptions::default())
}

/// As [`file_table`], of several files or patterns one after the other, with options.
pub fn file_table_with(
    paths: &[String],
    options: &ImportOptions,
) -> Result<Arc<dyn TableProvider>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(find_read(path, options.format)?);
        if files.len() > MAX_FILES {
            return Err(Error::plan(format!("a table of more than {MAX_FILES} files")));
        }
    }
    if options.union_by_name && files.len() > 1 {
        return united(files, options, false);
    }
    match one_table(files, options, paths.join(", "))? {
        Ok(table) => Ok(table),
        Err(different) => united(different, options, true),
    }
}

/// The table functions `read_csv`, `read_parquet`, `read_json` and `read_arrow`, those that
/// [list files](crate::table::listing), and those that tell what is in files of
/// [Parquet](crate::table::described_parquet) and [CSV](crate::table::described_csv),
/// [`csv_rejects`](crate::table::rejected_csv), and [`delta_scan`](crate::table::delta_scan).
pub fn functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let one = |name, format| -> (&'static str, Arc<dyn TableFunctionImpl>) {
        (name, Arc::new(ReadFunction { name, format, whole: false }))
    };
    let whole = |name| -> (&'static str, Arc<dyn TableFunctionImpl>) {
        (name, Arc::new(ReadFunction { name, format: FileFormat::Json, whole: true }))
    };
    let mut all = vec![
        whole("read_json_objects"),
        whole("read_json_objects_auto"),
        whole("read_ndjson_objects"),
        one("read_csv", FileFormat::Csv),
        one("read_csv_auto", FileFormat::Csv),
        one("read_parquet", FileFormat::Parquet),
        one("parquet_scan", FileFormat::Parquet),
        one("read_json", FileFormat::Json),
        one("read_json_auto", FileFormat::Json),
        one("read_ndjson", FileFormat::Json),
        one("read_ndjson_auto", FileFormat::Json),
        one("read_arrow", FileFormat::Arrow),
    ];
    all.extend(listing::functions());
    all.extend(described_parquet::functions());
    all.push(described_csv::function());
    all.push(rejected_csv::function());
    all.push(delta_scan::function());
    all
}

/// Whether a function of a table reads files.
pub fn is_file_function(name: &str) -> bool {
    functions().iter().any(|(known, _)| *known == name)
}

/// `read_x('path')`, with options `read_csv('path', delim = ';')`, which arrive as further
/// pairs of arguments.
#[derive(Debug)]
struct ReadFunction {
    name: &'static str,
    format: FileFormat,
    /// See [`ImportOptions::whole_json`].
    whole: bool,
}

impl TableFunctionImpl for ReadFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let (paths, mut options) = given(self.name, self.format, args.exprs())?;
        if self.whole && (!options.types.is_empty() || options.sample_rows.is_some()) {
            let message = format!(
                "{} has one column, of texts: options columns and sample_size are for read_json",
                self.name
            );
            return Err(Error::plan(message).into());
        }
        options.whole_json = self.whole;
        file_table_with(&paths, &options).map_err(DataFusionError::from)
    }
}
