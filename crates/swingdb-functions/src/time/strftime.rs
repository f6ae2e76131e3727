//! `strftime(x, format)`: a date or timestamp as text in a format.
//!
//! `%z` and `%Z` are the offset and the name of the zone that the type of a TIMESTAMPTZ names.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDateTime};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::time::texts::{offset_text, per_second};
use swingdb_common::time::zones::Zone;

use super::formats::to_write;
use super::points::{beyond, is_moment};

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Strftime { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Strftime {
    signature: Signature,
}

impl ScalarUDFImpl for Strftime {
    fn name(&self) -> &str {
        "strftime"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let is_point = |given: &DataType| is_moment(given) || given.is_null();
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        match types {
            [a, b] if is_point(a) && is_text(b) || is_text(a) && is_point(b) => Ok(DataType::Utf8),
            _ => plan_err!("strftime takes a date or timestamp and a format"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let (points, formats) = match args.args.as_slice() {
            [format, point] if format.data_type().is_string() => (point, format),
            [point, format] => (point, format),
            _ => return exec_err!("strftime takes a date or timestamp and a format"),
        };
        let points = points.to_array(rows)?;
        let formats = cast(&formats.to_array(rows)?, &DataType::Utf8)?;
        let formats = formats.as_string::<i32>();
        let points = Points::new(&points)?;
        crate::args::as_given(&args, Arc::new(points.texts(formats)?))
    }
}

/// Dates or timestamps, and by whose clock they are shown.
struct Points {
    numbers: Int64Array,
    unit: TimeUnit,
    zone: Option<Zone>,
}

impl Points {
    fn new(points: &ArrayRef) -> Result<Self> {
        let (unit, zone) = match points.data_type() {
            DataType::Timestamp(unit, Some(name)) => {
                (*unit, Some(Zone::of_arrow(name).unwrap_or_default()))
            }
            DataType::Timestamp(unit, None) => (*unit, None),
            _ => (TimeUnit::Second, None),
        };
        let points = match zone {
            Some(_) => Arc::clone(points),
            None => cast(points, &DataType::Timestamp(unit, None))?,
        };
        let numbers = cast(&points, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok(Self { numbers, unit, zone })
    }

    fn texts(&self, formats: &StringArray) -> Result<StringArray> {
        let mut known: Option<(&str, Format)> = None;
        let mut made = StringBuilder::new();
        for row in 0..self.numbers.len() {
            if self.numbers.is_null(row) || formats.is_null(row) {
                made.append_null();
                continue;
            }
            let text = formats.value(row);
            if known.as_ref().is_none_or(|(last, _)| *last != text) {
                known = Some((text, Format::new(text)?));
            }
            let Some((_, format)) = &known else { return exec_err!("strftime without a format") };
            made.append_value(self.text(row, format)?);
        }
        Ok(made.finish())
    }

    fn text(&self, row: usize, format: &Format) -> Result<String> {
        let (number, per_second) = (self.numbers.value(row), per_second(self.unit));
        let zone = self.zone;
        let offset = zone.map_or(0, |zone| zone.offset_s(number.div_euclid(per_second)));
        let nanos = number.rem_euclid(per_second) * (1_000_000_000 / per_second);
        let nanos = u32::try_from(nanos).map_err(|_| beyond())?;
        let shown = DateTime::from_timestamp(number.div_euclid(per_second) + offset, nanos);
        let shown = shown.ok_or_else(beyond)?.naive_utc();
        let mut text = String::new();
        for piece in &format.pieces {
            let written = piece.write(shown, offset, zone, &mut text);
            let format = &format.text;
            written.map_err(|_| exec_datafusion_err!("'{format}' is no format to write in"))?;
        }
        Ok(text)
    }
}

/// How dates and timestamps are written.
#[derive(Clone, Debug)]
pub struct Format {
    text: String,
    pieces: Vec<Piece>,
}

impl Format {
    /// The format that strftime takes; an error if it is none.
    pub fn new(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_string(), pieces: pieces(text)? })
    }

    /// Dates or timestamps as texts, those of a zone by its clock.
    pub fn texts(&self, points: &ArrayRef) -> Result<StringArray> {
        let points = Points::new(points)?;
        let rows = 0..points.numbers.len();
        let text = |row| match points.numbers.is_null(row) {
            true => Ok(None),
            false => points.text(row, self).map(Some),
        };
        rows.map(text).collect()
    }
}

/// What a format is made of.
#[derive(Clone, Debug)]
enum Piece {
    Items(Vec<Item<'static>>),
    Year,
    Offset,
    Name,
}

/// A format taken apart.
fn pieces(format: &str) -> Result<Vec<Piece>> {
    let wrong = || exec_datafusion_err!("'{format}' is no format of dates and times");
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut given = format.chars();
    let flush = |plain: &mut String, pieces: &mut Vec<Piece>| -> Result<()> {
        let items = StrftimeItems::new(&to_write(plain)).parse_to_owned().map_err(|_| wrong())?;
        pieces.push(Piece::Items(items));
        plain.clear();
        Ok(())
    };
    while let Some(char) = given.next() {
        if char != '%' {
            plain.push(char);
            continue;
        }
        let part = given.next().ok_or_else(wrong)?;
        let piece = match part {
            'Y' => Piece::Year,
            'z' => Piece::Offset,
            'Z' => Piece::Name,
            _ => {
                plain.extend(['%', part]);
                continue;
            }
        };
        flush(&mut plain, &mut pieces)?;
        pieces.push(piece);
    }
    flush(&mut plain, &mut pieces)?;
    Ok(pieces)
}

impl Piece {
    fn write(
        &self,
        shown: NaiveDateTime,
        offset: i64,
        zone: Option<Zone>,
        text: &mut String,
    ) -> std::fmt::Result {
        match (self, zone) {
            (Self::Items(items), _) => write!(text, "{}", shown.format_with_items(items.iter())),
            (Self::Year, _) if shown.year() < 0 => write!(text, "{}", shown.year()),
            (Self::Year, _) => write!(text, "{:04}", shown.year()),
            (Self::Offset, _) => {
                let mut bytes = Vec::new();
                offset_text(offset, &mut bytes);
                write!(text, "{}", String::from_utf8_lossy(&bytes))
            }
            (Self::Name, Some(zone)) => write!(text, "{zone}"),
            (Self::Name, None) => Ok(()),
        }
    }
}
