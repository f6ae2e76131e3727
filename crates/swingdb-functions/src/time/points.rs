//! Points in time as whole numbers.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use chrono::{DateTime, Datelike, NaiveDateTime};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use swingdb_common::cast::normalize::prepared;

pub(super) const SECOND: i64 = 1_000_000;
pub(crate) const DAY: i64 = 86_400 * SECOND;

pub(crate) fn is_moment(given: &DataType) -> bool {
    matches!(given, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

pub(crate) fn is_time(given: &DataType) -> bool {
    matches!(given, DataType::Time32(_) | DataType::Time64(_))
}

/// Microseconds since 1970, or since midnight, or of a span with months of 30 days. Nanoseconds are
/// rounded of points in time, and cut off of all others.
pub(crate) fn micros(values: &ArrayRef) -> Result<Int64Array> {
    use DataType::{Date32, Date64, Duration, Interval, Null, Time32, Time64, Timestamp};
    match values.data_type() {
        Null => Ok(Int64Array::new_null(values.len())),
        given if given.is_string() => micros(&of_texts(values)?),
        Date32 => checked(&whole(values)?, |days| days.checked_mul(DAY)),
        Date64 => checked(&whole(values)?, |millis| millis.checked_mul(1_000)),
        Timestamp(TimeUnit::Nanosecond, _) => Ok(whole(values)?.unary(thousandths)),
        Time64(TimeUnit::Nanosecond) | Duration(TimeUnit::Nanosecond) => {
            Ok(whole(values)?.unary(|nanos| nanos / 1_000))
        }
        Timestamp(unit, _) | Time32(unit) | Time64(unit) | Duration(unit) => {
            let whole = whole(values)?;
            match unit {
                TimeUnit::Second => checked(&whole, |seconds| seconds.checked_mul(SECOND)),
                TimeUnit::Millisecond => checked(&whole, |millis| millis.checked_mul(1_000)),
                TimeUnit::Microsecond | TimeUnit::Nanosecond => Ok(whole),
            }
        }
        Interval(IntervalUnit::MonthDayNano) => {
            checked(values.as_primitive::<IntervalMonthDayNanoType>(), |interval| {
                days_of(interval).checked_mul(DAY)?.checked_add(interval.nanoseconds / 1_000)
            })
        }
        other => plan_err!("{other} is no point in time"),
    }
}

/// The points in time that texts say.
pub(super) fn of_texts(texts: &ArrayRef) -> Result<ArrayRef> {
    let to = DataType::Timestamp(TimeUnit::Microsecond, None);
    exact_cast(&prepared(texts, &to, false)?, &to)
}

/// A cast that fails for values which are none of the type; the plain one makes them NULL.
pub(super) fn exact_cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(values, to, &options)?)
}

/// The same as [`micros`], but nanoseconds are cut off of points in time, too: none comes later.
pub(super) fn whole_micros(values: &ArrayRef) -> Result<Int64Array> {
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Ok(whole(values)?.unary(|nanos| nanos.div_euclid(1_000)))
        }
        _ => micros(values),
    }
}

/// The same as [`micros`], in nanoseconds.
pub(super) fn nanos(values: &ArrayRef) -> Result<Int64Array> {
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _)
        | DataType::Time64(TimeUnit::Nanosecond)
        | DataType::Duration(TimeUnit::Nanosecond) => whole(values),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            checked(values.as_primitive::<IntervalMonthDayNanoType>(), |interval| {
                let days = days_of(interval).checked_mul(DAY * 1_000)?;
                days.checked_add(interval.nanoseconds)
            })
        }
        _ => checked(&micros(values)?, |micros| micros.checked_mul(1_000)),
    }
}

/// The numbers that values are stored as.
fn whole(values: &ArrayRef) -> Result<Int64Array> {
    // Dates and times of 32 bits first become numbers of 32 bits.
    let values = match values.data_type() {
        DataType::Date32 | DataType::Time32(_) => &cast(values, &DataType::Int32)?,
        _ => values,
    };
    Ok(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn days_of(interval: IntervalMonthDayNano) -> i64 {
    i64::from(interval.months) * 30 + i64::from(interval.days)
}

/// Points in time by the clock of their own time zone, if they have one.
pub(super) fn by_their_clock(values: &ArrayRef) -> Result<Option<ArrayRef>> {
    Ok(match values.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let plain = DataType::Timestamp(*unit, None);
            Some(cast(&prepared(values, &plain, false)?, &plain)?)
        }
        _ => None,
    })
}

/// A point in time, of its microseconds since 1970.
pub(super) fn moment(micros: i64) -> Result<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc()).ok_or_else(beyond)
}

/// Months since the year 0.
pub(super) fn months(time: NaiveDateTime) -> i64 {
    i64::from(time.year()) * 12 + i64::from(time.month0())
}

pub(super) fn beyond() -> DataFusionError {
    exec_datafusion_err!("a timestamp beyond the calendar")
}

/// A thousandth of it, rounded half away from zero.
pub(super) fn thousandths(value: i64) -> i64 {
    value / 1_000 + (value % 1_000) / 500
}

fn checked<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    convert: impl Fn(T::Native) -> Option<i64>,
) -> Result<Int64Array> {
    values.try_unary(|value| {
        convert(value).ok_or_else(|| exec_datafusion_err!("{value:?} is out of range"))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, IntervalMonthDayNanoArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let expected = [(1_500, 2), (1_499, 1), (-1_500, -2), (-1_499, -1), (-500, -1), (999, 1)];
        for (value, rounded) in expected {
            assert_eq!(thousandths(value), rounded, "{value}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let far: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX]));
        assert!(micros(&far).is_err());
        let near: ArrayRef = Arc::new(Date32Array::from(vec![Some(-1), None]));
        assert_eq!(micros(&near).unwrap(), Int64Array::from(vec![Some(-DAY), None]));
        let later: ArrayRef = Arc::new(Date32Array::from(vec![200_000]));
        assert!(micros(&later).is_ok() && nanos(&later).is_err());
    }

    #[test]
    fn nanoseconds_of_points_and_of_intervals() {
        let points: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_789, -1_789]));
        assert_eq!(micros(&points).unwrap(), Int64Array::from(vec![2, -2]));
        let interval = IntervalMonthDayNano::new(1, 1, 1_789);
        let intervals: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![interval]));
        assert_eq!(micros(&intervals).unwrap(), Int64Array::from(vec![31 * DAY + 1]));
        assert_eq!(nanos(&intervals).unwrap(), Int64Array::from(vec![31 * DAY * 1_000 + 1_789]));
    }
}
