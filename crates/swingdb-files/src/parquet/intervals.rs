//! Columns of Parquet's type INTERVAL: months, days and milliseconds, each a number of 32 bits.
//!
//! The decoder gives either the months or the rest, as an Arrow schema in the file says. Where none
//! does (DuckDB writes none) it would leave out the months. So such columns are decoded twice, and
//! put together. Inside of lists and structs they are refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, RecordBatch};
use arrow::datatypes::{
    DataType, Field, Fields, IntervalDayTimeType, IntervalMonthDayNano, IntervalUnit,
    IntervalYearMonthType, Schema,
};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::ConvertedType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use swingdb_common::error::{Error, Result};

const NANOS_PER_MILLI: i64 = 1_000_000;

/// The type that the columns get.
pub(super) const WHOLE: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The columns that have to be decoded twice.
pub(super) fn columns(metadata: &ParquetMetaData) -> Result<Vec<usize>, ParquetError> {
    let file = metadata.file_metadata();
    let told = file.key_value_metadata().into_iter().flatten();
    if told.into_iter().any(|pair| pair.key == ARROW_SCHEMA_META_KEY) {
        return Ok(Vec::new());
    }
    let described = file.schema_descr();
    let mut found = Vec::new();
    for (leaf, column) in described.columns().iter().enumerate() {
        if column.converted_type() != ConvertedType::INTERVAL {
            continue;
        }
        if column.path().parts().len() > 1 {
            return Err(ParquetError::General(format!(
                "column {:?} is an INTERVAL inside of another type; write it as a text",
                column.path().string()
            )));
        }
        found.push(described.get_column_root_idx(leaf));
    }
    Ok(found)
}

/// What decodes the months of these columns.
pub(super) fn of_months(
    metadata: &ArrowReaderMetadata,
    columns: &[usize],
) -> Result<ArrowReaderMetadata, ParquetError> {
    let months = DataType::Interval(IntervalUnit::YearMonth);
    let schema = metadata.schema();
    let fields =
        schema.fields().iter().enumerate().map(|(at, field)| match columns.contains(&at) {
            true => Arc::new(Field::clone(field).with_data_type(months.clone())),
            false => Arc::clone(field),
        });
    let fields = fields.collect::<Fields>();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
}

/// The whole intervals, of which `months` has one part and `rest` the other.
pub(super) fn whole(months: &ArrayRef, rest: &ArrayRef) -> Result<ArrayRef> {
    let (Some(months), Some(days)) = (
        months.as_primitive_opt::<IntervalYearMonthType>(),
        rest.as_primitive_opt::<IntervalDayTimeType>(),
    ) else {
        return Err(Error::internal("intervals that were decoded as something else"));
    };
    let pairs = months.values().iter().zip(days.values());
    // The file's numbers have no sign.
    let values = pairs.enumerate().map(|(row, (months, rest))| {
        let day = u32::from_ne_bytes(rest.days.to_ne_bytes());
        match (i32::try_from(u32::from_ne_bytes(months.to_ne_bytes())), i32::try_from(day)) {
            (Ok(months), Ok(days)) => {
                let millis = i64::from(u32::from_ne_bytes(rest.milliseconds.to_ne_bytes()));
                Ok(IntervalMonthDayNano::new(months, days, millis * NANOS_PER_MILLI))
            }
            _ if days.is_null(row) => Ok(IntervalMonthDayNano::ZERO),
            _ => Err(Error::Execution {
                message: "an INTERVAL of more than 2147483647 months or days".to_string(),
            }),
        }
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(IntervalMonthDayNanoArray::new(values.into(), days.nulls().cloned())))
}

/// The columns of a batch of months one after the other.
pub(super) fn next_of(months: Option<&RecordBatch>, at: usize) -> Result<&ArrayRef> {
    let column = months.filter(|batch| at < batch.num_columns()).map(|batch| batch.column(at));
    column.ok_or_else(|| Error::internal("months that were not decoded"))
}
