//! Batches as CSV text that reads back as the same values.
//!
//! NULL is the empty field (or the caller's text for it), the empty string two quotes. Quotes go
//! around whatever would be read differently without, and around columns that are to have them.
//! Lists and structs are written as JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Schema, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::json::LineDelimitedWriter;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb_common::cast::blobs::blob_text;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::time::intervals::interval_texts;
use swingdb_common::time::texts::{is_moment, moment_text};
use swingdb_common::time::zones::Zone;

use crate::options::{Delimiter, ExportOptions, ForceQuote, WriteFormat};
use crate::text::json_writer;

/// How CSV is written.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) delimiter: Delimiter,
    pub(crate) quote: u8,
    /// Stands before a quote, and before itself, in a quoted field.
    pub(crate) escape: u8,
    pub(crate) null: String,
    /// For each column whether all its fields are quoted, but for NULLs.
    pub(crate) forced: Vec<bool>,
    pub(crate) dates: Option<WriteFormat>,
    pub(crate) timestamps: Option<WriteFormat>,
}

impl Format {
    /// What the options say of files with these columns.
    pub(crate) fn new(options: &ExportOptions, schema: &Schema) -> Result<Self> {
        let quote = options.quote.unwrap_or(b'"');
        Ok(Self {
            delimiter: options.delimiter.unwrap_or(b','.into()),
            quote,
            escape: options.escape.unwrap_or(quote),
            null: options.null.clone().unwrap_or_default(),
            forced: forced(&options.force_quote, schema)?,
            dates: options.date_format.clone(),
            timestamps: options.timestamp_format.clone(),
        })
    }

    /// The record that names the columns.
    pub(crate) fn header<'a>(&self, names: impl Iterator<Item = &'a String>, out: &mut Vec<u8>) {
        for (index, name) in names.enumerate() {
            if index > 0 {
                out.extend_from_slice(self.delimiter.bytes());
            }
            self.text(name.as_bytes(), self.is_forced(index), out);
        }
        out.push(b'\n');
    }

    /// The records of a batch.
    pub(crate) fn records(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns = batch.columns().iter().enumerate();
        let columns: Vec<Column> = columns
            .map(|(index, array)| Column::new(array, self.is_forced(index), self))
            .collect::<Result<_>>()?;
        let mut bare = Vec::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(self.delimiter.bytes());
                }
                if column.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(self.null.as_bytes());
                } else if column.forced && column.is_bare() {
                    bare.clear();
                    self.value(column, row, &mut bare)?;
                    self.quoted(&bare, out);
                } else {
                    self.value(column, row, out)?;
                }
            }
            // A line of one column with nothing on it would be no record of a quoted field.
            out.push(b'\n');
        }
        Ok(())
    }

    fn is_forced(&self, column: usize) -> bool {
        self.forced.get(column).copied().unwrap_or(false)
    }

    fn value(&self, column: &Column, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let (array, forced) = (column.array.as_ref(), column.forced);
        match array.data_type() {
            DataType::Boolean => {
                let value = array.as_boolean().value(row);
                out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            DataType::Int8 => self.signed(array.as_primitive::<Int8Type>().value(row).into(), out),
            DataType::Int16 => {
                self.signed(array.as_primitive::<Int16Type>().value(row).into(), out)
            }
            DataType::Int32 => {
                self.signed(array.as_primitive::<Int32Type>().value(row).into(), out)
            }
            DataType::Int64 => self.signed(array.as_primitive::<Int64Type>().value(row), out),
            DataType::UInt8 => digits(array.as_primitive::<UInt8Type>().value(row).into(), out),
            DataType::UInt16 => digits(array.as_primitive::<UInt16Type>().value(row).into(), out),
            DataType::UInt32 => digits(array.as_primitive::<UInt32Type>().value(row).into(), out),
            DataType::UInt64 => digits(array.as_primitive::<UInt64Type>().value(row), out),
            DataType::Float32 => {
                let value = array.as_primitive::<Float32Type>().value(row);
                out.extend_from_slice(ryu::Buffer::new().format(value).as_bytes());
            }
            DataType::Float64 => {
                let value = array.as_primitive::<Float64Type>().value(row);
                out.extend_from_slice(ryu::Buffer::new().format(value).as_bytes());
            }
            DataType::Decimal128(_, scale) if *scale >= 0 => {
                decimal(array.as_primitive::<Decimal128Type>().value(row), *scale as usize, out);
            }
            given if is_moment(given) => {
                moment_text(array, row, column.zone, out);
            }
            DataType::Utf8View => {
                self.text(array.as_string_view().value(row).as_bytes(), forced, out)
            }
            DataType::Utf8 => {
                self.text(array.as_string::<i32>().value(row).as_bytes(), forced, out)
            }
            DataType::LargeUtf8 => {
                self.text(array.as_string::<i64>().value(row).as_bytes(), forced, out)
            }
            DataType::BinaryView => self.blob(array.as_binary_view().value(row), forced, out),
            DataType::Binary => self.blob(array.as_binary::<i32>().value(row), forced, out),
            DataType::LargeBinary => self.blob(array.as_binary::<i64>().value(row), forced, out),
            DataType::FixedSizeBinary(_) => {
                self.blob(array.as_fixed_size_binary().value(row), forced, out);
            }
            _ => match &column.texts {
                Some(texts) => self.text(texts[row].as_bytes(), forced, out),
                None => {
                    let options = FormatOptions::default();
                    let formatter = ArrayFormatter::try_new(array, &options)?;
                    self.text(formatter.value(row).to_string().as_bytes(), forced, out);
                }
            },
        }
        Ok(())
    }

    fn signed(&self, value: i64, out: &mut Vec<u8>) {
        if value < 0 {
            out.push(b'-');
        }
        digits(value.unsigned_abs(), out);
    }

    /// Text, in quotes when it needs them.
    fn text(&self, text: &[u8], forced: bool, out: &mut Vec<u8>) {
        // The first byte of a delimiter alone may begin one with what comes behind the field.
        let (first, quote) = (self.delimiter.bytes()[0], self.quote);
        let special = |byte: &u8| *byte == first || *byte == quote || matches!(byte, b'\n' | b'\r');
        let plain = !text.is_empty() && text != self.null.as_bytes() && !text.iter().any(special);
        match plain && !forced {
            true => out.extend_from_slice(text),
            false => self.quoted(text, out),
        }
    }

    fn quoted(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(self.quote);
        for byte in text {
            if *byte == self.quote || *byte == self.escape {
                out.push(self.escape);
            }
            out.push(*byte);
        }
        out.push(self.quote);
    }

    fn blob(&self, bytes: &[u8], forced: bool, out: &mut Vec<u8>) {
        let mut text = Vec::with_capacity(bytes.len());
        blob_text(bytes, &mut text);
        self.text(&text, forced, out);
    }
}

/// For each column whether it is one of those that are named.
fn forced(named: &ForceQuote, schema: &Schema) -> Result<Vec<bool>> {
    let names = || schema.fields().iter().map(|field| field.name());
    let wanted = match named {
        ForceQuote::None => return Ok(Vec::new()),
        ForceQuote::All => return Ok(vec![true; names().count()]),
        ForceQuote::Columns(wanted) => wanted,
    };
    let mut forced = vec![false; names().count()];
    for name in wanted {
        let place = names().position(|known| known.eq_ignore_ascii_case(name));
        let place = place.ok_or_else(|| Error::not_found(ObjectKind::Column, name, names()))?;
        forced[place] = true;
    }
    Ok(forced)
}

/// A column ready to be written row by row.
struct Column {
    array: ArrayRef,
    /// Which values are NULL. Not all kinds of arrays say that row by row.
    nulls: Option<NullBuffer>,
    /// Whether all fields are quoted.
    forced: bool,
    /// By whose clock points in time are written.
    zone: Zone,
    /// The values of nested types as JSON.
    texts: Option<Vec<String>>,
}

impl Column {
    fn new(array: &ArrayRef, forced: bool, format: &Format) -> Result<Self> {
        // The values of a dictionary are written as what they are.
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => arrow::compute::cast(array, values)?,
            _ => ArrayRef::clone(array),
        };
        let array = interval_texts(&array).map_or(array, |texts| Arc::new(texts));
        let written = match array.data_type() {
            DataType::Date32 | DataType::Date64 => format.dates.as_ref(),
            DataType::Timestamp(..) => format.timestamps.as_ref(),
            _ => None,
        };
        let array = match written {
            Some(format) => Arc::new(format.texts(&array)?),
            None => array,
        };
        let texts = match array.data_type().is_nested() {
            true => Some(json_texts(&array)?),
            false => None,
        };
        let zone = match array.data_type() {
            DataType::Timestamp(_, Some(name)) => Zone::of_arrow(name).unwrap_or_default(),
            _ => Zone::UTC,
        };
        let nulls = array.logical_nulls();
        Ok(Self { array, nulls, forced, zone, texts })
    }

    /// Whether the values are written as they are, and never quoted.
    fn is_bare(&self) -> bool {
        let data_type = self.array.data_type();
        let is_number =
            data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64);
        is_number
            || is_moment(data_type)
            || matches!(data_type, DataType::Boolean)
            || matches!(data_type, DataType::Decimal128(_, scale) if *scale >= 0)
    }
}

/// Each value as JSON.
fn json_texts(array: &ArrayRef) -> Result<Vec<String>> {
    let batch = RecordBatch::try_from_iter_with_nullable([("v", ArrayRef::clone(array), true)])?;
    let mut writer: LineDelimitedWriter<Vec<u8>> =
        json_writer::builder().build::<_, LineDelimited>(Vec::new());
    writer.write(&batch)?;
    writer.finish()?;
    let text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    let value = |line: &str| {
        let inner = line.strip_prefix("{\"v\":").and_then(|rest| rest.strip_suffix('}'));
        inner.unwrap_or(line).to_string()
    };
    Ok(text.lines().map(value).collect())
}

fn digits(mut value: u64, out: &mut Vec<u8>) {
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&buffer[at..]);
}

fn decimal(value: i128, scale: usize, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut text = value.unsigned_abs().to_string();
    if text.len() <= scale {
        text = format!("{text:0>width$}", width = scale + 1);
    }
    let (whole, fraction) = text.split_at(text.len() - scale);
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::values::{self, DateStyle};
    use swingdb_common::time::texts::{date_text, stamp_text};

    #[test]
    fn dates_and_times_read_back() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let days = random.i32(-900_000..3_000_000);
            let mut text = Vec::new();
            date_text(days.into(), &mut text);
            assert_eq!(values::date(&text, DateStyle::Iso), Some(days), "{}", text.escape_ascii());
            let per_second = [1, 1_000, 1_000_000, 1_000_000_000][random.usize(0..4)];
            let value = i64::from(random.i32(..)) * per_second + random.i64(0..per_second);
            text.clear();
            stamp_text(value, per_second, &mut text);
            let read = values::date_time(&text, DateStyle::Iso).unwrap().instant(per_second);
            assert_eq!(read, Some(value), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn decimals_and_digits() {
        let shown = |value, scale| {
            let mut out = Vec::new();
            decimal(value, scale, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(-5, 2), "-0.05");
        assert_eq!(shown(12_345, 2), "123.45");
        assert_eq!(shown(7, 0), "7");
        let mut out = Vec::new();
        digits(u64::MAX, &mut out);
        assert_eq!(out, u64::MAX.to_string().as_bytes());
    }
}
