//! Assignment conversion: the values of a statement become values of the columns they are stored
//! in.
//!
//! The rules are those of DuckDB's and PostgreSQL's assignment: numbers convert to numbers when the
//! value fits, fractions are rounded (floating point to the nearest even, decimals half away from
//! zero), text is parsed, anything is formatted as text. A value that does not fit is an
//! [`Error::Conversion`] that names the column, the row and the value; nothing is ever clamped,
//! truncated or turned into NULL. Numbers do not become dates, nor dates numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::util::display::FormatOptions;

use crate::cast::normalize::{prepared, prepared_type};
use crate::cast::refused::refused;
use crate::cast::shown::show;
use crate::enums::EnumType;
use crate::error::{Error, Result};
use crate::time::zones::{Zone, in_zone, shown_in};
use crate::types::sql_names::sql_name;
use crate::uuid;

/// Where in a statement's input a batch lies, for messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin(Option<u64>);

impl Origin {
    /// Rows that have no number a user would know: those of an UPDATE.
    pub const UNNUMBERED: Self = Self(None);

    /// After so many rows of the statement's input.
    pub const fn rows(before: u64) -> Self {
        Self(Some(before))
    }

    /// So many rows further on.
    pub fn plus(self, rows: u64) -> Self {
        Self(self.0.map(|before| before + rows))
    }

    fn label(self, row: usize) -> String {
        self.0.map(|before| format!("row {}: ", before + row as u64 + 1)).unwrap_or_default()
    }
}

/// Whether values of type `from` may be stored in a column of type `to`.
pub fn check_assignable(from: &DataType, to: &DataType, column: &str) -> Result<()> {
    if !refused(from, to) && (from == to || can_cast_types(&prepared_or(from, to), to)) {
        return Ok(());
    }
    Err(Error::Conversion {
        message: format!("{} cannot be stored as {}", sql_name(from), sql_name(to)),
        column: Some(column.to_string()),
    })
}

/// The type that is cast.
fn prepared_or(from: &DataType, to: &DataType) -> DataType {
    prepared_type(from, to).unwrap_or_else(|| from.clone())
}

/// Converts the values of one column; `origin` is the number of rows before this array. Timestamps
/// become points in time, and the other way round, by the clock of the session's `zone`.
pub fn convert_array(array: &ArrayRef, to: &Field, origin: Origin, zone: Zone) -> Result<ArrayRef> {
    let is_uuid = uuid::is_marked(to);
    match array.data_type() {
        DataType::FixedSizeBinary(_) | DataType::Utf8View if is_uuid => {
            convert_uuids(array, to.name(), origin)
        }
        _ => {
            let converted = convert(array, to.data_type(), to.name(), origin, zone)?;
            match EnumType::of_field(to) {
                Some(values) => convert_enums(&converted, &values, to.name(), origin),
                None if is_uuid => convert_uuids(&converted, to.name(), origin),
                None => Ok(converted),
            }
        }
    }
}

fn convert_enums(
    array: &ArrayRef,
    values: &EnumType,
    column: &str,
    origin: Origin,
) -> Result<ArrayRef> {
    let lenient = values.check(array, true)?;
    match (0..array.len()).find(|row| array.is_valid(*row) && lenient.is_null(*row)) {
        None => Ok(lenient),
        Some(row) => {
            let message =
                format!("{}{} is no value of {values}", origin.label(row), show(array, row));
            Err(Error::Conversion { message, column: Some(column.to_string()) })
        }
    }
}

fn convert_uuids(array: &ArrayRef, column: &str, origin: Origin) -> Result<ArrayRef> {
    let converted = match array.data_type() {
        DataType::FixedSizeBinary(width) if *width != uuid::WIDTH => None,
        _ => uuid::canonical(array, false).ok(),
    };
    match converted {
        Some(uuids) => Ok(uuids),
        None => {
            let lenient = uuid::canonical(array, true).ok();
            let wrong = |uuids: ArrayRef| {
                (0..array.len()).find(|row| array.is_valid(*row) && uuids.is_null(*row))
            };
            let row = lenient.and_then(wrong).unwrap_or_default();
            let shown = show(array, row);
            let message = format!("{}{shown} is no valid UUID", origin.label(row));
            Err(Error::Conversion { message, column: Some(column.to_string()) })
        }
    }
}

fn convert(
    array: &ArrayRef,
    to: &DataType,
    column: &str,
    origin: Origin,
    zone: Zone,
) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    if *from == DataType::Null {
        return Ok(arrow::array::new_null_array(to, array.len()));
    }
    check_assignable(from, to, column)?;
    let strict = CastOptions { safe: false, format_options: FormatOptions::default() };
    let shown = shown_in(array, zone)?;
    let converted = prepared(&shown, &in_zone(to, zone), false)
        .and_then(|prepared| Ok(cast_with_options(&prepared, to, &strict)?));
    converted.map_err(|error| explain(&shown, to, column, (origin, zone), &error.to_string()))
}

/// Converts all columns of a batch, by position, to those of `schema`.
pub fn convert_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    origin: Origin,
    zone: Zone,
) -> Result<RecordBatch> {
    debug_assert_eq!(batch.num_columns(), schema.fields().len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (array, field) in batch.columns().iter().zip(schema.fields()) {
        columns.push(convert_array(array, field, origin, zone)?);
    }
    relabel(columns, schema, batch.num_rows())
}

/// A batch of converted columns. Nullability is checked by the store, which knows the table.
pub fn relabel(columns: Vec<ArrayRef>, schema: &SchemaRef, rows: usize) -> Result<RecordBatch> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    let nullable: Vec<Field> = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(nullable));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// The same columns, every one nullable: what a statement brings is checked where it is stored.
pub fn nullable(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    Arc::new(arrow::datatypes::Schema::new(
        schema.fields().iter().map(field).collect::<Vec<Field>>(),
    ))
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// Finds the first value that does not convert, and names it.
fn explain(
    array: &ArrayRef,
    to: &DataType,
    column: &str,
    (origin, zone): (Origin, Zone),
    reason: &str,
) -> Error {
    let lenient = CastOptions { safe: true, format_options: FormatOptions::default() };
    let offender = prepared(array, &in_zone(to, zone), true)
        .ok()
        .and_then(|prepared| cast_with_options(&prepared, to, &lenient).ok())
        .and_then(|cast| (0..array.len()).find(|row| array.is_valid(*row) && cast.is_null(*row)));
    let message = match offender {
        Some(row) => {
            let shown = show(array, row);
            let verb = if is_number(array.data_type()) { "does not fit" } else { "is no valid" };
            format!("{}{shown} {verb} {}", origin.label(row), sql_name(to))
        }
        None => format!("cannot be converted to {}: {reason}", sql_name(to)),
    };
    Error::Conversion { message, column: Some(column.to_string()) }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        AsArray, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array, StringArray,
    };

    use super::*;

    fn convert(array: impl Array + 'static, to: DataType) -> Result<ArrayRef> {
        let array: ArrayRef = Arc::new(array);
        super::convert(&array, &to, "c", Origin::rows(10), Zone::UTC)
    }

    #[test]
    fn fractions_are_rounded() {
        let floats = Float64Array::from(vec![Some(2.5), Some(3.5), Some(-0.6), None]);
        let expected = Int32Array::from(vec![Some(2), Some(4), Some(-1), None]);
        assert_eq!(convert(floats, DataType::Int32).unwrap().as_ref(), &expected);
        let decimals = Decimal128Array::from(vec![25, 24, -25]);
        let decimals = decimals.with_precision_and_scale(5, 1).unwrap();
        let expected = Int32Array::from(vec![3, 2, -3]);
        assert_eq!(convert(decimals, DataType::Int32).unwrap().as_ref(), &expected);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = convert(Int64Array::from(vec![1, 300]), DataType::Int8).unwrap_err();
        assert_eq!(error.to_string(), "column \"c\": row 12: 300 does not fit TINYINT");
        let error = convert(StringArray::from(vec!["x1"]), DataType::Int8).unwrap_err();
        assert_eq!(error.to_string(), "column \"c\": row 11: 'x1' is no valid TINYINT");
        let error = convert(Float64Array::from(vec![f64::NAN]), DataType::Int32).unwrap_err();
        assert!(error.to_string().contains("NaN does not fit INTEGER"), "{error}");
        let error = convert(StringArray::from(vec!["2024-13-01"]), DataType::Date32).unwrap_err();
        assert!(error.to_string().contains("'2024-13-01' is no valid DATE"), "{error}");
    }

    #[test]
    fn numbers_are_no_dates() {
        assert!(convert(Int32Array::from(vec![1]), DataType::Date32).is_err());
        assert!(check_assignable(&DataType::Date32, &DataType::Int64, "c").is_err());
        assert!(check_assignable(&DataType::Utf8, &DataType::Date32, "c").is_ok());
    }

    #[test]
    fn text_and_numbers_convert_both_ways() {
        let text = StringArray::from(vec![Some("7"), None]);
        let expected = Int8Array::from(vec![Some(7), None]);
        assert_eq!(convert(text, DataType::Int8).unwrap().as_ref(), &expected);
        let formatted = convert(Int64Array::from(vec![-5]), DataType::Utf8).unwrap();
        assert_eq!(formatted.as_string::<i32>().value(0), "-5");
    }
}
