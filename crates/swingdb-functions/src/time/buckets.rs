//! `time_bucket(INTERVAL '15 minutes', x)`: when the bucket of so long a time begins in which `x`
//! lies.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{Months, NaiveDate};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::clock::Clock;
use super::points::{
    DAY, beyond, by_their_clock, exact_cast, is_moment, moment, months, whole_micros,
};
use super::truncation::{MICROS, in_order};
use super::zones::named_zone;

pub(crate) fn function() -> ScalarUDF {
    let counts = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
    let signature = Signature::one_of(counts, Volatility::Immutable);
    ScalarUDF::new_from_impl(TimeBucket { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeBucket {
    signature: Signature,
}

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (width, point, shift) = match types {
            [width, point] => (width, point, &DataType::Null),
            [width, point, shift] => (width, point, shift),
            _ => return plan_err!("{USAGE}"),
        };
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        if !(is_text(width) || matches!(width, DataType::Interval(_) | DataType::Duration(_))) {
            return plan_err!("{USAGE}; {width} is no length of time");
        }
        if !(is_text(point) || is_moment(point)) {
            return plan_err!("{USAGE}; {point} is no point in time");
        }
        let is_shift = matches!(shift, DataType::Interval(_));
        if !(is_text(shift) || is_moment(shift) || is_shift) {
            return plan_err!("{USAGE}; {shift} is neither an origin nor an offset");
        }
        Ok(match (point, shift) {
            (DataType::Timestamp(_, zone), _) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (DataType::Date32, DataType::Timestamp(..)) => MICROS,
            (DataType::Date32, _) => DataType::Date32,
            _ => MICROS,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match input {
            [width, of] if width.sort_properties == SortProperties::Singleton => in_order(of),
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [width, point, shift @ ..] = args.args.as_slice() else { return exec_err!("{USAGE}") };
        let widths = intervals(width, rows)?;
        let points = point.to_array(rows)?;
        let clock = Clock::of(points.data_type())?;
        let (clock, shift) = match shift {
            // Behind a point in time, a text is the name of a zone.
            [zone] if zone.data_type().is_string() && clock.is_zoned() => {
                return self.in_zones(&args, &widths, &points, zone);
            }
            shift => (clock, shift),
        };
        let shifts = shift.first().map(|shift| Shifts::of(shift, &points, rows)).transpose()?;
        let points = whole_micros(&points)?;
        let mut found = Int64Builder::with_capacity(rows);
        let mut last = None;
        for row in 0..rows {
            let shift = match &shifts {
                None => Some(Shift::Standard),
                Some(shifts) => shifts.at(row),
            };
            let Some(shift) = shift.filter(|_| widths.is_valid(row) && points.is_valid(row)) else {
                found.append_null();
                continue;
            };
            let given = widths.value(row);
            let width = match last {
                Some((known, width)) if known == given => width,
                _ => Width::of(given)?,
            };
            last = Some((given, width));
            found.append_value(width.begins(clock, points.value(row), shift)?);
        }
        let found = cast(&found.finish(), &with_zone_of(args.return_type()))?;
        crate::args::as_given(&args, cast(&found, args.return_type())?)
    }
}

impl TimeBucket {
    /// By the clocks of zones that are named.
    fn in_zones(
        &self,
        args: &ScalarFunctionArgs,
        widths: &IntervalMonthDayNanoArray,
        points: &ArrayRef,
        zones: &ColumnarValue,
    ) -> Result<ColumnarValue> {
        let rows = points.len();
        let names = cast(&zones.to_array(rows)?, &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        let points = whole_micros(points)?;
        let mut last: Option<(&str, Clock)> = None;
        let mut found = Int64Builder::with_capacity(rows);
        for row in 0..rows {
            if names.is_null(row) || widths.is_null(row) || points.is_null(row) {
                found.append_null();
                continue;
            }
            let name = names.value(row);
            let clock = match last {
                Some((known, clock)) if known == name => clock,
                _ => Clock::In(named_zone(name)?),
            };
            last = Some((name, clock));
            let width = Width::of(widths.value(row))?;
            let shift = match width {
                Width::Micros(_) => Shift::Origin(clock.first_shows(MONDAY)?),
                Width::Days(_) | Width::Months(_) => Shift::Standard,
            };
            found.append_value(width.begins(clock, points.value(row), shift)?);
        }
        crate::args::as_given(args, cast(&found.finish(), args.return_type())?)
    }
}

const USAGE: &str = "time_bucket takes the length of the buckets, a date or timestamp, and maybe \
                     when a bucket begins, how much later than usual, or of a TIMESTAMPTZ the \
                     name of a zone";

/// Whole numbers of microseconds are cast to this first.
fn with_zone_of(returned: &DataType) -> DataType {
    match returned {
        DataType::Timestamp(..) => returned.clone(),
        _ => MICROS,
    }
}

fn intervals(given: &ColumnarValue, rows: usize) -> Result<IntervalMonthDayNanoArray> {
    let given = exact_cast(&given.to_array(rows)?, &INTERVAL)?;
    Ok(given.as_primitive::<IntervalMonthDayNanoType>().clone())
}

// ---- when buckets begin -------------------------------------------------------------------------

/// The third argument.
enum Shifts {
    Origins(Int64Array),
    Offsets(IntervalMonthDayNanoArray),
}

#[derive(Clone, Copy)]
enum Shift {
    /// With the first Monday of 2000; buckets of months with that year.
    Standard,
    /// At a time.
    Origin(i64),
    /// So much later than they would.
    Offset(IntervalMonthDayNano),
}

impl Shifts {
    fn of(given: &ColumnarValue, points: &ArrayRef, rows: usize) -> Result<Self> {
        if matches!(given.data_type(), DataType::Interval(_)) {
            return Ok(Self::Offsets(intervals(given, rows)?));
        }
        let mut origins: ArrayRef = given.to_array(rows)?;
        let is_zoned =
            |values: &ArrayRef| matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
        if is_zoned(points) && !is_zoned(&origins) {
            origins = exact_cast(&origins, points.data_type())?;
        } else if !is_zoned(points) {
            origins = by_their_clock(&origins)?.unwrap_or(origins);
        }
        Ok(Self::Origins(whole_micros(&origins)?))
    }

    fn at(&self, row: usize) -> Option<Shift> {
        match self {
            Self::Origins(origins) => {
                origins.is_valid(row).then(|| Shift::Origin(origins.value(row)))
            }
            Self::Offsets(offsets) => {
                offsets.is_valid(row).then(|| Shift::Offset(offsets.value(row)))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Width {
    /// As they pass.
    Micros(i64),
    /// By the clock, in microseconds.
    Days(i64),
    Months(i64),
}

/// The first Monday of 2000, and the months before that year.
const MONDAY: i64 = 10_959 * DAY;
const YEARS: i64 = 12 * 2000;

impl Width {
    fn of(interval: IntervalMonthDayNano) -> Result<Self> {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        let micros = i64::from(days).checked_mul(DAY);
        let micros = micros.and_then(|micros| micros.checked_add(nanoseconds / 1_000));
        match (months, days, micros) {
            (0, 0, Some(micros)) if micros > 0 => Ok(Self::Micros(micros)),
            (0, _, Some(micros)) if micros > 0 => Ok(Self::Days(micros)),
            (1.., 0, Some(0)) => Ok(Self::Months(i64::from(months))),
            (1.., ..) => exec_err!("time_bucket: buckets of months have neither days nor hours"),
            _ => exec_err!("time_bucket: buckets are at least a microsecond long"),
        }
    }

    /// When the bucket begins.
    fn begins(self, clock: Clock, point: i64, shift: Shift) -> Result<i64> {
        let shown = |micros| match self {
            Self::Micros(_) => Ok(micros),
            Self::Days(_) | Self::Months(_) => clock.shows(micros),
        };
        let point = shown(point)?;
        let begins = match shift {
            Shift::Standard => self.plainly(point, None)?,
            Shift::Origin(origin) => self.plainly(point, Some(shown(origin)?))?,
            Shift::Offset(offset) => {
                let back = self.plainly(moved(point, offset, false)?, None)?;
                moved(back, offset, true)?
            }
        };
        match self {
            Self::Micros(_) => Ok(begins),
            Self::Days(_) | Self::Months(_) => clock.first_shows(begins),
        }
    }

    /// In the time of one clock.
    fn plainly(self, point: i64, origin: Option<i64>) -> Result<i64> {
        match self {
            Self::Micros(width) | Self::Days(width) => {
                let origin = origin.unwrap_or(MONDAY).rem_euclid(width);
                let beyond_origin = point.checked_sub(origin).ok_or_else(beyond)?;
                point.checked_sub(beyond_origin.rem_euclid(width)).ok_or_else(beyond)
            }
            Self::Months(width) => {
                let origin = origin.map(|origin| moment(origin).map(months)).transpose()?;
                let point = months(moment(point)?);
                let month = point - (point - origin.unwrap_or(YEARS)).rem_euclid(width);
                let year = i32::try_from(month.div_euclid(12)).map_err(|_| beyond())?;
                let first = NaiveDate::from_ymd_opt(year, month.rem_euclid(12) as u32 + 1, 1);
                Ok(i64::from(first.ok_or_else(beyond)?.to_epoch_days()) * DAY)
            }
        }
    }
}

/// A point in time, an interval later or earlier.
fn moved(point: i64, by: IntervalMonthDayNano, is_later: bool) -> Result<i64> {
    let months = Months::new(by.months.unsigned_abs());
    let from = moment(point)?;
    let month = match (by.months >= 0) == is_later {
        true => from.checked_add_months(months),
        false => from.checked_sub_months(months),
    };
    let month = month.ok_or_else(beyond)?.and_utc().timestamp_micros();
    let rest = i64::from(by.days).checked_mul(DAY);
    let rest = rest.and_then(|days| days.checked_add(by.nanoseconds / 1_000));
    let moved = match is_later {
        true => rest.and_then(|rest| month.checked_add(rest)),
        false => rest.and_then(|rest| month.checked_sub(rest)),
    };
    moved.ok_or_else(beyond)
}
