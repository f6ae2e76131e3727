//! Floating point numbers: into narrower types, and as text.
//!
//! A number that a narrower type does not hold is an error; the engine makes an infinity of it. As
//! text a number has the fewest digits that read back as it. From 1e16 up, and below 0.0001, it has
//! an exponent of a sign and at least two digits, as in DuckDB: `1e+16`.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options, nullif};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::util::display::FormatOptions;

use crate::error::{Error, Result};
use crate::types::sql_names::sql_name;

/// Numbers with an exponent of ten from this one up are written with it.
const LEAST_LARGE: i32 = 16;
/// And those below this one.
const LEAST_PLAIN: i32 = -4;

/// Whether the engine makes infinities of some values of `from` when it casts them to `to`.
pub(super) fn is_narrower(from: &DataType, to: &DataType) -> bool {
    match to {
        DataType::Float16 => from.is_numeric() && *from != DataType::Float16 || from.is_string(),
        DataType::Float32 => *from == DataType::Float64 || from.is_string(),
        _ => false,
    }
}

/// Numbers, or texts of numbers, in a narrower type.
pub(super) fn narrowed(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let options = CastOptions { safe, format_options: FormatOptions::default() };
    without_lost(array, cast_with_options(array, to, &options)?, safe)
}

/// What numbers have become in a narrower type, without infinities of finite ones.
pub(super) fn without_lost(array: &ArrayRef, narrow: ArrayRef, safe: bool) -> Result<ArrayRef> {
    let lost = lost(array, &narrow)?;
    match lost.iter().position(|lost| lost == Some(true)) {
        None => Ok(narrow),
        Some(_) if safe => Ok(nullif(&narrow, &lost)?),
        Some(row) => {
            let value = super::shown::show(array, row);
            let message = format!("{value} does not fit {}", sql_name(narrow.data_type()));
            Err(Error::Conversion { message, column: None })
        }
    }
}

/// The rows in which a finite number has become an infinity.
fn lost(given: &ArrayRef, narrow: &ArrayRef) -> Result<BooleanArray> {
    let wide = cast_with_options(narrow, &DataType::Float64, &CastOptions::default())?;
    let wide = wide.as_primitive::<Float64Type>();
    let infinite = |row: usize| wide.is_valid(row) && wide.value(row).is_infinite();
    if !(0..wide.len()).any(infinite) {
        return Ok(vec![false; wide.len()].into());
    }
    if given.data_type().is_string() {
        let texts = cast_with_options(given, &DataType::Utf8View, &CastOptions::default())?;
        let texts = texts.as_string_view();
        let is_meant = |row| texts.value(row).contains(['n', 'N']);
        return Ok((0..wide.len()).map(|row| Some(infinite(row) && !is_meant(row))).collect());
    }
    let numbers = cast_with_options(given, &DataType::Float64, &CastOptions::default())?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let is_meant = |row| numbers.value(row).is_infinite();
    Ok((0..wide.len()).map(|row| Some(infinite(row) && !is_meant(row))).collect())
}

/// The text of floating point numbers; `None` of anything else.
pub(crate) fn float_texts(array: &dyn Array) -> Option<StringArray> {
    let mut texts = StringBuilder::with_capacity(array.len(), array.len() * 8);
    let mut text = String::new();
    let mut buffer = ryu::Buffer::new();
    let mut append = |digits: Option<&str>| match digits {
        Some(digits) => {
            text.clear();
            write(digits, &mut text);
            texts.append_value(&text);
        }
        None => texts.append_null(),
    };
    match array.data_type() {
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>().iter();
            numbers.for_each(|n| append(n.map(|n| buffer.format(n))));
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>().iter();
            numbers.for_each(|n| append(n.map(|n| buffer.format(n))));
        }
        _ => return None,
    }
    Some(texts.finish())
}

/// What a number of the shortest digits looks like.
fn write(shortest: &str, text: &mut String) {
    let (sign, unsigned) = match shortest.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", shortest),
    };
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (Ok(exponent), true) =
        (exponent.parse::<i32>(), whole.starts_with(|c: char| c.is_ascii_digit()))
    else {
        // NaN and infinities.
        return text.push_str(shortest);
    };
    let all = format!("{whole}{fraction}");
    let zeros = all.len() - all.trim_start_matches('0').len();
    let digits = all[zeros..].trim_end_matches('0');
    // Of the first digit.
    let ten = whole.len() as i32 - 1 - zeros as i32 + exponent;
    text.push_str(sign);
    if digits.is_empty() || (LEAST_PLAIN..LEAST_LARGE).contains(&ten) {
        return plain(if digits.is_empty() { "0" } else { digits }, ten, text);
    }
    text.push_str(&digits[..1]);
    if digits.len() > 1 {
        text.push('.');
        text.push_str(&digits[1..]);
    }
    let sign = if ten < 0 { '-' } else { '+' };
    // A text takes everything.
    let _ = write!(text, "e{sign}{:02}", ten.unsigned_abs());
}

/// Digits without an exponent, of which the first stands for so many times a power of ten.
fn plain(digits: &str, ten: i32, text: &mut String) {
    let before = usize::try_from(ten + 1).unwrap_or_default();
    if digits == "0" {
        return text.push_str("0.0");
    }
    if before == 0 {
        text.push_str("0.");
        (ten + 1..0).for_each(|_| text.push('0'));
        return text.push_str(digits);
    }
    let whole = &digits[..before.min(digits.len())];
    text.push_str(whole);
    (whole.len()..before).for_each(|_| text.push('0'));
    text.push('.');
    text.push_str(digits.get(before..).filter(|rest| !rest.is_empty()).unwrap_or("0"));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, Float64Array, StringViewArray};

    use super::*;

    #[test]
    fn texts_are_the_shortest_with_an_exponent_beyond_16_digits() {
        let numbers = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (12_345_678_901_234_567.0, "1.2345678901234568e+16"),
            (0.0001, "0.0001"),
            (0.001_25, "0.00125"),
            (1e-5, "1e-05"),
            (-1.5e300, "-1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, expected) in numbers {
            let texts = float_texts(&Float64Array::from(vec![number])).unwrap();
            assert_eq!(texts.value(0), expected);
        }
        let singles = [(1e16, "1e+16"), (123_456_790.0, "123456790.0"), (0.1, "0.1")];
        for (number, expected) in singles {
            let texts = float_texts(&Float32Array::from(vec![number])).unwrap();
            assert_eq!(texts.value(0), expected);
        }
    }

    #[test]
    fn texts_read_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100_000 {
            let number = f64::from_bits(random.u64(..));
            let texts = float_texts(&Float64Array::from(vec![number])).unwrap();
            let read: f64 = texts.value(0).parse().unwrap();
            assert!(read == number || number.is_nan(), "{number:e} {}", texts.value(0));
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_no_infinities() {
        let narrow = |array: ArrayRef, safe| narrowed(&array, &DataType::Float32, safe);
        let wide = |numbers: Vec<f64>| -> ArrayRef { Arc::new(Float64Array::from(numbers)) };
        let infinite = wide(vec![f64::INFINITY, f64::NAN, 1e38]);
        assert_eq!(narrow(infinite, false).unwrap().null_count(), 0);
        let error = narrow(wide(vec![1.0, -1e300]), false).unwrap_err();
        assert!(error.to_string().contains("-1e300 does not fit FLOAT"), "{error}");
        assert!(narrow(wide(vec![1.0, -1e300]), true).unwrap().is_null(1));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["inf", "-Infinity", "1e39"]));
        assert!(narrow(Arc::clone(&texts), false).is_err());
        let found = narrow(texts, true).unwrap();
        assert!(found.is_valid(0) && found.is_valid(1) && found.is_null(2));
    }
}
