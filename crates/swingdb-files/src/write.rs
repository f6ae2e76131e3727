//! Rows into one file, or into a folder of files.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use swingdb_common::error::Result;
use swingdb_common::time::zones::Zone;

use crate::input::check_local_output;
use crate::options::{ExportOptions, ExportReport};
use crate::partitioned;
pub use crate::write_one::Reporting;
use crate::write_one::write_one;

/// Writes `rows` to `path`; in text, points in time are written by the clock of `zone`.
pub fn write(
    schema: SchemaRef,
    rows: &mut (dyn Iterator<Item = Result<RecordBatch>> + Send),
    path: &Path,
    options: &ExportOptions,
    zone: Zone,
    reporting: &Reporting,
) -> Result<ExportReport> {
    check_local_output(&path.to_string_lossy())?;
    match options.partition_by.is_empty() {
        true => write_one(schema, rows, path, options, zone, reporting),
        false => partitioned::write(schema, rows, path, options, zone, reporting),
    }
}
