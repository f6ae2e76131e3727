//! Assignment conversion: the values of a statement become values of the columns they are stored
//! in.
//!
//! The rules are those of DuckDB's and PostgreSQL's assignment: numbers convert to numbers when the
//! value fits, fractions are rounded (floating point to the nearest even, decimals half away from
//! zero), text is parsed, anything is formatted as text. A value that does not fit is an
//! [`Error::Conversion`] that names the column, the row and the value; nothing is ever clamped,
//! truncated or turned into NULL. Numbers do not become dates, nor dates numbers.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, RecordBatch, StructArray,
};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::{Error, Result};
use crate::io::timestamp_texts;
use crate::sql::type_names::sql_name;

/// Values longer than this are cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// Where in a statement's input a batch lies, for messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin(Option<u64>);

impl Origin {
    /// Rows that have no number a user would know: those of an UPDATE.
    pub(crate) const UNNUMBERED: Self = Self(None);

    /// After so many rows of the statement's input.
    pub(crate) const fn rows(before: u64) -> Self {
        Self(Some(before))
    }

    /// So many rows further on.
    pub(crate) fn plus(self, rows: u64) -> Self {
        Self(self.0.map(|before| before + rows))
    }

    fn label(self, row: usize) -> String {
        self.0.map(|before| format!("row {}: ", before + row as u64 + 1)).unwrap_or_default()
    }
}

/// Whether values of type `from` may be stored in a column of type `to`.
pub(crate) fn check_assignable(from: &DataType, to: &DataType, column: &str) -> Result<()> {
    let refused = (is_number(from) && is_temporal(to)) || (is_temporal(from) && is_number(to));
    if !refused && (from == to || can_cast_types(from, to)) {
        return Ok(());
    }
    Err(Error::Conversion {
        message: format!("{} cannot be stored as {}", sql_name(from), sql_name(to)),
        column: Some(column.to_string()),
    })
}

/// Converts the values of one column; `origin` is the number of rows before this array.
pub(crate) fn convert_array(
    array: &ArrayRef,
    to: &DataType,
    column: &str,
    origin: Origin,
) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    if *from == DataType::Null {
        return Ok(arrow::array::new_null_array(to, array.len()));
    }
    check_assignable(from, to, column)?;
    let rounded = prepared(array, to)?;
    let strict = CastOptions { safe: false, format_options: FormatOptions::default() };
    match cast_with_options(&rounded, to, &strict) {
        Ok(converted) => Ok(converted),
        Err(error) => Err(explain(array, &rounded, to, column, origin, &error.to_string())),
    }
}

/// Converts all columns of a batch, by position, to those of `schema`.
pub(crate) fn convert_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    origin: Origin,
) -> Result<RecordBatch> {
    debug_assert_eq!(batch.num_columns(), schema.fields().len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (array, field) in batch.columns().iter().zip(schema.fields()) {
        columns.push(convert_array(array, field.data_type(), field.name(), origin)?);
    }
    relabel(columns, schema, batch.num_rows())
}

/// A batch of converted columns. Nullability is checked by the store, which knows the table.
pub(crate) fn relabel(
    columns: Vec<ArrayRef>,
    schema: &SchemaRef,
    rows: usize,
) -> Result<RecordBatch> {
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
pub(crate) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    Arc::new(arrow::datatypes::Schema::new(
        schema.fields().iter().map(field).collect::<Vec<Field>>(),
    ))
}

/// Values as text that reads back as them.
const TEXT_FORMAT: FormatOptions<'static> =
    FormatOptions::new().with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));

/// What is to be cast to `to`: fractions are rounded, where a cast would cut them off, and
/// timestamps become text that reads back.
pub(crate) fn prepared(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if to.is_string() && matches!(array.data_type(), DataType::Timestamp(..)) {
        return match timestamp_texts(array) {
            Some(texts) => Ok(texts),
            None => {
                let options = CastOptions { safe: false, format_options: TEXT_FORMAT };
                Ok(cast_with_options(array, &DataType::Utf8, &options)?)
            }
        };
    }
    round_fractions(array, to)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn is_temporal(data_type: &DataType) -> bool {
    data_type.is_temporal()
}

/// Fractions are rounded, where a cast would cut them off.
fn round_fractions(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if let (DataType::List(_), DataType::List(item)) = (array.data_type(), to) {
        let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
        let values = round_fractions(&values, item.data_type())?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        return Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?));
    }
    if let (DataType::Struct(_), DataType::Struct(targets)) = (array.data_type(), to) {
        return round_fields(array.as_struct(), targets);
    }
    if !to.is_integer() {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float64 => {
            let rounded: Float64Array =
                array.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Arc::new(rounded)
        }
        DataType::Float32 => {
            let rounded: Float32Array =
                array.as_primitive::<Float32Type>().unary(f32::round_ties_even);
            Arc::new(rounded)
        }
        DataType::Float16 => round_fractions(&cast_strict(array, &DataType::Float32)?, to)?,
        DataType::Decimal128(precision, scale) if *scale > 0 => {
            cast_strict(array, &DataType::Decimal128(*precision, 0))?
        }
        DataType::Decimal256(precision, scale) if *scale > 0 => {
            cast_strict(array, &DataType::Decimal256(*precision, 0))?
        }
        _ => Arc::clone(array),
    })
}

/// Fractions in the fields of structs, which go where their names or else their places say.
fn round_fields(structs: &StructArray, targets: &Fields) -> Result<ArrayRef> {
    let (fields, columns, nulls) = structs.clone().into_parts();
    let mut rounded = Vec::with_capacity(columns.len());
    for (place, (field, column)) in fields.iter().zip(&columns).enumerate() {
        let named = targets.iter().find(|target| target.name() == field.name());
        rounded.push(match named.or(targets.get(place)) {
            Some(target) => round_fractions(column, target.data_type())?,
            None => Arc::clone(column),
        });
    }
    let fields = fields.iter().zip(&rounded).map(|(field, column)| {
        let field = field.as_ref().clone();
        field.with_data_type(column.data_type().clone()).with_nullable(true)
    });
    let fields = Fields::from(fields.collect::<Vec<Field>>());
    Ok(Arc::new(StructArray::try_new_with_length(fields, rounded, nulls, structs.len())?))
}

fn cast_strict(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, format_options: FormatOptions::default() };
    Ok(cast_with_options(array, to, &strict)?)
}

/// Finds the first value that does not convert, and names it.
fn explain(
    array: &ArrayRef,
    rounded: &ArrayRef,
    to: &DataType,
    column: &str,
    origin: Origin,
    reason: &str,
) -> Error {
    let lenient = CastOptions { safe: true, format_options: FormatOptions::default() };
    let offender = cast_with_options(rounded, to, &lenient)
        .ok()
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

/// One value as a person would write it, cut when long.
pub(crate) fn show(array: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    let text = match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => "a value".to_string(),
    };
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("'{short}'"),
        _ => short,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int8Array, Int32Array, Int64Array, StringArray};

    use super::*;

    fn convert(array: impl Array + 'static, to: DataType) -> Result<ArrayRef> {
        let array: ArrayRef = Arc::new(array);
        convert_array(&array, &to, "c", Origin::rows(10))
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
