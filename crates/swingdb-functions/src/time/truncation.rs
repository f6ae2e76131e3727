//! `date_trunc('month', x)`: when the unit begins in which `x` lies. The unit may be another in
//! each row.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, Int64Builder, IntervalMonthDayNanoBuilder};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{Datelike, NaiveDate, Weekday};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::clock::Clock;
use super::points::{DAY, beyond, is_moment, is_time, micros, whole_micros};
use super::units::{MINUTE, Unit, Units};

pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(DateTrunc { aliases: vec!["datetrunc".into()], signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        "date_trunc"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [unit, _] if !unit.is_string() && !unit.is_null() => {
                plan_err!("date_trunc takes the name of a unit first, not {unit}")
            }
            [_, DataType::Timestamp(_, zone)] => {
                Ok(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            [_, given] if is_moment(given) || given.is_string() || given.is_null() => Ok(MICROS),
            [_, given @ DataType::Interval(_)] if *given == INTERVAL => Ok(INTERVAL),
            [_, given] if is_time(given) => Ok(DataType::Time64(TimeUnit::Microsecond)),
            [_, other] => plan_err!("date_trunc takes a date, time or interval, not {other}"),
            _ => plan_err!("date_trunc takes a unit and a date, time or interval"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match input {
            [unit, of] if unit.sort_properties == SortProperties::Singleton => in_order(of),
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [unit, of] = args.args.as_slice() else {
            return exec_err!("date_trunc takes a unit and a date, time or interval");
        };
        let units = Units::of(unit)?;
        let of = of.to_array(rows)?;
        let found = match of.data_type() {
            DataType::Interval(_) => of_intervals(&units, &of)?,
            given if is_time(given) => of_times(&units, &of)?,
            given => {
                let clock = Clock::of(given)?;
                let given = whole_micros(&of)?;
                each(&units, &given, |unit, micros| begins_by(clock, unit, micros))?
            }
        };
        crate::args::as_given(&args, cast(&found, args.return_type())?)
    }
}

pub(super) const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The order of what begins no later than a point in time that comes no later: where clocks are put
/// back, what they show does not grow.
pub(super) fn in_order(points: &ExprProperties) -> SortProperties {
    match points.range.data_type() {
        DataType::Timestamp(_, None) | DataType::Date32 => points.sort_properties,
        _ => SortProperties::Unordered,
    }
}

fn each(
    units: &Units,
    values: &Int64Array,
    begins: impl Fn(Unit, i64) -> Result<i64>,
) -> Result<ArrayRef> {
    if let Units::One(Some(unit)) = units {
        let found = values.try_unary::<_, Int64Type, _>(|value| begins(*unit, value))?;
        return Ok(Arc::new(found));
    }
    let mut unit = units.by_row();
    let mut found = Int64Builder::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let begin = match (unit(row)?, value) {
            (Some(unit), Some(value)) => Some(begins(unit, value)?),
            _ => None,
        };
        found.append_option(begin);
    }
    Ok(Arc::new(found.finish()))
}

fn of_times(units: &Units, times: &ArrayRef) -> Result<ArrayRef> {
    each(units, &micros(times)?, |unit, micros| match unit {
        Unit::Micros(length) => Ok(micros - micros % length),
        _ => exec_err!("date_trunc: a TIME has only hours and parts of them"),
    })
}

fn of_intervals(units: &Units, intervals: &ArrayRef) -> Result<ArrayRef> {
    let mut unit = units.by_row();
    let mut found = IntervalMonthDayNanoBuilder::with_capacity(intervals.len());
    for (row, interval) in intervals.as_primitive::<IntervalMonthDayNanoType>().iter().enumerate() {
        let (Some(unit), Some(interval)) = (unit(row)?, interval) else {
            found.append_null();
            continue;
        };
        found.append_value(whole(unit, interval));
    }
    Ok(Arc::new(found.finish()))
}

/// What an interval has of whole units.
fn whole(unit: Unit, interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let of_months = |length: i64| (i64::from(months) - i64::from(months) % length) as i32;
    match unit {
        Unit::Years(length) => IntervalMonthDayNano::new(of_months(12 * length), 0, 0),
        Unit::IsoYears => IntervalMonthDayNano::new(of_months(12), 0, 0),
        Unit::Months(length) => IntervalMonthDayNano::new(of_months(length), 0, 0),
        Unit::Weeks => IntervalMonthDayNano::new(months, days - days % 7, 0),
        Unit::Days => IntervalMonthDayNano::new(months, days, 0),
        Unit::Micros(length) => {
            IntervalMonthDayNano::new(months, days, nanoseconds - nanoseconds % (length * 1_000))
        }
    }
}

fn begins_by(clock: Clock, unit: Unit, micros: i64) -> Result<i64> {
    let is_zoned = matches!(clock, Clock::In(_));
    match unit {
        // Clocks are put forward and back by whole minutes.
        Unit::Micros(length) if is_zoned && length > MINUTE => {
            let shown = clock.shows(micros)?;
            Ok(micros - (shown - begins(unit, shown)?))
        }
        Unit::Micros(_) => begins(unit, micros),
        _ => clock.when_shows(begins(unit, clock.shows(micros)?)?),
    }
}

/// When a unit begins, both in microseconds since 1970.
fn begins(unit: Unit, micros: i64) -> Result<i64> {
    let days = micros.div_euclid(DAY);
    let days = match unit {
        Unit::Micros(length) => {
            return micros.checked_sub(micros.rem_euclid(length)).ok_or_else(beyond);
        }
        Unit::Days => Some(days),
        // 1970 began on a Thursday.
        Unit::Weeks => Some(days - (days + 3).rem_euclid(7)),
        Unit::IsoYears => {
            let year = date(days)?.iso_week().year();
            NaiveDate::from_isoywd_opt(year, 1, Weekday::Mon).map(of_date)
        }
        Unit::Months(length) => {
            let date = date(days)?;
            let month0 = date.month0() - date.month0() % length as u32;
            NaiveDate::from_ymd_opt(date.year(), month0 + 1, 1).map(of_date)
        }
        Unit::Years(length) => {
            let year = date(days)?.year();
            NaiveDate::from_ymd_opt(year - year % length as i32, 1, 1).map(of_date)
        }
    };
    days.and_then(|days| days.checked_mul(DAY)).ok_or_else(beyond)
}

/// A day, by its number since 1970.
fn date(days: i64) -> Result<NaiveDate> {
    i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days).ok_or_else(beyond)
}

fn of_date(date: NaiveDate) -> i64 {
    i64::from(date.to_epoch_days())
}
