//! Turning the fields of one column, record after record, into an Arrow array.
//!
//! **Cycle.** A field of a nested type is JSON, whose single values are read as fields are.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, Decimal128Array, Decimal256Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, PrimitiveArray,
    StringViewArray, StringViewBuilder, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{CastOptions, cast, cast_with_options, not, nullif};
use arrow::datatypes::{ArrowPrimitiveType, DataType, TimeUnit, i256};
use arrow::error::ArrowError;
use swingdb_common::cast::blobs::blob_of_text;
use swingdb_common::cast::normalize::read_text;
use swingdb_common::json;
use swingdb_common::time::intervals::readable;
use swingdb_common::time::texts::instant_of;
use swingdb_common::time::zones::Zone;

use crate::text::dialect::Dialect;
use crate::text::fields::{Field, Fields, unescape};
use crate::text::styles::Styles;
use crate::text::values::{self, DateStyle};

/// The fields of a batch of records, with what is needed to understand them.
pub(crate) struct Batch<'a> {
    /// The block's text, which is valid UTF-8.
    pub(crate) text: &'a str,
    pub(crate) fields: &'a Fields,
    /// Fields in a record.
    pub(crate) columns: usize,
    pub(crate) dialect: &'a Dialect,
}

/// A field that is not a value of its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadField {
    /// Record within the batch.
    pub(crate) row: usize,
    pub(crate) field: Field,
}

impl BadField {
    /// Bad fields of one batch are in this order in the file.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.row, self.field.start())
    }
}

impl Batch<'_> {
    /// The fields of file column `column`, record after record.
    #[inline]
    fn fields(&self, column: usize) -> impl Iterator<Item = (usize, Field)> {
        let fields = self.fields.all().iter().skip(column).step_by(self.columns);
        fields.copied().take(self.fields.rows()).enumerate()
    }

    /// Whether a field stands for NULL; the empty one does also in quotes if `empty_is_null`.
    #[inline]
    fn is_null(&self, field: Field, text: &[u8], empty_is_null: bool) -> bool {
        let nulls = &self.dialect.nulls[..];
        match (field.is_quoted(), text.is_empty()) {
            (true, empty) => empty && empty_is_null,
            (false, true) => empty_is_null || nulls.iter().any(|null| null.is_empty()),
            (false, false) if nulls.len() == 1 && nulls[0].is_empty() => false,
            (false, false) => nulls.iter().any(|null| null == text),
        }
    }

    /// Calls `each` for every field of column `column`, with its text as meant (`None`: NULL).
    #[inline]
    fn each(
        &self,
        column: usize,
        empty_is_null: bool,
        mut each: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<(), BadField> {
        let block = self.text.as_bytes();
        let mut buffer = Vec::new();
        for (row, field) in self.fields(column) {
            let mut text = field.text(block);
            let is_null = self.is_null(field, text, empty_is_null);
            if field.is_escaped() {
                unescape(text, self.dialect, &mut buffer);
                text = &buffer;
            }
            if !each((!is_null).then_some(text)) {
                return Err(BadField { row, field });
            }
        }
        Ok(())
    }
}

/// How text is understood as values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// How dates are written.
    pub(crate) dates: DateStyle,
    /// The type is a guess: text that says more than the value of the type would is refused. `007`
    /// and `+49` are codes and no numbers, `1` is no BOOLEAN, and a timestamp has an offset if and
    /// only if the column has a time zone.
    pub(crate) guessed: bool,
}

/// A column in the making.
pub(crate) struct Column {
    data_type: DataType,
    reading: Reading,
    data: Data,
    /// Rows that are NULL, ascending; strings keep their own.
    nulls: Vec<u32>,
    styles: Option<Arc<Styles>>,
}

enum Data {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    D128(Vec<i128>),
    D256(Vec<i256>),
    Text(StringViewBuilder),
    Blob(BinaryViewBuilder),
}

/// Whether a value that is none of the type is found by [`Column::finish`] only, not by
/// [`Column::append`].
pub(crate) fn is_settled_late(data_type: &DataType) -> bool {
    let reading = Reading { dates: DateStyle::Iso, guessed: false };
    let column = Column::new(data_type, reading, 0);
    let is_text = matches!(column.data, Data::Text(_)) && !data_type.is_string();
    is_text || matches!(data_type, DataType::FixedSizeBinary(_))
}

/// Strings longer than an inline view go into blocks of this size.
const STRING_BLOCK_BYTES: u32 = 1 << 20;

impl Column {
    /// An empty column for values of `data_type`.
    pub(crate) fn new(data_type: &DataType, reading: Reading, rows: usize) -> Self {
        let data = match data_type {
            DataType::Boolean => Data::Bool(Vec::with_capacity(rows)),
            DataType::Int8 => Data::I8(Vec::with_capacity(rows)),
            DataType::Int16 => Data::I16(Vec::with_capacity(rows)),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                Data::I32(Vec::with_capacity(rows))
            }
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => Data::I64(Vec::with_capacity(rows)),
            DataType::UInt8 => Data::U8(Vec::with_capacity(rows)),
            DataType::UInt16 => Data::U16(Vec::with_capacity(rows)),
            DataType::UInt32 => Data::U32(Vec::with_capacity(rows)),
            DataType::UInt64 => Data::U64(Vec::with_capacity(rows)),
            DataType::Float16 | DataType::Float32 => Data::F32(Vec::with_capacity(rows)),
            DataType::Float64 => Data::F64(Vec::with_capacity(rows)),
            DataType::Decimal128(_, _) => Data::D128(Vec::with_capacity(rows)),
            DataType::Decimal256(_, _) => Data::D256(Vec::with_capacity(rows)),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Data::Blob(
                BinaryViewBuilder::with_capacity(rows).with_fixed_block_size(STRING_BLOCK_BYTES),
            ),
            _ => Data::Text(
                StringViewBuilder::with_capacity(rows).with_fixed_block_size(STRING_BLOCK_BYTES),
            ),
        };
        Self { data_type: data_type.clone(), reading, data, nulls: Vec::new(), styles: None }
    }

    /// Reads values that are written in these styles.
    pub(crate) fn styled(mut self, styles: Option<&Arc<Styles>>) -> Self {
        self.styles = styles.cloned();
        self
    }

    /// Appends the fields of file column `column`.
    pub(crate) fn append(&mut self, batch: &Batch<'_>, column: usize) -> Result<(), BadField> {
        match &mut self.data {
            Data::Text(out) => append_text(batch, column, out),
            Data::Blob(out) => append_blob(batch, column, out),
            _ => self.fill(FieldsOf { batch, column }),
        }
    }

    /// Appends one value, or NULL; [`NotOfType`] when the text is none of the column's type.
    pub(crate) fn push(&mut self, text: Option<&str>) -> Result<(), NotOfType> {
        match &mut self.data {
            Data::Text(out) => match text {
                Some(text) => out.try_append_value(text).map_err(|_| NotOfType),
                None => {
                    out.append_null();
                    Ok(())
                }
            },
            Data::Blob(out) => {
                let Some(text) = text else {
                    out.append_null();
                    return Ok(());
                };
                let mut bytes = Vec::new();
                blob_of_text(text.as_bytes(), &mut bytes).ok_or(NotOfType)?;
                out.try_append_value(&bytes).map_err(|_| NotOfType)
            }
            _ => self.fill(text),
        }
    }

    /// Appends the values of `from` to a column of numbers.
    #[inline]
    fn fill<F: Fill>(&mut self, from: F) -> Result<(), F::Bad> {
        match self.styles.clone() {
            None => self.fill_usual(from),
            Some(styles) => self.fill_styled(&styles, from),
        }
    }

    /// As [`Self::fill_usual`], for values in the caller's styles.
    fn fill_styled<F: Fill>(&mut self, styles: &Styles, from: F) -> Result<(), F::Bad> {
        let nulls = &mut self.nulls;
        match (&mut self.data, &self.data_type, &styles.dates, &styles.timestamps) {
            (Data::I32(out), DataType::Date32, Some(format), _) => {
                from.fill(out, nulls, |text| Styles::date(format, text))
            }
            (Data::I64(out), DataType::Date64, Some(format), _) => from
                .fill(out, nulls, |text| Some(i64::from(Styles::date(format, text)?) * 86_400_000)),
            (Data::I64(out), DataType::Timestamp(unit, zone), _, Some(format)) => {
                let zone = zone.as_deref().map(Zone::of_arrow).map(Option::unwrap_or_default);
                from.fill(out, nulls, |text| Styles::timestamp(format, text, *unit, zone))
            }
            _ if self.data_type.is_numeric() => self.fill_usual(Styled { from, styles }),
            _ => self.fill_usual(from),
        }
    }

    /// Appends the values of `from` to a column of numbers, by the parser of its type.
    #[inline]
    fn fill_usual<F: Fill>(&mut self, from: F) -> Result<(), F::Bad> {
        let Reading { dates, guessed } = self.reading;
        let nulls = &mut self.nulls;
        match (&mut self.data, &self.data_type) {
            (Data::Bool(out), _) if guessed => from.fill(out, nulls, values::boolean_word),
            (Data::Bool(out), _) => from.fill(out, nulls, values::boolean),
            (Data::I8(out), _) => from.fill(out, nulls, signed),
            (Data::I16(out), _) => from.fill(out, nulls, signed),
            (Data::I32(out), DataType::Date32) => from.fill(out, nulls, |text| day(text, dates)),
            (Data::I32(out), DataType::Time32(unit)) => {
                let per_unit = 1_000_000_000 / values::per_second(*unit);
                from.fill(out, nulls, |text| whole(values::time(text)?, per_unit)?.try_into().ok())
            }
            (Data::I32(out), _) => from.fill(out, nulls, signed),
            (Data::I64(out), DataType::Timestamp(unit, zone)) => {
                let (unit, zone) = (*unit, zone.as_deref().map(Zone::of_arrow));
                let zone = zone.map(Option::unwrap_or_default);
                from.fill(out, nulls, |text| instant(text, unit, zone, self.reading))
            }
            (Data::I64(out), DataType::Date64) => {
                from.fill(out, nulls, |text| Some(i64::from(day(text, dates)?) * 86_400_000))
            }
            (Data::I64(out), DataType::Time64(unit)) => {
                let per_unit = 1_000_000_000 / values::per_second(*unit);
                from.fill(out, nulls, |text| whole(values::time(text)?, per_unit))
            }
            (Data::I64(out), _) if guessed => from.fill(out, nulls, values::plain_integer),
            (Data::I64(out), _) => from.fill(out, nulls, values::integer),
            (Data::U8(out), _) => from.fill(out, nulls, unsigned),
            (Data::U16(out), _) => from.fill(out, nulls, unsigned),
            (Data::U32(out), _) => from.fill(out, nulls, unsigned),
            (Data::U64(out), _) => from.fill(out, nulls, values::unsigned),
            (Data::F32(out), _) => from.fill(out, nulls, values::float32),
            (Data::F64(out), _) if guessed => from.fill(out, nulls, values::plain_float),
            (Data::F64(out), _) => from.fill(out, nulls, values::float),
            (Data::D128(out), data_type) => {
                let (precision, scale) = match data_type {
                    DataType::Decimal128(precision, scale) => (*precision, *scale),
                    _ => (38, 0),
                };
                from.fill(out, nulls, |text| match guessed && !values::is_plain_number(text) {
                    true => None,
                    false => values::decimal(text, precision, scale),
                })
            }
            (Data::D256(out), DataType::Decimal256(precision, scale)) => {
                let (precision, scale) = (*precision, *scale);
                from.fill(out, nulls, |text| values::decimal256(text, precision, scale))
            }
            (Data::D256(out), _) => from.fill(out, nulls, |text| values::decimal256(text, 76, 0)),
            // Not numbers; their callers append them.
            (Data::Text(_) | Data::Blob(_), _) => Ok(()),
        }
    }

    /// The array of the column's type.
    pub(crate) fn finish(self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls;
        let array: ArrayRef = match self.data {
            Data::Bool(values) => {
                let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row]);
                Arc::new(BooleanArray::new(bits, null_buffer(values.len(), &nulls)))
            }
            Data::I8(values) => Arc::new(primitive(values, &nulls) as Int8Array),
            Data::I16(values) => Arc::new(primitive(values, &nulls) as Int16Array),
            Data::I32(values) => Arc::new(primitive(values, &nulls) as Int32Array),
            Data::I64(values) => Arc::new(primitive(values, &nulls) as Int64Array),
            Data::U8(values) => Arc::new(primitive(values, &nulls) as UInt8Array),
            Data::U16(values) => Arc::new(primitive(values, &nulls) as UInt16Array),
            Data::U32(values) => Arc::new(primitive(values, &nulls) as UInt32Array),
            Data::U64(values) => Arc::new(primitive(values, &nulls) as UInt64Array),
            Data::F32(values) => Arc::new(primitive(values, &nulls) as Float32Array),
            Data::F64(values) => Arc::new(primitive(values, &nulls) as Float64Array),
            Data::D128(values) => {
                let array: Decimal128Array = primitive(values, &nulls);
                Arc::new(array.with_data_type(self.data_type.clone()))
            }
            Data::D256(values) => {
                let array: Decimal256Array = primitive(values, &nulls);
                Arc::new(array.with_data_type(self.data_type.clone()))
            }
            Data::Text(mut builder) => Arc::new(builder.finish()),
            Data::Blob(mut builder) => Arc::new(builder.finish()),
        };
        if array.data_type() == &self.data_type {
            return Ok(array);
        }
        if self.data_type.is_nested() {
            return nested(array.as_string_view(), &self.data_type);
        }
        let array = match self.data_type {
            // There is no cast from views.
            DataType::FixedSizeBinary(_) => cast(&array, &DataType::Binary)?,
            DataType::Interval(_) => Arc::new(readable(array.as_string_view())),
            _ => array,
        };
        // Integers become dates and times without copying; strings become what else there is.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&array, &self.data_type, &options)
    }
}

/// Where the values of a column come from.
trait Fill {
    /// What says which value is none.
    type Bad;

    fn fill<T: Copy + Default>(
        self,
        out: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(), Self::Bad>;
}

/// The fields of one column of the file.
struct FieldsOf<'a> {
    batch: &'a Batch<'a>,
    column: usize,
}

impl Fill for FieldsOf<'_> {
    type Bad = BadField;

    #[inline]
    fn fill<T: Copy + Default>(
        self,
        out: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(), BadField> {
        self.batch.each(self.column, true, |text| {
            let Some(text) = text else {
                nulls.push(out.len() as u32);
                out.push(T::default());
                return true;
            };
            match parse(text) {
                Some(value) => {
                    out.push(value);
                    true
                }
                None => false,
            }
        })
    }
}

/// Numbers in the caller's style.
struct Styled<'a, F> {
    from: F,
    styles: &'a Styles,
}

impl<F: Fill> Fill for Styled<'_, F> {
    type Bad = F::Bad;

    fn fill<T: Copy + Default>(
        self,
        out: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(), F::Bad> {
        let styles = self.styles;
        self.from.fill(out, nulls, |text| styles.number(text, &parse))
    }
}

/// Text is no value of its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOfType;

impl Fill for Option<&str> {
    type Bad = NotOfType;

    #[inline]
    fn fill<T: Copy + Default>(
        self,
        out: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(), NotOfType> {
        let value = match self {
            Some(text) => parse(text.as_bytes()).ok_or(NotOfType)?,
            None => {
                nulls.push(out.len() as u32);
                T::default()
            }
        };
        out.push(value);
        Ok(())
    }
}

fn append_text(
    batch: &Batch<'_>,
    column: usize,
    out: &mut StringViewBuilder,
) -> Result<(), BadField> {
    let mut buffer = Vec::new();
    for (row, field) in batch.fields(column) {
        let bytes = field.text(batch.text.as_bytes());
        if batch.is_null(field, bytes, false) {
            out.append_null();
            continue;
        }
        // The block is UTF-8 and fields are cut at ASCII characters, so this never fails.
        let text = match field.is_escaped() {
            false => batch.text.get(field.start()..field.start() + bytes.len()),
            true => {
                unescape(bytes, batch.dialect, &mut buffer);
                std::str::from_utf8(&buffer).ok()
            }
        };
        let appended = text.map(|text| out.try_append_value(text));
        if !matches!(appended, Some(Ok(()))) {
            return Err(BadField { row, field });
        }
    }
    Ok(())
}

fn append_blob(
    batch: &Batch<'_>,
    column: usize,
    out: &mut BinaryViewBuilder,
) -> Result<(), BadField> {
    let mut bytes = Vec::new();
    batch.each(column, false, |text| {
        let Some(text) = text else {
            out.append_null();
            return true;
        };
        bytes.clear();
        blob_of_text(text, &mut bytes).is_some() && out.try_append_value(&bytes).is_ok()
    })
}

/// A point in time in units of a column; what names no offset is told by the clock of its `zone`.
#[inline]
fn instant(text: &[u8], unit: TimeUnit, zone: Option<Zone>, reading: Reading) -> Option<i64> {
    let at = values::timestamp(text, reading.dates)?;
    let fits = match (zone.is_some(), reading.guessed) {
        (zoned, true) => zoned == at.offset_s.is_some(),
        (true, false) => true,
        // Without a zone in the column, an offset in the text would be silently lost.
        (false, false) => at.offset_s.is_none_or(|offset| offset == 0),
    };
    if !fits {
        return None;
    }
    let moment = at.instant(values::per_second(unit))?;
    match zone {
        Some(zone) if at.offset_s.is_none() && !zone.is_utc() => instant_of(moment, unit, zone),
        _ => Some(moment),
    }
}

/// Lists, structs and maps stand in a field as JSON, or else as a cast to text writes them.
fn nested(texts: &StringViewArray, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let error = match of_json(texts, data_type) {
        Err(error) => error,
        found => return found,
    };
    let is_json = |text: Option<&str>| text.is_none_or(|text| json::check(text).is_ok());
    let are_json = BooleanArray::from_iter(texts.iter().map(|text| Some(is_json(text))));
    if are_json.false_count() == 0 {
        return Err(error);
    }
    let others = nullif(texts, &are_json)?;
    let Ok(others) = read_text(others.as_string_view(), data_type, false) else {
        return Err(error);
    };
    let json = nullif(texts, &not(&are_json)?)?;
    let json = of_json(json.as_string_view(), data_type)?;
    zip(&are_json, &json, &others)
}

fn of_json(texts: &StringViewArray, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let mut values = crate::text::json_values::Values::new(data_type)?;
    for text in texts {
        values.push(text.unwrap_or("null"))?;
    }
    values.finish()
}

/// A date; a time of midnight behind it is no loss.
#[inline]
fn day(text: &[u8], dates: DateStyle) -> Option<i32> {
    values::date(text, dates).or_else(|| {
        let at = values::date_time(text, dates)?;
        (at.nanos == 0 && at.offset_s.is_none()).then_some(at.days)
    })
}

/// `nanos` in larger units; `None` when a digit would be lost.
#[inline]
fn whole(nanos: i64, per_unit: i64) -> Option<i64> {
    (nanos % per_unit == 0).then_some(nanos / per_unit)
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: &[u32]) -> PrimitiveArray<T> {
    let nulls = null_buffer(values.len(), nulls);
    PrimitiveArray::new(ScalarBuffer::from(values), nulls)
}

fn null_buffer(rows: usize, nulls: &[u32]) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut bits = vec![0xFFu8; rows.div_ceil(8)];
    for row in nulls {
        bits[*row as usize / 8] &= !(1 << (row % 8));
    }
    Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows)))
}

/// A signed number that fits a type narrower than 64 bits.
fn signed<T: TryFrom<i64>>(text: &[u8]) -> Option<T> {
    values::integer(text)?.try_into().ok()
}

/// An unsigned number that fits a type narrower than 64 bits.
fn unsigned<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    values::unsigned(text)?.try_into().ok()
}
