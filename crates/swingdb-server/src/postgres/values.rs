//! Single values as PostgreSQL writes them, as text and in its binary format.
//!
//! The formats are those of the `*_out` and `*_send` functions of PostgreSQL 17, with DateStyle
//! ISO, IntervalStyle postgres, bytea_output hex, and the shortest texts of floating-point numbers.

use std::io::Write;

use arrow::array::Array;
use arrow::datatypes::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};
use swingdb::civil_from_days;

use crate::postgres::columns::Column;
use crate::postgres::types::PgType;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;
const EPOCH_US: i64 = EPOCH_DAYS * DAY_US;

/// How values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As text.
    Text,
    /// In PostgreSQL's binary format.
    Binary,
}

/// A value that PostgreSQL's type cannot hold.
#[derive(Debug, thiserror::Error)]
#[error("{0} cannot be sent: it is out of the range of PostgreSQL's type")]
pub struct OutOfRange(pub &'static str);

/// Writes a value that is not NULL.
pub fn write(
    column: &Column,
    row: usize,
    format: Format,
    out: &mut BytesMut,
) -> Result<(), OutOfRange> {
    match format {
        Format::Text => write_text(column, row, out),
        Format::Binary => return write_binary(column, row, out),
    }
    Ok(())
}

fn write_text(column: &Column, row: usize, out: &mut BytesMut) {
    match column {
        Column::Bool(values) => out.put_u8(if values.value(row) { b't' } else { b'f' }),
        Column::Int2(values) => integer_text(values.value(row).into(), out),
        Column::Int4(values) => integer_text(values.value(row).into(), out),
        Column::Int8(values) => integer_text(values.value(row), out),
        Column::Numeric(values, scale) => decimal_text(values.value(row), *scale, out),
        Column::WideNumeric(values) => out.put_slice(values.value_as_string(row).as_bytes()),
        Column::Float4(values) => {
            let value = values.value(row);
            float_text(value.into(), &format!("{value:e}"), 6, out);
        }
        Column::Float8(values) => {
            let value = values.value(row);
            float_text(value, &format!("{value:e}"), 15, out);
        }
        Column::Text(values) | Column::Uuid(values) => out.put_slice(values.value(row).as_bytes()),
        Column::Json(values) => out.put_slice(values.value(row).as_bytes()),
        Column::Bytea(values) => hex(values.value(row), out),
        Column::Date(values) => {
            let is_bc = date_text(values.value(row).into(), out);
            out.put_slice(if is_bc { b" BC" } else { b"" });
        }
        Column::Time(values) => time_text(values.value(row), out),
        Column::Timestamp(_, Some(texts)) => match texts.value(row).split_once(" (BC)") {
            Some((date, time)) => put(out, format_args!("{date}{time} BC")),
            None => out.put_slice(texts.value(row).as_bytes()),
        },
        Column::Timestamp(values, None) => {
            let value = values.value(row);
            let is_bc = date_text(value.div_euclid(DAY_US), out);
            out.put_u8(b' ');
            time_text(value.rem_euclid(DAY_US), out);
            out.put_slice(if is_bc { b" BC" } else { b"" });
        }
        Column::Interval(values) => interval_text(values.value(row), out),
        Column::Array(lists, _, values) => array_text(values, range(lists, row), out),
    }
}

fn write_binary(column: &Column, row: usize, out: &mut BytesMut) -> Result<(), OutOfRange> {
    match column {
        Column::Bool(values) => out.put_u8(values.value(row).into()),
        Column::Int2(values) => out.put_i16(values.value(row)),
        Column::Int4(values) => out.put_i32(values.value(row)),
        Column::Int8(values) => out.put_i64(values.value(row)),
        Column::Numeric(values, scale) => {
            let mut text = BytesMut::new();
            decimal_text(values.value(row), *scale, &mut text);
            decimal_binary(&text, out)?;
        }
        Column::WideNumeric(values) => decimal_binary(values.value_as_string(row).as_bytes(), out)?,
        Column::Float4(values) => out.put_f32(values.value(row)),
        Column::Float8(values) => out.put_f64(values.value(row)),
        Column::Text(values) => out.put_slice(values.value(row).as_bytes()),
        Column::Json(values) => out.put_slice(values.value(row).as_bytes()),
        Column::Uuid(values) => {
            let digits = values.value(row).bytes().filter(|byte| *byte != b'-');
            let digits = digits.map(|digit| (digit as char).to_digit(16).unwrap_or(0) as u8);
            let digits = digits.collect::<Vec<_>>();
            digits.chunks_exact(2).for_each(|pair| out.put_u8(pair[0] << 4 | pair[1]));
        }
        Column::Bytea(values) => out.put_slice(values.value(row)),
        Column::Date(values) => {
            let days = i64::from(values.value(row)) - EPOCH_DAYS;
            out.put_i32(i32::try_from(days).map_err(|_| OutOfRange("a date"))?);
        }
        Column::Time(values) => out.put_i64(values.value(row)),
        Column::Timestamp(values, _) => {
            let since = values.value(row).checked_sub(EPOCH_US);
            out.put_i64(since.ok_or(OutOfRange("a timestamp"))?);
        }
        Column::Interval(values) => {
            let IntervalMonthDayNano { months, days, nanoseconds } = values.value(row);
            out.put_i64(nanoseconds.div_euclid(1000));
            out.put_i32(days);
            out.put_i32(months);
        }
        Column::Array(lists, item, values) => {
            return array_binary(item, values, range(lists, row), out);
        }
    }
    Ok(())
}

/// Writing to a buffer in memory does not fail.
fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    let _ = out.writer().write_fmt(text);
}

/// A whole number.
pub fn integer_text(value: i64, out: &mut BytesMut) {
    let mut digits = [0; 20];
    let (mut rest, mut at) = (value.unsigned_abs(), digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
}

fn decimal_text(value: i128, scale: i8, out: &mut BytesMut) {
    if scale <= 0 {
        let zeros = if value == 0 { 0 } else { usize::from(scale.unsigned_abs()) };
        put(out, format_args!("{value}{:0<zeros$}", ""));
        return;
    }
    let places = usize::from(scale.unsigned_abs());
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    put(out, format_args!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" }));
}

/// A floating-point number of its shortest digits, which `exact` gives as `d.ddde-x`. `most` is
/// the exponent from which on an exponent is written.
fn float_text(value: f64, exact: &str, most: i32, out: &mut BytesMut) {
    let special = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "",
    };
    let Some((mantissa, exponent)) = exact.split_once('e').filter(|_| special.is_empty()) else {
        return out.put_slice(special.as_bytes());
    };
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    if exponent >= most || exponent < -4 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return put(out, format_args!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()));
    }
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let digits = digits.replace('.', "");
    let point = exponent + 1;
    let zeros = usize::try_from(-point).unwrap_or(0);
    match usize::try_from(point) {
        Ok(point) if point >= digits.len() && point > 0 => {
            put(out, format_args!("{sign}{digits:0<point$}"));
        }
        Ok(point) if point > 0 => {
            put(out, format_args!("{sign}{}.{}", &digits[..point], &digits[point..]));
        }
        _ => put(out, format_args!("{sign}0.{:0<zeros$}{digits}", "")),
    }
}

fn hex(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(b"\\x");
    for byte in bytes {
        out.put_u8(DIGITS[usize::from(byte >> 4)]);
        out.put_u8(DIGITS[usize::from(byte & 15)]);
    }
}

/// A date without its era: whether that is before Christ.
fn date_text(days: i64, out: &mut BytesMut) -> bool {
    let (year, month, day) = civil_from_days(days);
    let is_bc = year <= 0;
    let year = if is_bc { 1 - year } else { year };
    put(out, format_args!("{year:04}-{month:02}-{day:02}"));
    is_bc
}

fn time_text(micros: i64, out: &mut BytesMut) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    put(out, format_args!("{hours:02}:{minutes:02}:{:02}", seconds % 60));
    if fraction != 0 {
        let digits = format!(".{fraction:06}");
        out.put_slice(digits.trim_end_matches('0').as_bytes());
    }
}

fn interval_text(value: IntervalMonthDayNano, out: &mut BytesMut) {
    let (years, months) = (value.months / 12, value.months % 12);
    let micros = value.nanoseconds.div_euclid(1000);
    let (mut any, mut was_negative) = (false, false);
    for (number, name) in [(years, "year"), (months, "mon"), (value.days, "day")] {
        if number == 0 {
            continue;
        }
        let blank = if any { " " } else { "" };
        let sign = if was_negative && number > 0 { "+" } else { "" };
        let plural = if number == 1 { "" } else { "s" };
        put(out, format_args!("{blank}{sign}{number} {name}{plural}"));
        (any, was_negative) = (true, number < 0);
    }
    if micros == 0 && any {
        return;
    }
    let sign = match micros {
        ..0 => "-",
        _ if was_negative => "+",
        _ => "",
    };
    put(out, format_args!("{}{sign}", if any { " " } else { "" }));
    time_text(i64::try_from(micros.unsigned_abs()).unwrap_or(i64::MAX), out);
}

/// A number as groups of four decimal digits, from its text.
fn decimal_binary(text: &[u8], out: &mut BytesMut) -> Result<(), OutOfRange> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let mut parts = text.split(|byte| *byte == b'.');
    let (whole, fraction) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let lead = (4 - whole.len() % 4) % 4;
    let trail = (4 - fraction.len() % 4) % 4;
    let zeros = [b'0'; 3];
    let digits = [&zeros[..lead], whole, fraction, &zeros[..trail]].concat();
    let groups = digits.chunks_exact(4);
    let groups = groups.map(|group| group.iter().fold(0_i16, |n, d| n * 10 + i16::from(d - b'0')));
    let groups = groups.collect::<Vec<_>>();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let last = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let weight = (whole.len() + lead) / 4;
    let weight = if first == last { 0 } else { weight as i64 - 1 - first as i64 };
    let small = |value: i64| i16::try_from(value).map_err(|_| OutOfRange("a number"));
    out.put_i16(small((last - first) as i64)?);
    out.put_i16(small(weight)?);
    out.put_u16(if is_negative && first != last { 0x4000 } else { 0 });
    out.put_i16(small(fraction.len() as i64)?);
    groups[first..last].iter().for_each(|group| out.put_i16(*group));
    Ok(())
}

/// Where a list's values are among those of all lists.
fn range(lists: &arrow::array::ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = lists.value_offsets();
    // Offsets of lists are never negative.
    offsets[row] as usize..offsets[row + 1] as usize
}

fn is_null(column: &Column, row: usize) -> bool {
    match column {
        Column::Bool(values) => values.is_null(row),
        Column::Int2(values) => values.is_null(row),
        Column::Int4(values) => values.is_null(row),
        Column::Int8(values) => values.is_null(row),
        Column::Numeric(values, _) => values.is_null(row),
        Column::WideNumeric(values) => values.is_null(row),
        Column::Float4(values) => values.is_null(row),
        Column::Float8(values) => values.is_null(row),
        Column::Text(values) | Column::Uuid(values) => values.is_null(row),
        Column::Bytea(values) => values.is_null(row),
        Column::Date(values) => values.is_null(row),
        Column::Time(values) => values.is_null(row),
        Column::Timestamp(values, _) => values.is_null(row),
        Column::Interval(values) => values.is_null(row),
        Column::Json(values) => values.is_null(row),
        Column::Array(lists, ..) => lists.is_null(row),
    }
}

fn array_text(values: &Column, range: std::ops::Range<usize>, out: &mut BytesMut) {
    out.put_u8(b'{');
    let first = range.start;
    let mut text = BytesMut::new();
    for row in range {
        if row > first {
            out.put_u8(b',');
        }
        if is_null(values, row) {
            out.put_slice(b"NULL");
            continue;
        }
        text.clear();
        write_text(values, row, &mut text);
        let special = |byte: &u8| {
            matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace()
        };
        let quoted =
            text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special);
        if !quoted {
            out.put_slice(&text);
            continue;
        }
        out.put_u8(b'"');
        for byte in &text {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(b'\\');
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
}

fn array_binary(
    item: &PgType,
    values: &Column,
    range: std::ops::Range<usize>,
    out: &mut BytesMut,
) -> Result<(), OutOfRange> {
    let count = i32::try_from(range.len()).map_err(|_| OutOfRange("a list"))?;
    let nulls = range.clone().any(|row| is_null(values, row));
    out.put_i32(i32::from(count > 0));
    out.put_i32(nulls.into());
    out.put_u32(item.oid());
    if count > 0 {
        out.put_i32(count);
        out.put_i32(1);
    }
    for row in range {
        if is_null(values, row) {
            out.put_i32(-1);
        } else {
            sized(out, |out| write_binary(values, row, out))?;
        }
    }
    Ok(())
}

/// Writes a value behind its length.
pub fn sized(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), OutOfRange>,
) -> Result<(), OutOfRange> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = i32::try_from(out.len() - start - 4).map_err(|_| OutOfRange("a value"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn floats_are_written_as_postgresql_writes_them() {
        let float8 = |v: f64| text(|out| float_text(v, &format!("{v:e}"), 15, out));
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (100000.0, "100000"),
            (123456.789, "123456.789"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float8(value), expected);
        }
        let float4 = |v: f32| text(|out| float_text(v.into(), &format!("{v:e}"), 6, out));
        assert_eq!((float4(0.1), float4(1e6)), ("0.1".to_string(), "1e+06".to_string()));
    }

    #[test]
    fn decimals_have_all_their_places() {
        let decimal = |value, scale| text(|out| decimal_text(value, scale, out));
        assert_eq!(decimal(-5, 3), "-0.005");
        assert_eq!(decimal(1_234_500, 2), "12345.00");
        assert_eq!(decimal(i128::MIN, 0), i128::MIN.to_string());
        assert_eq!(decimal(12, -2), "1200");
        let mut out = BytesMut::new();
        decimal_binary(b"-12345.678", &mut out).unwrap();
        let numbers = out.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
        assert_eq!(numbers.collect::<Vec<_>>(), [3, 1, 0x4000, 3, 1, 2345, 6780]);
        let mut zero = BytesMut::new();
        decimal_binary(b"0.00", &mut zero).unwrap();
        assert_eq!(zero[..], [0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn intervals_have_a_sign_for_each_part() {
        let interval = |months, days, nanos| {
            text(|out| interval_text(IntervalMonthDayNano::new(months, days, nanos), out))
        };
        assert_eq!(interval(14, 3, 3_723_500_000_000), "1 year 2 mons 3 days 01:02:03.5");
        assert_eq!(interval(0, 0, 0), "00:00:00");
        assert_eq!(interval(-1, 2, -1_000_000_000), "-1 mons +2 days -00:00:01");
        assert_eq!(interval(0, -1, 3_600_000_000_000), "-1 days +01:00:00");
    }

    #[test]
    fn dates_before_christ_have_an_era() {
        let mut out = BytesMut::new();
        assert!(date_text(-719_163, &mut out));
        assert_eq!(&out[..], b"0001-12-31");
        let mut out = BytesMut::new();
        assert!(date_text(-719_529, &mut out));
        assert_eq!(&out[..], b"0002-12-31");
        let mut out = BytesMut::new();
        assert!(!date_text(EPOCH_DAYS, &mut out));
        assert_eq!(&out[..], b"2000-01-01");
    }
}
