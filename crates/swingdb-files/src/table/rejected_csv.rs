//! `csv_rejects('file.csv')`: the records that `ignore_errors` leaves out of a CSV file, each with
//! what is wrong with it.
//!
//! The file is read when a statement is planned, on its thread; nothing is kept between statements.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::time::zones::Zone;

use crate::csv::CsvScan;
use crate::input::find_read;
use crate::options::{FileFormat, ImportOptions};
use crate::reading::Run;
use crate::table::arguments::given;

const NAME: &str = "csv_rejects";
/// Records that are told of; a file with more of them is something else.
const MAX_REJECTS: usize = 100_000;
/// Records of a block, about.
const BLOCK_ROWS: usize = 8_192;

/// The function of this file.
pub(crate) fn function() -> (&'static str, Arc<dyn TableFunctionImpl>) {
    (NAME, Arc::new(CsvRejects))
}

#[derive(Debug)]
struct CsvRejects;

impl TableFunctionImpl for CsvRejects {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let (paths, options) = given(NAME, FileFormat::Csv, args.exprs())?;
        let rows = found(&paths, options).map_err(DataFusionError::from)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

fn found(paths: &[String], mut options: ImportOptions) -> Result<RecordBatch> {
    options.ignore_errors = true;
    options.check_for(FileFormat::Csv)?;
    let mut files = Vec::new();
    for path in paths {
        for file in find_read(path, Some(FileFormat::Csv))? {
            file.check_packing(&options)?;
            files.push(file.encoded(options.encoding));
        }
    }
    let scan = CsvScan::open(&files, &options, None)?;
    let run = Run {
        threads: 1,
        batch_rows: BLOCK_ROWS,
        projection: None,
        token: None,
        zone: Zone::UTC,
        meter: Meter::new(None, None, "bytes"),
        turnstile: None,
    };
    let rejects = scan.rejects(&files, &run, MAX_REJECTS)?;
    if rejects.len() > MAX_REJECTS {
        let message =
            format!("more than {MAX_REJECTS} records cannot be read; see its first error");
        return Err(Error::plan(format!("{NAME}: {}: {message}", paths.join(", "))));
    }
    let text = |values: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let rejects = || rejects.iter();
    let name = |(file, _): &(usize, _)| files[*file].path.to_string_lossy().into_owned();
    let lines = rejects().map(|(_, reject)| i64::try_from(reject.line).unwrap_or(i64::MAX));
    let record =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches(['\r', '\n']).to_string();
    let message = |error: &Error| match error {
        Error::Import { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let columns = vec![
        text(rejects().map(name).collect()),
        Arc::new(Int64Array::from_iter_values(lines)) as ArrayRef,
        text(rejects().map(|(_, reject)| record(&reject.record)).collect()),
        text(rejects().map(|(_, reject)| message(&reject.error)).collect()),
    ];
    let fields = vec![
        Field::new("filename", DataType::Utf8, false),
        Field::new("line", DataType::Int64, false),
        Field::new("csv_line", DataType::Utf8, false),
        Field::new("error_message", DataType::Utf8, false),
    ];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
