//! Intervals as text: `1 year 2 months 3 days 04:05:06.5`, as DuckDB writes them, which reads back
//! as the same interval.
//!
//! Units have all names that DuckDB has for them; a number without a unit counts seconds. Parts of
//! a month are days, of which it has 30, and parts of a day are hours.

use arrow::array::{Array, AsArray, StringArray, StringViewArray};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit,
};

const NANOS_OF_SECOND: i128 = 1_000_000_000;
const NANOS_OF_DAY: i128 = 86_400 * NANOS_OF_SECOND;

/// Intervals, and durations as intervals of days, as text; `None` for another type.
pub fn interval_texts(array: &dyn Array) -> Option<StringArray> {
    let text: Box<dyn Fn(usize) -> String + '_> = match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            let array = array.as_primitive::<IntervalYearMonthType>();
            Box::new(|row| written(array.value(row).into(), 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let array = array.as_primitive::<IntervalDayTimeType>();
            Box::new(|row| {
                let value = array.value(row);
                written(0, value.days.into(), i128::from(value.milliseconds) * 1_000_000)
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let array = array.as_primitive::<IntervalMonthDayNanoType>();
            Box::new(|row| {
                let value = array.value(row);
                written(value.months.into(), value.days.into(), value.nanoseconds.into())
            })
        }
        DataType::Duration(unit) => {
            let (unit, per_second) = match unit {
                TimeUnit::Second => (array.as_primitive::<DurationSecondType>().values(), 1),
                TimeUnit::Millisecond => {
                    (array.as_primitive::<DurationMillisecondType>().values(), 1_000)
                }
                TimeUnit::Microsecond => {
                    (array.as_primitive::<DurationMicrosecondType>().values(), 1_000_000)
                }
                TimeUnit::Nanosecond => {
                    (array.as_primitive::<DurationNanosecondType>().values(), 1_000_000_000)
                }
            };
            Box::new(move |row| {
                let nanos = i128::from(unit[row]) * (NANOS_OF_SECOND / per_second);
                written(0, (nanos / NANOS_OF_DAY) as i64, nanos % NANOS_OF_DAY)
            })
        }
        _ => return None,
    };
    Some((0..array.len()).map(|row| array.is_valid(row).then(|| text(row))).collect())
}

fn written(months: i64, days: i64, nanos: i128) -> String {
    let mut text = String::new();
    for (count, unit) in [(months / 12, "year"), (months % 12, "month"), (days, "day")] {
        if count != 0 {
            let space = if text.is_empty() { "" } else { " " };
            let plural = if count.abs() == 1 { "" } else { "s" };
            text.push_str(&format!("{space}{count} {unit}{plural}"));
        }
    }
    if nanos == 0 && !text.is_empty() {
        return text;
    }
    let (seconds, fraction) =
        (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let space = if text.is_empty() { "" } else { " " };
    let sign = if nanos < 0 { "-" } else { "" };
    text.push_str(&format!("{space}{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60));
    if fraction > 0 {
        text.push_str(format!(".{fraction:09}").trim_end_matches('0'));
    }
    text
}

// ---- reading ------------------------------------------------------------------------------------

/// Names of millennia.
pub const MILLENNIA: &[&str] = &["millennium", "millenniums", "millennia", "mil", "mils"];
/// Names of centuries.
pub const CENTURIES: &[&str] = &["century", "centuries", "cent", "c"];
/// Names of decades.
pub const DECADES: &[&str] = &["decade", "decades", "dec", "decs"];
/// Names of years.
pub const YEARS: &[&str] = &["year", "years", "yr", "yrs", "y"];
/// Names of quarters.
pub const QUARTERS: &[&str] = &["quarter", "quarters"];
/// Names of months.
pub const MONTHS: &[&str] = &["month", "months", "mon", "mons"];
/// Names of weeks.
pub const WEEKS: &[&str] = &["week", "weeks", "w"];
/// Names of days.
pub const DAYS: &[&str] = &["day", "days", "d"];
/// Names of hours.
pub const HOURS: &[&str] = &["hour", "hours", "hr", "hrs", "h"];
/// Names of minutes.
pub const MINUTES: &[&str] = &["minute", "minutes", "min", "mins", "m"];
/// Names of seconds.
pub const SECONDS: &[&str] = &["second", "seconds", "sec", "secs", "s"];
/// Names of milliseconds.
pub const MILLISECONDS: &[&str] =
    &["millisecond", "milliseconds", "ms", "msec", "msecs", "msecond", "mseconds"];
/// Names of microseconds.
pub const MICROSECONDS: &[&str] =
    &["microsecond", "microseconds", "us", "usec", "usecs", "usecond", "useconds"];
const NANOSECONDS: &[&str] = &["nanosecond", "nanoseconds", "ns"];

/// The length of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Whole months.
    Months(i32),
    /// Whole days.
    Days(i32),
    /// Nanoseconds.
    Nanos(i64),
}

const LENGTHS: &[(&[&str], Length)] = &[
    (MILLENNIA, Length::Months(12_000)),
    (CENTURIES, Length::Months(1_200)),
    (DECADES, Length::Months(120)),
    (YEARS, Length::Months(12)),
    (QUARTERS, Length::Months(3)),
    (MONTHS, Length::Months(1)),
    (WEEKS, Length::Days(7)),
    (DAYS, Length::Days(1)),
    (HOURS, Length::Nanos(3_600_000_000_000)),
    (MINUTES, Length::Nanos(60_000_000_000)),
    (SECONDS, Length::Nanos(1_000_000_000)),
    (MILLISECONDS, Length::Nanos(1_000_000)),
    (MICROSECONDS, Length::Nanos(1_000)),
    (NANOSECONDS, Length::Nanos(1)),
];

/// The length of the unit of a name.
pub fn unit(name: &str) -> Option<Length> {
    let is_named = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    LENGTHS.iter().find(|(names, _)| is_named(names)).map(|(_, length)| *length)
}

/// Texts of intervals as the engine reads them; what is none stays as it is.
pub fn readable(texts: &StringViewArray) -> StringViewArray {
    let new = |text: &str| in_units(text).unwrap_or_else(|| text.to_owned());
    texts.iter().map(|text| text.map(new)).collect()
}

/// The text of an interval in units that the engine knows; `None` of what is no interval.
pub fn in_units(text: &str) -> Option<String> {
    let Sum { months, days, nanos } = read(text)?;
    let months = i32::try_from(months).ok()?;
    let days = i32::try_from(days).ok()?;
    let nanos = i64::try_from(nanos).ok()?;
    Some(format!("{months} months {days} days {nanos} nanoseconds"))
}

/// Months, days and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

/// A number in billionths: all its digits that count.
#[derive(Clone, Copy)]
struct Number(i128);

impl Number {
    const ONE: i128 = 1_000_000_000;

    /// That many units more.
    fn of(self, length: Length, sum: &mut Sum) {
        let split = |parts: i128| (parts / Self::ONE, parts % Self::ONE);
        let (mut months, mut days) = (0, 0);
        let rest = match length {
            Length::Months(length) => {
                let (whole, rest) = split(self.0 * i128::from(length));
                months = whole;
                let (whole, rest) = split(rest * 30);
                days = whole;
                rest * NANOS_OF_DAY / Self::ONE
            }
            Length::Days(length) => {
                let (whole, rest) = split(self.0 * i128::from(length));
                days = whole;
                rest * NANOS_OF_DAY / Self::ONE
            }
            Length::Nanos(length) => self.0 * i128::from(length) / Self::ONE,
        };
        sum.months += months;
        sum.days += days;
        sum.nanos += rest;
    }
}

/// The parts of an interval that a text is, added up.
fn read(text: &str) -> Option<Sum> {
    let mut rest = text.trim_ascii();
    rest = rest.strip_prefix('@').unwrap_or(rest).trim_ascii_start();
    let mut sum = Sum::default();
    let mut parts = 0;
    while !rest.is_empty() {
        if rest.eq_ignore_ascii_case("ago") && parts > 0 {
            let Sum { months, days, nanos } = sum;
            return Some(Sum { months: -months, days: -days, nanos: -nanos });
        }
        rest = match clock(rest) {
            Some((nanos, behind)) => {
                sum.nanos += nanos;
                behind
            }
            None => {
                let (number, behind) = number(rest)?;
                let behind = behind.trim_ascii_start();
                let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
                let (name, behind) = behind.split_at(end);
                let length = match name {
                    "" if behind.is_empty() => Length::Nanos(1_000_000_000),
                    name => unit(name)?,
                };
                number.of(length, &mut sum);
                behind
            }
        }
        .trim_ascii_start();
        parts += 1;
    }
    (parts > 0).then_some(sum)
}

fn sign(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// A number with a fraction or without, and what follows.
fn number(text: &str) -> Option<(Number, &str)> {
    const MOST_DIGITS: usize = 18;
    let (sign, text) = sign(text);
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() || whole.len() > MOST_DIGITS {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let billionths = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let billionths = billionths.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    Some((Number(sign * (whole * Number::ONE + billionths)), rest))
}

/// Nanoseconds of hours, minutes and seconds as a clock shows them, and what follows. The sign is
/// that of all three.
fn clock(text: &str) -> Option<(i128, &str)> {
    const MOST_DIGITS: usize = 9;
    let below_60 = |text: &str| {
        let number: Option<i128> = text.parse().ok();
        number.filter(|number| text.len() <= 2 && *number < 60)
    };
    let (sign, text) = sign(text);
    let (hours, rest) = digits(text);
    let (minutes, rest) = digits(rest.strip_prefix(':')?);
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest),
        None => ("0", rest),
    };
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if hours.len() > MOST_DIGITS || rest.starts_with(|c: char| !c.is_ascii_whitespace()) {
        return None;
    }
    let hours: i128 = hours.parse().ok()?;
    let seconds = hours * 3_600 + below_60(minutes)? * 60 + below_60(seconds)?;
    let parts = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = parts.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    Some((sign * (seconds * NANOS_OF_SECOND + nanos), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DurationMillisecondArray, Int64Array, IntervalDayTimeArray, IntervalYearMonthArray,
    };
    use arrow::datatypes::IntervalDayTime;

    #[test]
    fn parts_are_written_that_are_not_zero() {
        const SECOND: i128 = NANOS_OF_SECOND;
        for (months, days, nanos, expected) in [
            (0, 0, 0, "00:00:00"),
            (12, 0, 0, "1 year"),
            (-13, 0, 0, "-1 year -1 month"),
            (25, 1, SECOND, "2 years 1 month 1 day 00:00:01"),
            (1, -1, 0, "1 month -1 day"),
            (0, -1, -2 * 3_600 * SECOND, "-1 day -02:00:00"),
            (0, 0, 3_600_000 * SECOND, "1000:00:00"),
            (0, 0, -SECOND / 2, "-00:00:00.5"),
            (0, 0, 1, "00:00:00.000000001"),
            (0, 0, 1_000, "00:00:00.000001"),
        ] {
            assert_eq!(written(months, days, nanos), expected);
        }
        assert!(written(i32::MIN.into(), i32::MIN.into(), i64::MIN.into()).len() > 40);
    }

    #[test]
    fn of_every_type() {
        let texts = |array: &dyn Array| {
            let texts = interval_texts(array).unwrap();
            texts.iter().map(|text| text.map(str::to_string)).collect::<Vec<_>>()
        };
        let some = |text: &str| Some(text.to_string());
        let years = IntervalYearMonthArray::from(vec![Some(14), None]);
        assert_eq!(texts(&years), [some("1 year 2 months"), None]);
        let days = IntervalDayTimeArray::from(vec![IntervalDayTime::new(2, -1_500)]);
        assert_eq!(texts(&days), [some("2 days -00:00:01.5")]);
        let lengths =
            DurationMillisecondArray::from(vec![Some(-820_800_000), Some(i64::MAX), None]);
        let most = "106751991167 days 07:12:55.807";
        assert_eq!(texts(&lengths), [some("-9 days -12:00:00"), some(most), None]);
        assert!(interval_texts(&Int64Array::from(vec![1])).is_none());
    }

    #[test]
    fn what_is_read() {
        const HOUR: i128 = 3_600 * NANOS_OF_SECOND;
        for (text, months, days, nanos) in [
            ("1 year 2 months 3 days 04:05:06.5", 14, 3, 4 * HOUR + 306_500_000_000),
            ("2 decades 3 yrs 4 mons 5 w 6 d 7 h 8 m 9 s", 280, 41, 7 * HOUR + 489_000_000_000),
            ("1 millennium 2 centuries 2 quarters", 14_406, 0, 0),
            ("1.5 months", 1, 15, 0),
            ("1.5 years", 18, 0, 0),
            ("-1.5 days", 0, -1, -12 * HOUR),
            ("-1 day 2 hours", 0, -1, 2 * HOUR),
            ("1d2h", 0, 1, 2 * HOUR),
            ("@ 1 day ago", 0, -1, 0),
            ("-100:00", 0, 0, -100 * HOUR),
            ("+1:5", 0, 0, HOUR + 300 * NANOS_OF_SECOND),
            ("5", 0, 0, 5 * NANOS_OF_SECOND),
            ("-5.25", 0, 0, -5_250_000_000),
            (".5 Secs", 0, 0, 500_000_000),
            ("1 MS 2 us 3 ns", 0, 0, 1_002_003),
        ] {
            assert_eq!(read(text), Some(Sum { months, days, nanos }), "{text}");
        }
        for text in [
            "", "day", "1 foo", "5 5", "1:60", "1:2:60", ":1", "1:", "a:b", "1:2:3:4", "ago",
            "P1Y", "1-2", "1 day x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(in_units("2 weeks"), Some("0 months 14 days 0 nanoseconds".into()));
        assert_eq!(in_units("3000000000 days"), None);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..5_000 {
            let (months, days) = (random.i32(..).into(), random.i32(..).into());
            let nanos = i128::from(random.i64(..));
            let text = written(months, days, nanos);
            let (months, days) = (i128::from(months), i128::from(days));
            assert_eq!(read(&text), Some(Sum { months, days, nanos }), "{text}");
        }
    }
}
