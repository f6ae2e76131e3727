//! Values as the caller says that they are written: numbers with other separators, dates and
//! timestamps in a format.
//!
//! A number is rewritten to the usual form and then read by the usual parser, so that it is exact
//! or refused. Separators of thousands stand between digits of the whole part, the last one before
//! three digits: `1,5` is no number where the comma separates thousands.

use std::cell::RefCell;

use arrow::datatypes::{DataType, TimeUnit};
use swingdb_common::time::zones::Zone;
use swingdb_functions::time::strptime::TimeFormat;

use crate::text::values::{per_second, trim};

/// What the caller says about values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Styles {
    /// Separators in numbers, where they are not the usual ones.
    pub numbers: Option<NumberStyle>,
    /// The format of dates.
    pub dates: Option<TimeFormat>,
    /// The format of timestamps.
    pub timestamps: Option<TimeFormat>,
}

/// Separators in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberStyle {
    /// Between the whole number and its fraction.
    pub decimal: u8,
    /// Between groups of digits of the whole number.
    pub thousands: Option<u8>,
}

impl NumberStyle {
    /// Writes a number into `out` as usual parsers take it; false when it is none.
    pub(crate) fn rewrite(self, text: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let text = trim(text);
        let end = text.iter().position(|byte| *byte == self.decimal).unwrap_or(text.len());
        let (whole, fraction) = text.split_at(end);
        if !self.rewrite_whole(whole, out) {
            return false;
        }
        let Some((_, fraction)) = fraction.split_first() else { return true };
        let is_foreign = |byte: &u8| *byte == b'.' || Some(*byte) == self.thousands;
        if fraction.iter().any(is_foreign) {
            return false;
        }
        out.push(b'.');
        out.extend_from_slice(fraction);
        true
    }

    fn rewrite_whole(self, whole: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(separator) = self.thousands else {
            out.extend_from_slice(whole);
            return self.decimal == b'.' || !whole.contains(&b'.');
        };
        let digits = whole.strip_prefix(b"-").or_else(|| whole.strip_prefix(b"+"));
        let mut groups = digits.unwrap_or(whole).rsplit(|byte| *byte == separator).peekable();
        let mut number = 0;
        while let Some(group) = groups.next() {
            let is_only = number == 0 && groups.peek().is_none();
            let len = match (number, groups.peek()) {
                (0, _) => 3..=3,
                (_, Some(_)) => 2..=3,
                (_, None) => 1..=3,
            };
            let fits = len.contains(&group.len()) && group.iter().all(u8::is_ascii_digit);
            if !is_only && !fits {
                return false;
            }
            number += 1;
        }
        let kept = whole.iter().filter(|byte| **byte != separator);
        let start = out.len();
        out.extend(kept);
        self.decimal == b'.' || !out[start..].contains(&b'.')
    }
}

thread_local! {
    /// A number in the usual form.
    static USUAL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Styles {
    /// What `parse` makes of a number in these styles.
    #[inline]
    pub(crate) fn number<T>(
        &self,
        text: &[u8],
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let Some(style) = self.numbers else { return parse(text) };
        USUAL.with_borrow_mut(|usual| match style.rewrite(text, usual) {
            true => parse(usual.as_slice()),
            false => None,
        })
    }

    /// Days since 1970 of a date in the format that is given.
    pub(crate) fn date(format: &TimeFormat, text: &[u8]) -> Option<i32> {
        let stamp = format.read(std::str::from_utf8(text).ok()?)?;
        i32::try_from(stamp.days).ok().filter(|_| stamp.nanos == 0 && stamp.zone.is_none())
    }

    /// A timestamp in the format that is given, in units of a column; what names no zone is told by
    /// the clock of the column's `zone`. `None` also where a digit or the zone would be lost.
    pub(crate) fn timestamp(
        format: &TimeFormat,
        text: &[u8],
        unit: TimeUnit,
        zone: Option<Zone>,
    ) -> Option<i64> {
        let stamp = format.read(std::str::from_utf8(text).ok()?)?;
        let per_unit = 1_000_000_000 / per_second(unit);
        if stamp.nanos % per_unit != 0 || (zone.is_none() && stamp.zone.is_some()) {
            return None;
        }
        stamp.instant(unit, zone.unwrap_or(Zone::UTC))
    }

    /// The type of a timestamp in a format.
    pub(crate) fn timestamp_type(format: &TimeFormat) -> DataType {
        let unit = if format.has_nanos() { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
        DataType::Timestamp(unit, format.has_zone().then(|| "UTC".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(text: &str, decimal: u8, thousands: Option<u8>) -> Option<String> {
        let mut out = Vec::new();
        let fits = NumberStyle { decimal, thousands }.rewrite(text.as_bytes(), &mut out);
        fits.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn separators_of_thousands_stand_where_they_belong() {
        for (text, found) in [
            ("1,234", Some("1234")),
            (" -12,345.67 ", Some("-12345.67")),
            ("+1,234,567", Some("+1234567")),
            ("12,34,567.5", Some("1234567.5")),
            ("1234", Some("1234")),
            ("1234.5", Some("1234.5")),
            (".5", Some(".5")),
            ("1e3", Some("1e3")),
            ("1,5", None),
            ("1,0,0", None),
            (",5", None),
            (",500", None),
            ("1,,000", None),
            ("1234,567", None),
            ("1,234,56", None),
            ("1.5,000", None),
            ("1,234e5", None),
        ] {
            assert_eq!(usual(text, b'.', Some(b',')).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn another_separator_of_fractions() {
        for (text, found) in [
            ("1,5", Some("1.5")),
            ("-0,25", Some("-0.25")),
            ("1", Some("1")),
            ("1,5e3", Some("1.5e3")),
            ("1.5", None),
            ("1,5.0", None),
        ] {
            assert_eq!(usual(text, b',', None).as_deref(), found, "{text}");
        }
        assert_eq!(usual("1.234,5", b',', Some(b'.')).as_deref(), Some("1234.5"));
        assert_eq!(usual("1.234.567", b',', Some(b'.')).as_deref(), Some("1234567"));
        assert_eq!(usual("1,5", b',', Some(b'.')).as_deref(), Some("1.5"));
        assert_eq!(usual("1.5", b',', Some(b'.')), None);
        assert_eq!(usual("1 234,5", b',', Some(b' ')).as_deref(), Some("1234.5"));
    }
}
