//! From the text of one field to a value: integers, floating point, decimals, dates and times.
//!
//! Every parser takes the whole field and answers `None` unless all of it is one value of the type:
//! nothing is cut off, rounded into range or guessed. Blanks around the text do not matter for
//! these types (they do for strings). The common forms take a short way that needs no library; what
//! they do not cover goes to the standard library's parser, so every answer is exact.

use arrow::datatypes::{TimeUnit, i256};
use swingdb_common::time::calendar::days_from_civil;
use swingdb_common::time::texts::{Kind, Where, read_stamp, read_zone};

/// Order and separator of the parts of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateStyle {
    /// 2026-03-02; the default.
    Iso,
    /// Year, month, day with another separator.
    YearFirst(u8),
    /// Day, month, year.
    DayFirst(u8),
    /// Month, day, year.
    MonthFirst(u8),
}

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Without blanks at either end.
#[inline]
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    match text {
        [first, .., last] if *first > b' ' && *last > b' ' => text,
        _ => text.trim_ascii(),
    }
}

/// A whole number of at most 18 digits, all of `digits`.
#[inline]
fn short_digits(digits: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// A number that is not a code: `007` and `+49` lose something as numbers.
#[inline]
pub(crate) fn is_plain_number(text: &[u8]) -> bool {
    let text = trim(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', b'0'..=b'9', ..] => false,
        [b'0'..=b'9' | b'.', ..] => true,
        // inf and nan
        _ => matches!(text.to_ascii_lowercase().as_slice(), b"inf" | b"infinity" | b"nan"),
    }
}

/// As [`integer`], but for what is not a plain number.
#[inline]
pub(crate) fn plain_integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] | [b'0'] => integer(text),
        _ if is_plain_number(text) => integer(text),
        _ => None,
    }
}

/// As [`float`], but for what is not a plain number, and for whole numbers that the nearest DOUBLE
/// is not equal to.
#[inline]
pub(crate) fn plain_float(text: &[u8]) -> Option<f64> {
    // Fifteen digits always fit.
    const EXACT_LEN: usize = 15;
    if !matches!(text, [b'1'..=b'9' | b'.', ..]) && !is_plain_number(text) {
        return None;
    }
    let value = float(text)?;
    (text.len() <= EXACT_LEN || is_exact(text, value)).then_some(value)
}

/// Whether `value` is what `text` says, where that is a whole number written in digits alone.
fn is_exact(text: &[u8], value: f64) -> bool {
    let text = trim(text);
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.iter().all(u8::is_ascii_digit) {
        return true;
    }
    let whole = decimal(text, 38, 0);
    // The cast is exact for what a DOUBLE holds of at most 38 digits.
    whole.is_some_and(|whole| value as i128 == whole)
}

/// `true` or `false`, in any case.
#[inline]
pub(crate) fn boolean_word(text: &[u8]) -> Option<bool> {
    let text = trim(text);
    match text.eq_ignore_ascii_case(b"true") {
        true => Some(true),
        false => text.eq_ignore_ascii_case(b"false").then_some(false),
    }
}

/// A whole number with sign; `None` also when it does not fit.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let value = short_digits(digits)? as i64;
    Some(if negative { -value } else { value })
}

/// A whole number without a minus.
#[inline]
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    let text = trim(text);
    if text.is_empty() || text.len() > 18 {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    match text {
        [b'+', digits @ ..] if !digits.is_empty() => short_digits(digits),
        _ => short_digits(text),
    }
}

/// A floating-point number: also with an exponent, `inf`, `infinity` and `nan` in any case.
#[inline]
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match short_float(digits) {
        Some(value) => Some(if negative { -value } else { value }),
        None => {
            let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (!value.is_infinite() || is_word(digits)).then_some(value)
        }
    }
}

/// Whether infinity is written in letters: digits that make it are too large a number.
fn is_word(text: &[u8]) -> bool {
    !text.iter().any(u8::is_ascii_digit)
}

/// Digits with at most one point whose value is a small integer divided by a small power of ten:
/// both are exact in a double, so the one division rounds correctly (Clinger, How to read floating
/// point numbers accurately, PLDI 1990).
#[inline]
fn short_float(text: &[u8]) -> Option<f64> {
    const MAX_EXACT: u64 = 1 << 53;
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut mantissa = 0u64;
    let mut point = None;
    for (at, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa * 10 + u64::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(at);
        } else {
            return None;
        }
    }
    let scale = match point {
        None => 0,
        Some(_) if text.len() == 1 => return None,
        Some(at) => text.len() - at - 1,
    };
    if mantissa > MAX_EXACT {
        return None;
    }
    Some(mantissa as f64 / EXACT_POWERS[scale])
}

/// A single-precision number, rounded once.
#[inline]
pub(crate) fn float32(text: &[u8]) -> Option<f32> {
    let text = trim(text);
    // Rounding a double to single precision is exact when the double itself was not rounded much:
    // not provable here, so only short texts go this way. 7 digits over 10^k round the same both
    // ways.
    if text.len() <= 8
        && let Some(value) = short_float(text.strip_prefix(b"-").unwrap_or(text))
    {
        let value = value as f32;
        return Some(if text[0] == b'-' { -value } else { value });
    }
    let value: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_infinite() || is_word(text)).then_some(value)
}

/// `true`/`false`, `t`/`f`, `yes`/`no`, `y`/`n`, `on`/`off`, `1`/`0`, in any case.
pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    let text = trim(text);
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    match text.len() {
        1 if is(&["t", "1", "y"]) => Some(true),
        1 if is(&["f", "0", "n"]) => Some(false),
        2..=5 if is(&["true", "yes", "on"]) => Some(true),
        2..=5 if is(&["false", "no", "off"]) => Some(false),
        _ => None,
    }
}

/// An exact decimal as an integer of `scale` digits after the point; `None` when a digit other than
/// zero would be lost or it has more than `precision` digits.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (digits, places, negative) = decimal_parts(text)?;
    let mut value = 0i128;
    for digit in digits.iter() {
        value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
    }
    let mut shift = i32::from(scale) - places;
    while shift > 0 {
        value = value.checked_mul(10)?;
        shift -= 1;
    }
    while shift < 0 {
        if value % 10 != 0 {
            return None;
        }
        value /= 10;
        shift += 1;
    }
    let limit = 10i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX);
    (value < limit).then_some(if negative { -value } else { value })
}

/// As [`decimal`], for up to 76 digits.
pub(crate) fn decimal256(text: &[u8], precision: u8, scale: i8) -> Option<i256> {
    let (digits, places, negative) = decimal_parts(text)?;
    let ten = i256::from_i128(10);
    let mut value = i256::ZERO;
    for digit in digits.iter() {
        value = value.checked_mul(ten)?.checked_add(i256::from_i128(i128::from(*digit)))?;
    }
    let mut shift = i32::from(scale) - places;
    while shift > 0 {
        value = value.checked_mul(ten)?;
        shift -= 1;
    }
    while shift < 0 {
        if value.checked_rem(ten)? != i256::ZERO {
            return None;
        }
        value = value.checked_div(ten)?;
        shift += 1;
    }
    let limit = ten.checked_pow(u32::from(precision)).unwrap_or(i256::MAX);
    (value < limit).then_some(if negative { value.wrapping_neg() } else { value })
}

/// Significant digits, how many of them are behind the point, and the sign.
fn decimal_parts(text: &[u8]) -> Option<(Digits, i32, bool)> {
    let text = trim(text);
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (number, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&rest[..at], i32::try_from(integer(&rest[at + 1..])?).ok()?),
        None => (rest, 0),
    };
    if !(-1_000..=1_000).contains(&exponent) {
        return None;
    }
    let mut digits = Digits { bytes: [0; Digits::MAX], len: 0 };
    let (mut places, mut seen_point, mut any) = (0i32, false, false);
    for byte in number {
        match byte {
            b'0'..=b'9' => {
                any = true;
                places += i32::from(seen_point);
                digits.push(byte - b'0')?;
            }
            b'.' if !seen_point => seen_point = true,
            _ => return None,
        }
    }
    any.then_some((digits, places - exponent, negative))
}

/// The digits of a decimal without leading zeros.
struct Digits {
    bytes: [u8; Digits::MAX],
    len: usize,
}

impl Digits {
    /// More than any decimal type holds, so that zeros behind the last digit are still read.
    const MAX: usize = 128;

    fn push(&mut self, digit: u8) -> Option<()> {
        if digit == 0 && self.len == 0 {
            return Some(());
        }
        *self.bytes.get_mut(self.len)? = digit;
        self.len += 1;
        Some(())
    }

    fn iter(&self) -> std::slice::Iter<'_, u8> {
        self.bytes[..self.len].iter()
    }
}

/// One or two digits.
#[inline]
fn two(text: &[u8]) -> Option<u32> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(u32::from((a - b'0') * 10 + (b - b'0'))),
        [a @ b'0'..=b'9'] => Some(u32::from(a - b'0')),
        _ => None,
    }
}

/// Four to six digits, or with a sign.
#[inline]
fn year(text: &[u8]) -> Option<i32> {
    match text {
        [a, b, c, d] => Some((two(&[*a, *b])? * 100 + two(&[*c, *d])?) as i32),
        [_, _, _, _, _] | [_, _, _, _, _, _] if text.iter().all(u8::is_ascii_digit) => {
            Some(short_digits(text)? as i32)
        }
        [b'-', rest @ ..] if (4..=6).contains(&rest.len()) => Some(-(short_digits(rest)? as i32)),
        [b'+', rest @ ..] if (4..=6).contains(&rest.len()) => Some(short_digits(rest)? as i32),
        _ => None,
    }
}

/// Days since 1970-01-01.
#[inline]
pub(crate) fn date(text: &[u8], style: DateStyle) -> Option<i32> {
    let text = trim(text);
    if text.ends_with(b")") {
        return before_christ(text).filter(|at| at.nanos == 0).map(|at| at.days);
    }
    if style == DateStyle::Iso
        && let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text
    {
        let year = two(&[*y1, *y2])? * 100 + two(&[*y3, *y4])?;
        return days_from_civil(year as i32, two(&[*m1, *m2])?, two(&[*d1, *d2])?);
    }
    let separator = match style {
        DateStyle::Iso => b'-',
        DateStyle::YearFirst(s) | DateStyle::DayFirst(s) | DateStyle::MonthFirst(s) => s,
    };
    // A sign before the year is no separator.
    let signed = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let mut parts = [&text[..0]; 3];
    let mut start = 0;
    for (i, part) in parts.iter_mut().enumerate() {
        let from = if i == 0 { signed } else { start };
        let rest = text.get(from..)?;
        let end = if i == 2 { text.len() } else { from + memchr::memchr(separator, rest)? };
        *part = &text[start..end];
        start = end + 1;
    }
    let [a, b, c] = parts;
    match style {
        DateStyle::Iso | DateStyle::YearFirst(_) => days_from_civil(year(a)?, two(b)?, two(c)?),
        DateStyle::DayFirst(_) => days_from_civil(year(c)?, two(b)?, two(a)?),
        DateStyle::MonthFirst(_) => days_from_civil(year(c)?, two(a)?, two(b)?),
    }
}

/// A time of day in nanoseconds: `hh:mm`, `hh:mm:ss` or with a fraction of up to nine digits.
#[inline]
pub(crate) fn time(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (hours, rest) = clock_part(text)?;
    let (minutes, rest) = clock_part(rest.strip_prefix(b":")?)?;
    let (seconds, rest) = match rest {
        [] => (0, rest),
        [b':', rest @ ..] => clock_part(rest)?,
        _ => return None,
    };
    let nanos = match rest {
        [] => 0,
        [b'.' | b',', fraction @ ..] if (1..=9).contains(&fraction.len()) => {
            short_digits(fraction)? as i64 * 10i64.pow(9 - fraction.len() as u32)
        }
        _ => return None,
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(i64::from(hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + nanos)
}

/// Two digits (one is enough in front of a colon), and what follows.
#[inline]
fn clock_part(text: &[u8]) -> Option<(u32, &[u8])> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => {
            Some((u32::from((a - b'0') * 10 + (b - b'0')), rest))
        }
        [a @ b'0'..=b'9', b':', ..] => Some((u32::from(a - b'0'), &text[1..])),
        _ => None,
    }
}

/// A point in time as written: days, nanoseconds of the day, and the offset from UTC in seconds
/// when one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTime {
    pub(crate) days: i32,
    pub(crate) nanos: i64,
    pub(crate) offset_s: Option<i32>,
}

impl DateTime {
    /// The instant in units of which a second has `per_second`; `None` when a digit would be lost
    /// or it does not fit.
    #[inline]
    pub(crate) fn instant(&self, per_second: i64) -> Option<i64> {
        let per_unit = 1_000_000_000 / per_second;
        if self.nanos % per_unit != 0 {
            return None;
        }
        let offset = i64::from(self.offset_s.unwrap_or(0)) * per_second;
        (i64::from(self.days) * 86_400)
            .checked_mul(per_second)?
            .checked_add(self.nanos / per_unit)?
            .checked_sub(offset)
    }
}

/// `0045-03-15 (BC)`, with a time behind it or not.
#[cold]
fn before_christ(text: &[u8]) -> Option<DateTime> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.contains("(BC)"))?;
    let stamp = read_stamp(text, Kind::Moment)?;
    let offset_s = match stamp.zone {
        None => None,
        Some(Where::Offset(offset)) => Some(i32::try_from(offset).ok()?),
        Some(Where::In(_)) => return None,
    };
    Some(DateTime { days: i32::try_from(stamp.days).ok()?, nanos: stamp.nanos, offset_s })
}

/// A date, or a date and a time separated by a blank or `T`, with `Z`, `UTC` or `+hh[:mm]` if any.
#[inline]
pub(crate) fn date_time(text: &[u8], style: DateStyle) -> Option<DateTime> {
    let text = trim(text);
    plain_date_time(text, style).or_else(|| before_christ(text))
}

/// A timestamp whose date is in a style, or as a cast to text writes it: an export with a format of
/// dates alone leaves timestamps as they are. No date of ten digits is both.
#[inline]
pub(crate) fn timestamp(text: &[u8], style: DateStyle) -> Option<DateTime> {
    let found = date_time(text, style);
    if found.is_some() || style == DateStyle::Iso {
        return found;
    }
    // A date alone is in the style that the others are in.
    date_time(text, DateStyle::Iso).filter(|_| trim(text).iter().any(|b| matches!(b, b' ' | b'T')))
}

#[inline]
fn plain_date_time(text: &[u8], style: DateStyle) -> Option<DateTime> {
    // The date has at least six characters; the separator comes after it.
    let split = match text.get(10) {
        Some(b' ' | b'T') => Some(10),
        _ => text.iter().position(|byte| matches!(byte, b' ' | b'T')),
    };
    let Some(split) = split else {
        return Some(DateTime { days: date(text, style)?, nanos: 0, offset_s: None });
    };
    let days = date(&text[..split], style)?;
    let (clock, offset_s) = split_offset(&text[split + 1..])?;
    Some(DateTime { days, nanos: time(clock)?, offset_s })
}

/// Takes the offset from UTC off the end of a time.
#[inline]
fn split_offset(text: &[u8]) -> Option<(&[u8], Option<i32>)> {
    if let Some(clock) = text.strip_suffix(b"Z") {
        return Some((clock, Some(0)));
    }
    if let Some(clock) = text.strip_suffix(b"UTC") {
        return Some((clock, Some(0)));
    }
    let Some(at) = memchr::memrchr2(b'+', b'-', text) else { return Some((text, None)) };
    let sign = if text[at] == b'-' { -1 } else { 1 };
    let (hours, minutes) = match &text[at + 1..] {
        [a, b] => (two(&[*a, *b])?, 0),
        [a, b, b':', c, d] | [a, b, c, d] => (two(&[*a, *b])?, two(&[*c, *d])?),
        // Of a local mean time, with seconds.
        _ => return seconds_offset(text),
    };
    if hours > 15 || minutes > 59 {
        return None;
    }
    Some((&text[..at], Some(sign * (hours * 3600 + minutes * 60) as i32)))
}

/// As [`split_offset`], for `+hh:mm:ss`.
#[cold]
fn seconds_offset(text: &[u8]) -> Option<(&[u8], Option<i32>)> {
    let at = text.len().checked_sub("+00:53:28".len())?;
    let written = std::str::from_utf8(text.get(at..)?).ok()?;
    if !written.starts_with(['+', '-']) {
        return None;
    }
    match read_zone(written)? {
        Where::Offset(offset) => Some((&text[..at], Some(i32::try_from(offset).ok()?))),
        Where::In(_) => None,
    }
}

pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_to_the_last_one_that_fits() {
        for value in [0, 1, -1, 99, 1 << 40, i64::MAX, i64::MIN, i64::MAX - 1] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(integer(b" +17 "), Some(17));
        assert_eq!(unsigned(u64::MAX.to_string().as_bytes()), Some(u64::MAX));
        let wrong: [&[u8]; 10] =
            [b"", b"-", b"+", b" ", b"1 2", b"1.0", b"9223372036854775808", b"0x1", b"1e3", b"--1"];
        for text in wrong {
            assert_eq!(integer(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b"18446744073709551616"), None);
    }

    #[test]
    fn codes_and_whole_numbers_that_no_double_holds() {
        let whole: [(&[u8], Option<i64>); 8] = [
            (b"7", Some(7)),
            (b"-7", Some(-7)),
            (b"0", Some(0)),
            (b"-0", Some(0)),
            (b" 12 ", Some(12)),
            (b"007", None),
            (b"+49", None),
            (b"-07", None),
        ];
        for (text, value) in whole {
            assert_eq!(plain_integer(text), value, "{}", text.escape_ascii());
        }
        let floats: [(&[u8], Option<f64>); 11] = [
            (b"9007199254740992", Some(9_007_199_254_740_992.0)),
            (b"9007199254740993", None),
            (b"-9007199254740993", None),
            (b"9007199254740993.0", Some(9_007_199_254_740_992.0)),
            (b"0.1234567890123456789", Some(0.123_456_789_012_345_68)),
            (b"1e300", Some(1e300)),
            (b"100000000000000000000000", None),
            (b".5", Some(0.5)),
            (b"01.5", None),
            (b"+1.5", None),
            (b"-inf", Some(f64::NEG_INFINITY)),
        ];
        for (text, value) in floats {
            assert_eq!(plain_float(text), value, "{}", text.escape_ascii());
        }
        assert_eq!(boolean_word(b"TRUE "), Some(true));
        assert_eq!((boolean_word(b"f"), boolean_word(b"1")), (None, None));
    }

    #[test]
    fn floats_are_read_as_the_standard_library_does() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200_000 {
            let text = match random.u8(0..4) {
                0 => format!("{}", f64::from_bits(random.u64(..))),
                1 => format!("{:e}", f64::from_bits(random.u64(..))),
                2 => format!("{:.*}", random.usize(0..12), (random.f64() - 0.5) * 1e6),
                _ => format!("{}.{}", random.u32(..), random.u32(0..10_000_000)),
            };
            let expected: f64 = text.parse().unwrap();
            let found = float(text.as_bytes()).unwrap();
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{text}");
            let expected: f32 = text.parse().unwrap();
            match float32(text.as_bytes()) {
                Some(found) => {
                    assert!(found == expected || found.is_nan() && expected.is_nan(), "{text}");
                }
                None => assert!(expected.is_infinite() && !text.contains("inf"), "{text}"),
            }
        }
        assert_eq!(float(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(float32(b"Infinity"), Some(f32::INFINITY));
        for text in ["1e400", "-1e400"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
        for text in ["1e39", "-123456789e35"] {
            assert_eq!(float32(text.as_bytes()), None, "{text}");
        }
        for text in ["", ".", "-", "1.2.3", "1,5", "e5", "1e", "0x10", "--1", "1_000"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
            assert_eq!(float32(text.as_bytes()), None, "{text}");
        }
        assert_eq!(float(b"-.5"), Some(-0.5));
        assert_eq!(float(b"5."), Some(5.0));
        assert!(float(b"-0").is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn short_singles_round_once() {
        for value in (0..10_000_000u32).step_by(37) {
            let text = format!("{}.{:04}", value / 10_000, value % 10_000);
            assert_eq!(float32(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(decimal(b"12.34", 15, 2), Some(1234));
        assert_eq!(decimal(b"-12.3", 15, 2), Some(-1230));
        assert_eq!(decimal(b"12.3400", 15, 2), Some(1234));
        assert_eq!(decimal(b"12.345", 15, 2), None);
        assert_eq!(decimal(b"1e3", 15, 2), Some(100_000));
        assert_eq!(decimal(b"999.99", 5, 2), Some(99_999));
        assert_eq!(decimal(b"1000", 5, 2), None);
        assert_eq!(decimal(b".", 5, 2), None);
        assert_eq!(decimal(b"1200", 5, -2), Some(12));
        let big = "9".repeat(38);
        assert_eq!(decimal(big.as_bytes(), 38, 0), big.parse().ok());
        let bigger = "9".repeat(76);
        assert_eq!(decimal256(bigger.as_bytes(), 76, 0).unwrap().to_string(), bigger);
        assert_eq!(decimal256(b"-1.50", 40, 1).unwrap().to_string(), "-15");
        assert_eq!(decimal256(format!("1{bigger}").as_bytes(), 76, 0), None);
    }

    #[test]
    fn dates_agree_with_a_calendar_library() {
        use arrow::temporal_conversions::date32_to_datetime;
        for days in (-800_000..800_000).step_by(13) {
            let day = date32_to_datetime(days).unwrap().date().to_string();
            if day.len() == 10 {
                assert_eq!(date(day.as_bytes(), DateStyle::Iso), Some(days), "{day}");
            }
        }
        assert_eq!(date(b"1970-1-2", DateStyle::Iso), Some(1));
        assert_eq!(date(b"2.1.1970", DateStyle::DayFirst(b'.')), Some(1));
        assert_eq!(date(b"01/02/1970", DateStyle::MonthFirst(b'/')), Some(1));
        assert_eq!(date(b"1970/01/02", DateStyle::YearFirst(b'/')), Some(1));
        for text in ["2023-02-29", "2024-13-01", "2024-00-01", "2024-04-31", "24-01-01", "2024-1"] {
            assert_eq!(date(text.as_bytes(), DateStyle::Iso), None, "{text}");
        }
        assert!(date(b"2024-02-29", DateStyle::Iso).is_some());
        assert!(date(b"-0044-03-15", DateStyle::Iso).is_some());
    }

    #[test]
    fn times_and_instants() {
        assert_eq!(time(b"00:00"), Some(0));
        assert_eq!(time(b"23:59:59.999999999"), Some(86_399_999_999_999));
        assert_eq!(time(b"7:05:06"), Some((7 * 3600 + 5 * 60 + 6) * 1_000_000_000));
        for text in ["24:00:00", "12:60", "12:00:60", "12", "12:00:00.", "12:00:00.1234567890"] {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
        let at = |text: &str| date_time(text.as_bytes(), DateStyle::Iso);
        assert_eq!(at("1970-01-02").unwrap().instant(1), Some(86_400));
        assert_eq!(at("1970-01-01 00:00:01.5").unwrap().instant(1_000), Some(1_500));
        assert_eq!(at("1970-01-01 00:00:01.5").unwrap().instant(1), None);
        assert_eq!(at("1970-01-01T01:00:00+01:00").unwrap().instant(1), Some(0));
        assert_eq!(at("1970-01-01T00:00:00-0130").unwrap().instant(1), Some(5_400));
        assert_eq!(at("1970-01-01 00:00:00Z").unwrap().offset_s, Some(0));
        assert_eq!(at("1970-01-01 00:00:00 UTC").unwrap().offset_s, Some(0));
        assert_eq!(at("1970-01-01 "), at("1970-01-01"));
        assert_eq!(at("1970-01-01 x"), None);
    }

    #[test]
    fn booleans() {
        for (text, value) in [("TRUE", true), ("f", false), ("Yes", true), ("0", false)] {
            assert_eq!(boolean(text.as_bytes()), Some(value));
        }
        assert_eq!(boolean(b"2"), None);
    }
}
