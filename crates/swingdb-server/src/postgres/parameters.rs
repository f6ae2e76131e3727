//! Values that clients send: [`decode`], and how many a statement wants: [`count`].

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use bytes::Buf;
use swingdb::cutter::{Kind, words};
use swingdb::{ScalarValue, Value};

use crate::postgres::sqlstate::Refusal;
use crate::postgres::types::PgType;
use crate::postgres::values::Format;

const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
/// The most parameters that a message can give.
pub const MAX_PARAMETERS: usize = 65_535;

/// The greatest number of a parameter `$n` in a statement.
pub fn count(statement: &str) -> usize {
    let parameters = words(statement).filter(|piece| piece.kind == Kind::Parameter);
    let numbers = parameters.filter_map(|piece| piece.text[1..].parse::<usize>().ok());
    numbers.max().unwrap_or(0).min(MAX_PARAMETERS)
}

/// The value of one parameter. `oid` is the type that the client has declared; 0: none.
pub fn decode(
    oid: u32,
    format: Format,
    bytes: Option<&[u8]>,
    inferred: Option<&PgType>,
) -> Result<Value, Refusal> {
    let declared = match oid {
        0 => None,
        oid => Some(PgType::of_oid(oid).ok_or_else(|| {
            let message = format!("the type with the number {oid} is not known to this server");
            Refusal::new("0A000", message)
        })?),
    };
    let pg = declared.as_ref().or(inferred);
    let Some(bytes) = bytes else {
        let null = pg.map(|pg| ScalarValue::try_from(&pg.arrow()));
        return Ok(match null {
            Some(Ok(null)) => Value::Scalar(null),
            _ => Value::Null,
        });
    };
    match (format, pg) {
        (Format::Text, pg) => {
            let text = std::str::from_utf8(bytes);
            let text = text.map_err(|_| Refusal::new("22021", "a parameter is not UTF-8"))?;
            text_value(pg.unwrap_or(&PgType::Text), text)
        }
        (Format::Binary, None) => binary_value(&PgType::Text, bytes),
        (Format::Binary, Some(pg)) => binary_value(pg, bytes),
    }
}

fn wrong(pg: &PgType, text: &str) -> Refusal {
    let name = swingdb::sql_name(&pg.arrow());
    Refusal::new("22P02", format!("the parameter {text:?} is no {name}"))
}

fn text_value(pg: &PgType, text: &str) -> Result<Value, Refusal> {
    match pg {
        PgType::Text | PgType::Json | PgType::Uuid => Ok(Value::Text(text.to_string())),
        PgType::Bool => match text.trim().to_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Value::Bool(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Ok(Value::Bool(false)),
            _ => Err(wrong(pg, text)),
        },
        PgType::Bytea => bytes_of(text).map(Value::Blob).ok_or_else(|| wrong(pg, text)),
        PgType::Numeric(..) => decimal(text).ok_or_else(|| wrong(pg, text)),
        PgType::Array(item) => list_of_text(item, text),
        PgType::Interval => interval(text).ok_or_else(|| wrong(pg, text)),
        PgType::Float4 | PgType::Float8 => {
            let value = text.trim().parse::<f64>().map_err(|_| wrong(pg, text))?;
            Ok(match pg {
                PgType::Float4 => Value::Scalar(ScalarValue::Float32(Some(value as f32))),
                _ => Value::Float64(value),
            })
        }
        _ => {
            let array: ArrayRef = Arc::new(StringArray::from(vec![text.trim()]));
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let cast = cast_with_options(&array, &pg.arrow(), &options);
            let cast = cast.map_err(|_| wrong(pg, text))?;
            let scalar = ScalarValue::try_from_array(&cast, 0).map_err(|_| wrong(pg, text))?;
            Ok(Value::Scalar(scalar))
        }
    }
}

/// `1 year 2 mons 3 days -04:05:06.5`, as PostgreSQL and its clients write intervals.
fn interval(text: &str) -> Option<Value> {
    const MICROS: [(&str, f64); 7] = [
        ("hour", 3.6e9),
        ("minute", 6e7),
        ("min", 6e7),
        ("second", 1e6),
        ("sec", 1e6),
        ("millisecond", 1e3),
        ("microsecond", 1.0),
    ];
    let (mut months, mut days, mut micros) = (0_i32, 0_i32, 0_i64);
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty()).peekable();
    words.peek()?;
    while let Some(word) = words.next() {
        if let Some((hours, rest)) = word.split_once(':') {
            let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
            let unsigned = hours.trim_start_matches(['-', '+']).parse::<i64>().ok()?;
            let minutes = unsigned.checked_mul(60)?.checked_add(minutes.parse::<i64>().ok()?)?;
            let time = minutes.checked_mul(60_000_000)?;
            let time = time.checked_add((seconds.parse::<f64>().ok()? * 1e6).round() as i64)?;
            micros = micros.checked_add(if hours.starts_with('-') { -time } else { time })?;
            continue;
        }
        let unit = words.next()?.to_lowercase();
        let unit = unit.strip_suffix('s').unwrap_or(&unit);
        if let Some((_, factor)) = MICROS.iter().find(|(name, _)| *name == unit) {
            let part = word.parse::<f64>().ok().filter(|part| part.is_finite())? * factor;
            micros = micros.checked_add(part.round() as i64)?;
            continue;
        }
        let number = word.parse::<i32>().ok()?;
        match unit {
            "year" => months = months.checked_add(number.checked_mul(12)?)?,
            "month" | "mon" => months = months.checked_add(number)?,
            "week" => days = days.checked_add(number.checked_mul(7)?)?,
            "day" => days = days.checked_add(number)?,
            _ => return None,
        }
    }
    Some(Value::Interval { months, days, nanos: micros.checked_mul(1000)? })
}

/// A decimal number of as many digits as its text has.
fn decimal(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.contains(['e', 'E', 'n', 'N', 'y']) {
        return text.parse().ok().map(Value::Float64);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let unscaled = digits.parse::<i128>().ok()?;
    let count = digits.trim_start_matches(['-', '+']).trim_start_matches('0').len();
    let scale = i8::try_from(fraction.len()).ok()?;
    let precision = u8::try_from(count.max(fraction.len()).max(1)).ok()?;
    (precision <= 38).then_some(Value::Decimal { unscaled, precision, scale })
}

/// `\x0aff`, or PostgreSQL's older form with octal escapes.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits = digits.bytes().map(|digit| (digit as char).to_digit(16).map(|d| d as u8));
        let digits = digits.collect::<Option<Vec<_>>>()?;
        let pairs = digits.chunks(2);
        return pairs.map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect();
    }
    let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'\\', b'\\', ..] => (found.push(b'\\'), at += 2).1,
            [b'\\', a, b, c, ..] => {
                let octal = std::str::from_utf8(&[*a, *b, *c]).ok()?.to_string();
                found.push(u8::from_str_radix(&octal, 8).ok()?);
                at += 4;
            }
            [b'\\', ..] => return None,
            [other, ..] => (found.push(*other), at += 1).1,
            [] => return None,
        }
    }
    Some(found)
}

/// A list of the values.
fn list(item: &PgType, values: Vec<Value>) -> Result<Value, Refusal> {
    let values = values.iter().map(|value| match value {
        Value::Null => ScalarValue::try_from(&item.arrow()),
        value => value.to_scalar().cast_to(&item.arrow()),
    });
    let values = values.collect::<Result<Vec<_>, _>>();
    let values = values.map_err(|error| Refusal::from(swingdb::Error::from(error)))?;
    Ok(Value::Scalar(ScalarValue::List(ScalarValue::new_list(&values, &item.arrow(), true))))
}

/// `{1,NULL,"a b"}`.
fn list_of_text(item: &PgType, text: &str) -> Result<Value, Refusal> {
    let whole = PgType::Array(Box::new(item.clone()));
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| wrong(&whole, text))?;
    let (mut values, mut chars) = (Vec::new(), inner.chars().peekable());
    while chars.peek().is_some() {
        let (mut part, mut was_quoted, mut open) = (String::new(), false, false);
        loop {
            match chars.next() {
                Some('"') => (open, was_quoted) = (!open, true),
                Some('\\') => part.extend(chars.next()),
                Some('{' | '}') if !open => return Err(wrong(&whole, text)),
                Some(',') if !open => break,
                Some(other) => part.push(other),
                None if open => return Err(wrong(&whole, text)),
                None => break,
            }
        }
        values.push(match !was_quoted && part.trim().eq_ignore_ascii_case("null") {
            true => Value::Null,
            false => text_value(item, &part)?,
        });
    }
    list(item, values)
}

fn binary_value(pg: &PgType, mut bytes: &[u8]) -> Result<Value, Refusal> {
    let size = match pg.size() {
        -1 => None,
        size => usize::try_from(size).ok(),
    };
    if size.is_some_and(|size| size != bytes.len()) {
        let message = format!("a binary parameter has {} bytes, not {size:?}", bytes.len());
        return Err(Refusal::new("22P03", message));
    }
    let whole = |value: i64| ScalarValue::Int64(Some(value)).cast_to(&pg.arrow());
    let whole = |value: i64| {
        whole(value).map(Value::Scalar).map_err(|e| Refusal::from(swingdb::Error::from(e)))
    };
    match pg {
        PgType::Bool => Ok(Value::Bool(bytes.get_u8() != 0)),
        PgType::Int2 => whole(bytes.get_i16().into()),
        PgType::Int4 => whole(bytes.get_i32().into()),
        PgType::Int8 => Ok(Value::Int64(bytes.get_i64())),
        PgType::Float4 => Ok(Value::Scalar(ScalarValue::Float32(Some(bytes.get_f32())))),
        PgType::Float8 => Ok(Value::Float64(bytes.get_f64())),
        PgType::Date => Ok(Value::Date32(
            bytes.get_i32().checked_add(EPOCH_DAYS).ok_or_else(|| out_of_range("a date"))?,
        )),
        PgType::Time => Ok(Value::Time64(bytes.get_i64())),
        PgType::Timestamp | PgType::Timestamptz => {
            let micros = bytes.get_i64().checked_add(EPOCH_US);
            let zone = (*pg == PgType::Timestamptz).then(|| "UTC".into());
            Ok(Value::Timestamp(micros.ok_or_else(|| out_of_range("a timestamp"))?, zone))
        }
        PgType::Interval => {
            let (micros, days, months) = (bytes.get_i64(), bytes.get_i32(), bytes.get_i32());
            let nanos = micros.checked_mul(1000).ok_or_else(|| out_of_range("an interval"))?;
            Ok(Value::Interval { months, days, nanos })
        }
        PgType::Uuid => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20]];
            Ok(Value::Text(format!("{}-{}", parts.join("-"), &digits[20..])))
        }
        PgType::Bytea => Ok(Value::Blob(bytes.to_vec())),
        PgType::Text | PgType::Json => {
            let text = std::str::from_utf8(bytes);
            let text = text.map_err(|_| Refusal::new("22021", "a parameter is not UTF-8"))?;
            Ok(Value::Text(text.to_string()))
        }
        PgType::Numeric(..) => binary_decimal(bytes),
        PgType::Array(item) => binary_list(item, bytes),
    }
}

fn out_of_range(what: &str) -> Refusal {
    Refusal::new("22003", format!("{what} among the parameters is out of range"))
}

fn cut() -> Refusal {
    Refusal::new("22P03", "a binary parameter ends early")
}

/// A number of groups of four digits.
fn binary_decimal(mut bytes: &[u8]) -> Result<Value, Refusal> {
    let mut next = || bytes.try_get_i16().map_err(|_| cut());
    let (groups, weight, sign, scale) = (next()?, next()?, next()? as u16, next()?);
    let mut unscaled = 0_i128;
    let overflow = || out_of_range("a number");
    match sign {
        0 | 0x4000 => {}
        0xC000 => return Ok(Value::Float64(f64::NAN)),
        0xD000 => return Ok(Value::Float64(f64::INFINITY)),
        0xF000 => return Ok(Value::Float64(f64::NEG_INFINITY)),
        _ => return Err(cut()),
    }
    for _ in 0..groups {
        let group = i128::from(next()?);
        unscaled = unscaled.checked_mul(10_000).ok_or_else(overflow)?;
        unscaled = unscaled.checked_add(group).ok_or_else(overflow)?;
    }
    // The digits end so many places behind the point; they shall end `scale` places behind it.
    let places = 4 * (i32::from(groups) - 1 - i32::from(weight));
    let shift = i32::from(scale) - places;
    let factor = 10_i128.checked_pow(shift.unsigned_abs()).ok_or_else(overflow)?;
    unscaled = match shift >= 0 {
        true => unscaled.checked_mul(factor).ok_or_else(overflow)?,
        false => unscaled / factor,
    };
    let digits = unscaled.to_string().len().max(usize::try_from(scale).unwrap_or(0));
    let precision = u8::try_from(digits).ok().filter(|digits| *digits <= 38);
    let precision = precision.ok_or_else(overflow)?;
    let scale = i8::try_from(scale).map_err(|_| overflow())?;
    let unscaled = if sign == 0x4000 { -unscaled } else { unscaled };
    Ok(Value::Decimal { unscaled, precision, scale })
}

/// A list of one dimension.
fn binary_list(item: &PgType, mut bytes: &[u8]) -> Result<Value, Refusal> {
    let dimensions = bytes.try_get_i32().map_err(|_| cut())?;
    let _has_nulls = bytes.try_get_i32().map_err(|_| cut())?;
    let oid = bytes.try_get_u32().map_err(|_| cut())?;
    let item = PgType::of_oid(oid).unwrap_or_else(|| item.clone());
    if dimensions == 0 {
        return list(&item, Vec::new());
    }
    if dimensions != 1 {
        let message = format!("a parameter is an array of {dimensions} dimensions, not 1");
        return Err(Refusal::new("0A000", message));
    }
    let count = bytes.try_get_i32().map_err(|_| cut())?;
    let _first = bytes.try_get_i32().map_err(|_| cut())?;
    let mut values = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_i32().map_err(|_| cut())?;
        let Ok(length) = usize::try_from(length) else {
            values.push(Value::Null);
            continue;
        };
        if length > bytes.len() {
            return Err(cut());
        }
        values.push(binary_value(&item, &bytes[..length])?);
        bytes.advance(length);
    }
    list(&item, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(oid: u32, text: &str) -> Result<Value, &'static str> {
        decode(oid, Format::Text, Some(text.as_bytes()), None).map_err(|refusal| refusal.code)
    }

    #[test]
    fn parameters_are_counted_outside_of_strings() {
        assert_eq!(count("SELECT $1, $3, '$9', \"$8\", $$ $7 $$, a$5 -- $6"), 3);
        assert_eq!(count("SELECT 1"), 0);
    }

    #[test]
    fn texts_become_values_of_the_declared_type() {
        assert_eq!(text(0, "x"), Ok(Value::Text("x".into())));
        assert_eq!(text(23, "-7"), Ok(Value::Scalar(ScalarValue::Int32(Some(-7)))));
        assert_eq!(text(23, "7.5"), Err("22P02"));
        assert_eq!(text(16, "t"), Ok(Value::Bool(true)));
        assert_eq!(text(17, "\\x00ff"), Ok(Value::Blob(vec![0, 255])));
        assert_eq!(text(17, "a\\\\\\001"), Ok(Value::Blob(vec![b'a', b'\\', 1])));
        let decimal = Value::Decimal { unscaled: -1050, precision: 4, scale: 2 };
        assert_eq!(text(1700, "-10.50"), Ok(decimal));
        assert_eq!(text(1082, "2000-01-01"), Ok(Value::Scalar(ScalarValue::Date32(Some(10957)))));
        let nanos = -(4 * 3600 + 5 * 60 + 6) * 1_000_000_000 - 500_000_000;
        let interval = Value::Interval { months: 14, days: 3, nanos };
        assert_eq!(text(1186, "1 year 2 mons 3 days -04:05:06.5"), Ok(interval));
        assert_eq!(text(1186, "3"), Err("22P02"));
        assert_eq!(text(999_999, "x"), Err("0A000"));
    }

    #[test]
    fn binary_numbers_come_back() {
        // 12345.678 as groups of four digits.
        let bytes = [3_i16, 1, 0, 3, 1, 2345, 6780].map(i16::to_be_bytes).concat();
        let value = decode(1700, Format::Binary, Some(&bytes), None).unwrap();
        assert_eq!(value, Value::Decimal { unscaled: 12_345_678, precision: 8, scale: 3 });
        assert!(decode(1700, Format::Binary, Some(&bytes[..9]), None).is_err());
        assert!(decode(23, Format::Binary, Some(&[0, 1]), None).is_err());
    }
}
