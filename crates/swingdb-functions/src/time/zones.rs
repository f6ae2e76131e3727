//! Functions of time zones and of the session's clock.
//!
//! | function | |
//! |---|---|
//! | `at_time_zone(zone, x)` | `x AT TIME ZONE zone`: what its clock shows then, or when it does |
//! | `zone_offset(x)` | how far the clock is ahead of UTC then, in seconds; 0 of what has no zone |
//! | `now()` | when the transaction began, as a TIMESTAMPTZ |
//! | `to_timestamp(x)` | so many seconds after 1970, as a TIMESTAMPTZ |
//! | [`later`] | a TIMESTAMPTZ and an interval, whose months and days are those of a clock |

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use chrono::Months;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::time::texts::{Kind, instant_of, per_second, read_stamp, shown_of};
use swingdb_common::time::zones::Zone;

use super::points::{DAY, SECOND, beyond, moment};

const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// TIMESTAMPTZ.
fn zoned(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// The functions that SQL calls by name.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of_two = Signature::any(2, Volatility::Immutable);
    let of_one = Signature::any(1, Volatility::Immutable);
    let of_seconds = Signature::any(1, Volatility::Immutable);
    [
        ScalarUDF::new_from_impl(AtTimeZone { signature: of_two }),
        ScalarUDF::new_from_impl(ZoneOffset { signature: of_one }),
        ScalarUDF::new_from_impl(Now {
            aliases: vec!["current_timestamp".into()],
            signature: Signature::nullary(Volatility::Stable),
        }),
        ScalarUDF::new_from_impl(ToTimestamp { signature: of_seconds }),
    ]
    .into_iter()
}

// ---- AT TIME ZONE -------------------------------------------------------------------------------

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtTimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        "at_time_zone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [zone, given] = types else { return plan_err!("AT TIME ZONE takes a zone") };
        if !(zone.is_string() || zone.is_null()) {
            return plan_err!("AT TIME ZONE takes the name of a zone, not {zone}");
        }
        match given {
            DataType::Timestamp(unit, None) => Ok(zoned(*unit)),
            DataType::Timestamp(unit, Some(_)) => Ok(DataType::Timestamp(*unit, None)),
            DataType::Date32 | DataType::Null => Ok(zoned(TimeUnit::Microsecond)),
            other => plan_err!(
                "AT TIME ZONE takes a TIMESTAMP or TIMESTAMPTZ, not {other}; cast it to one"
            ),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [zones, given] = args.args.as_slice() else {
            return exec_err!("AT TIME ZONE takes a zone");
        };
        let zones = cast(&zones.to_array(rows)?, &DataType::Utf8)?;
        let mut zone = named_zones(zones.as_string::<i32>());
        let given = given.to_array(rows)?;
        let given = match given.data_type() {
            DataType::Timestamp(..) => given,
            _ => cast(&given, &LOCAL)?,
        };
        let DataType::Timestamp(unit, is_zoned) = given.data_type().clone() else {
            return exec_err!("AT TIME ZONE takes a timestamp");
        };
        let numbers = cast(&given, &DataType::Int64)?;
        let mut found = Int64Builder::with_capacity(rows);
        for (row, number) in numbers.as_primitive::<Int64Type>().iter().enumerate() {
            found.append_option(match (number, zone(row)?) {
                (Some(number), Some(zone)) => {
                    let moved = match is_zoned {
                        Some(_) => shown_of(number, unit, zone),
                        None => instant_of(number, unit, zone),
                    };
                    Some(moved.ok_or_else(beyond)?)
                }
                _ => None,
            });
        }
        crate::args::as_given(&args, cast(&found.finish(), args.return_type())?)
    }
}

/// For each row in turn: its zone; none, where the name is NULL.
fn named_zones(names: &StringArray) -> impl FnMut(usize) -> Result<Option<Zone>> {
    let mut last: Option<(String, Zone)> = None;
    move |row| {
        if names.is_null(row) {
            return Ok(None);
        }
        let name = names.value(row);
        let known = last.as_ref().filter(|(known, _)| known == name).map(|(_, zone)| *zone);
        let zone = match known {
            Some(zone) => zone,
            None => named_zone(name)?,
        };
        last = Some((name.to_string(), zone));
        Ok(Some(zone))
    }
}

/// The zone of a name.
pub(super) fn named_zone(name: &str) -> Result<Zone> {
    Zone::named(name).ok_or_else(|| {
        exec_datafusion_err!("there is no time zone '{name}'; zones have names as 'Europe/Berlin'")
    })
}

// ---- parts --------------------------------------------------------------------------------------

#[derive(Debug, PartialEq, Eq, Hash)]
struct ZoneOffset {
    signature: Signature,
}

impl ScalarUDFImpl for ZoneOffset {
    fn name(&self) -> &str {
        "zone_offset"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Timestamp(..) | DataType::Null] => Ok(DataType::Int64),
            _ => plan_err!("the time zone is a part of a TIMESTAMPTZ"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [given] = args.args.as_slice() else { return exec_err!("a part of one value") };
        let given = given.to_array(rows)?;
        let found: Int64Array = match given.data_type() {
            DataType::Timestamp(unit, Some(name)) => {
                let (zone, parts) = (Zone::of_arrow(name).unwrap_or_default(), per_second(*unit));
                let numbers = cast(&given, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                numbers.unary(|number| zone.offset_s(number.div_euclid(parts)))
            }
            DataType::Null => Int64Array::new_null(rows),
            _ => (0..rows).map(|row| given.is_valid(row).then_some(0_i64)).collect(),
        };
        crate::args::as_given(&args, Arc::new(found))
    }
}

// ---- now ----------------------------------------------------------------------------------------

#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(zoned(TimeUnit::Microsecond))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("now() is a constant of the transaction")
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match info.query_execution_start_time() {
            Some(begun) => {
                let zone = Some("UTC".into());
                let now = ScalarValue::TimestampMicrosecond(Some(begun.timestamp_micros()), zone);
                ExprSimplifyResult::Simplified(Expr::Literal(now, None))
            }
            None => ExprSimplifyResult::Original(args),
        })
    }
}

// ---- seconds since 1970 -------------------------------------------------------------------------

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    signature: Signature,
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        "to_timestamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] if given.is_numeric() || given.is_string() || given.is_null() => {
                Ok(zoned(TimeUnit::Microsecond))
            }
            _ => plan_err!(
                "to_timestamp takes seconds since 1970; strptime(text, format) reads text"
            ),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else { return exec_err!("to_timestamp takes seconds") };
        let given = given.to_array(crate::args::rows_of(&args))?;
        let mut found = Int64Builder::with_capacity(given.len());
        if given.data_type().is_string() {
            let zone = Zone::of(&args.config_options);
            let texts = cast(&given, &DataType::Utf8)?;
            for text in texts.as_string::<i32>() {
                let read = text.map(|text| {
                    read_stamp(text, Kind::Moment)
                        .and_then(|stamp| stamp.instant(TimeUnit::Microsecond, zone))
                        .ok_or_else(|| exec_datafusion_err!("'{text}' is no valid TIMESTAMPTZ"))
                });
                found.append_option(read.transpose()?);
            }
        } else {
            let seconds = cast(&given, &DataType::Float64)?;
            for seconds in seconds.as_primitive::<Float64Type>() {
                found.append_option(seconds.map(micros).transpose()?);
            }
        }
        crate::args::as_given(&args, cast(&found.finish(), args.return_type())?)
    }
}

fn micros(seconds: f64) -> Result<i64> {
    let micros = (seconds * SECOND as f64).round();
    match micros.is_finite() && micros.abs() < i64::MAX as f64 {
        true => Ok(micros as i64),
        false => exec_err!("to_timestamp: {seconds} seconds are out of range"),
    }
}

// ---- sums with intervals ------------------------------------------------------------------------

/// A TIMESTAMPTZ and an interval after it, or before it. Months and days are those of the clock
/// that the type of the TIMESTAMPTZ names; what is smaller passes.
pub fn later(point: Expr, interval: Expr, is_before: bool) -> Expr {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|is_before| {
            let signature = Signature::any(2, Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Later { is_before, signature }))
        })
    });
    FUNCTIONS[usize::from(is_before)].call(vec![point, interval])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Later {
    is_before: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Later {
    fn name(&self) -> &str {
        if self.is_before { "before_by" } else { "after_by" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Timestamp(unit, zone), _] => Ok(DataType::Timestamp(*unit, zone.clone())),
            _ => plan_err!("{} takes a TIMESTAMPTZ and an interval", self.name()),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [points, intervals] = args.args.as_slice() else {
            return exec_err!("{} takes a TIMESTAMPTZ and an interval", self.name());
        };
        let points = points.to_array(rows)?;
        let DataType::Timestamp(unit, Some(name)) = points.data_type().clone() else {
            return exec_err!("{} takes a TIMESTAMPTZ", self.name());
        };
        let zone = Zone::of_arrow(&name).unwrap_or_default();
        let whole = DataType::Interval(IntervalUnit::MonthDayNano);
        let intervals: ArrayRef = cast(&intervals.to_array(rows)?, &whole)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let numbers = cast(&points, &DataType::Int64)?;
        let mut found = Int64Builder::with_capacity(rows);
        for (point, by) in numbers.as_primitive::<Int64Type>().iter().zip(intervals) {
            found.append_option(match (point, by) {
                (Some(point), Some(by)) => {
                    let by = if self.is_before { negated(by)? } else { by };
                    Some(moved(point, unit, by, zone).ok_or_else(beyond)?)
                }
                _ => None,
            });
        }
        crate::args::as_given(&args, cast(&found.finish(), args.return_type())?)
    }
}

fn negated(by: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let negated = || {
        Some(IntervalMonthDayNano::new(
            by.months.checked_neg()?,
            by.days.checked_neg()?,
            by.nanoseconds.checked_neg()?,
        ))
    };
    negated().ok_or_else(|| exec_datafusion_err!("an interval is out of range"))
}

/// Months first, then days, by the clock; then the rest. The rest comes first where one of them is
/// negative.
pub(super) fn moved(
    point: i64,
    unit: TimeUnit,
    by: IntervalMonthDayNano,
    zone: Zone,
) -> Option<i64> {
    let nanos = by.nanoseconds / (1_000_000_000 / per_second(unit));
    let IntervalMonthDayNano { months, days, .. } = by;
    let rest_first = months < 0 || days < 0 || nanos < 0;
    let point = if rest_first { point.checked_add(nanos)? } else { point };
    let point = moved_months(point, unit, months, zone)?;
    let point = moved_days(point, unit, days, zone)?;
    if rest_first { Some(point) } else { point.checked_add(nanos) }
}

/// So many days later by the clock.
fn moved_days(point: i64, unit: TimeUnit, days: i32, zone: Zone) -> Option<i64> {
    by_seconds(point, unit, days == 0, |micros| {
        let shown = zone.shows(micros)?.checked_add(i64::from(days).checked_mul(DAY)?)?;
        zone.shows_as_at(shown, micros)
    })
}

/// So many months later by the clock.
fn moved_months(point: i64, unit: TimeUnit, by: i32, zone: Zone) -> Option<i64> {
    by_seconds(point, unit, by == 0, |micros| {
        let months = Months::new(by.unsigned_abs());
        let shown = moment(zone.shows(micros)?).ok()?;
        let month = match by > 0 {
            true => shown.checked_add_months(months),
            false => shown.checked_sub_months(months),
        };
        zone.when_shows(month?.and_utc().timestamp_micros())
    })
}

/// Moves the whole seconds of a point in time, in microseconds; their fraction stays.
fn by_seconds(
    point: i64,
    unit: TimeUnit,
    stays: bool,
    moved: impl Fn(i64) -> Option<i64>,
) -> Option<i64> {
    if stays {
        return Some(point);
    }
    let per_second = per_second(unit);
    let (seconds, fraction) = (point.div_euclid(per_second), point.rem_euclid(per_second));
    let micros = moved(seconds.checked_mul(SECOND)?)?;
    (micros / SECOND).checked_mul(per_second)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb_common::time::texts::zoned_text;

    fn after(text: &str, months: i32, days: i32, hours: i64) -> String {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let unit = TimeUnit::Microsecond;
        let point = read_stamp(text, Kind::Moment).unwrap().instant(unit, zone).unwrap();
        let by = IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
        let mut text = Vec::new();
        zoned_text(moved(point, unit, by, zone).unwrap(), SECOND, zone, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn months_and_days_are_those_of_the_clock() {
        for (text, months, days, hours, found) in [
            ("2024-03-30 12:00", 0, 1, 0, "2024-03-31 12:00:00+02"),
            ("2024-03-30 12:00", 0, 0, 24, "2024-03-31 13:00:00+02"),
            ("2024-03-30 02:30", 0, 1, 0, "2024-03-31 03:30:00+02"),
            ("2024-10-26 02:30", 0, 1, 0, "2024-10-27 02:30:00+02"),
            ("2024-10-28 02:30", 0, -1, 0, "2024-10-27 02:30:00+01"),
            ("2024-09-27 02:30", 1, 0, 0, "2024-10-27 02:30:00+01"),
            ("2024-03-30 23:30", 0, 1, 3, "2024-04-01 02:30:00+02"),
            ("2024-02-29 02:30", 1, 2, 0, "2024-03-31 03:30:00+02"),
            ("2024-01-31 12:00", 1, 0, 0, "2024-02-29 12:00:00+01"),
            ("2024-04-01 02:30", 0, -1, 3, "2024-03-31 05:30:00+02"),
            ("2020-12-12 01:02", -1, 400, 0, "2021-12-17 01:02:00+01"),
            ("2020-03-31 01:02", -1, -1, 2, "2020-02-28 03:02:00+01"),
        ] {
            assert_eq!(after(text, months, days, hours), found, "{text}");
        }
    }

    #[test]
    fn seconds_since_1970() {
        assert_eq!(micros(1.5).unwrap(), 1_500_000);
        assert_eq!(micros(-0.0000006).unwrap(), -1);
        assert!(micros(f64::NAN).is_err() && micros(1e300).is_err());
    }
}
