//! Errors about damaged Parquet files: which file, and where in it.

use std::fmt;
use std::fs::File;
use std::path::Path;

use datafusion::common::DataFusionError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use swingdb_common::error::Error;
use swingdb_common::runtime::cancel;

use crate::input::decoder;
use crate::parquet::widths;

/// What is said of a file whose decoder panicked.
pub(super) const GAVE_UP: &str = "is damaged: the Parquet decoder gave up";
/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1024;

/// A column that cannot be decoded.
#[derive(Debug)]
pub(super) struct Damage {
    column: String,
    row_group: usize,
    why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, row_group, why } = self;
        write!(f, "is damaged: column {column:?} of row group {row_group}: {why}")
    }
}

/// The first column of these row groups that cannot be decoded. Each is decoded alone, so this is
/// for files that have failed. A statement that is to end finds none.
pub(super) fn find(
    source: &File,
    metadata: &ArrowReaderMetadata,
    mut row_groups: impl Iterator<Item = usize>,
) -> Option<Damage> {
    let columns = metadata.schema().fields();
    row_groups.find_map(|row_group| {
        columns.iter().enumerate().find_map(|(at, column)| {
            let why = match decoder::run(|| decode(source, metadata, row_group, at)) {
                Ok(Ok(())) => return None,
                Ok(Err(ParquetError::External(inner))) if is_from_outside(inner.as_ref()) => {
                    return None;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the decoder gave up".to_string(),
            };
            Some(Damage { column: column.name().clone(), row_group, why })
        })
    })
}

fn decode(
    source: &File,
    metadata: &ArrowReaderMetadata,
    row_group: usize,
    column: usize,
) -> Result<(), ParquetError> {
    let builder =
        ParquetRecordBatchReaderBuilder::new_with_metadata(source.try_clone()?, metadata.clone());
    let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
    let rows = widths::batch_rows(metadata.schema(), BATCH_ROWS);
    let reader = builder.with_row_groups(vec![row_group]).with_projection(mask);
    for batch in reader.with_batch_size(rows).build()? {
        batch?;
        cancel::check().map_err(|interrupted| ParquetError::External(interrupted.into()))?;
    }
    Ok(())
}

/// Whether an error has another cause than the bytes of the file: the operating system's errors
/// have a number, those of unpackers have none.
fn is_from_outside(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<DataFusionError>()
        || error.is::<Error>()
        || error.downcast_ref::<std::io::Error>().is_some_and(|io| io.raw_os_error().is_some())
}

/// A decoder's error as one about the file.
pub(super) fn error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) if io.raw_os_error().is_some() => Error::io(path, *io),
            Ok(io) => unreadable(path, &io.to_string()),
            // Such as of a part that cannot be fetched.
            Err(other) => match other.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => unreadable(path, &other.to_string()),
            },
        },
        other => unreadable(path, &other.to_string()),
    }
}

/// As [`error`], of a text.
pub(super) fn unreadable(path: &Path, why: &str) -> Error {
    broken(path, format!("is no readable Parquet file: {why}"))
}

pub(super) fn broken(path: &Path, message: String) -> Error {
    Error::Import { path: path.to_path_buf(), line: None, message }
}
