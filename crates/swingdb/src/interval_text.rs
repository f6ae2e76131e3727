//! Intervals as text: `1 year 2 months 3 days 04:05:06.5`, as DuckDB writes them, which reads back
//! as the same interval.

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

/// Texts of intervals as the engine reads them.
pub(crate) fn readable(texts: &StringViewArray) -> StringViewArray {
    let new = |text: &str| with_units(text).unwrap_or_else(|| text.to_owned());
    texts.iter().map(|text| text.map(new)).collect()
}

/// The text of an interval with units for the parts of a clock, if it may have such.
pub(crate) fn with_units(text: &str) -> Option<String> {
    text.contains(':').then(|| {
        let words: Vec<_> = text.split_ascii_whitespace().map(in_units).collect();
        words.join(" ")
    })
}

/// A word with units where it is a clock's, whose sign is that of all three; others as they are.
fn in_units(word: &str) -> String {
    let (sign, clock) = match word.strip_prefix('-') {
        Some(clock) => ("-", clock),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<_> = clock.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return word.to_owned(),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let below_60 = |text: &str| text.len() <= 2 && digits(text) && text < "60";
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if !(digits(hours) && below_60(minutes) && below_60(whole) && digits(fraction)) {
        return word.to_owned();
    }
    format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds")
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
    fn a_clocks_words_get_units() {
        assert_eq!(in_units("02:03:04.5"), "02 hours 03 minutes 04.5 seconds");
        assert_eq!(in_units("-100:00"), "-100 hours -00 minutes -0 seconds");
        assert_eq!(in_units("+1:5"), "1 hours 5 minutes 0 seconds");
        for same in ["1", "day", "1:60", "1:2:60", ":1", "1:", "a:b", "1:2:3:4", "1:2:3.", "1:-2"] {
            assert_eq!(in_units(same), same);
        }
    }
}
