//! `age(a, b)`: how much later `a` is, in years, months and days of the calendar.

use std::sync::Arc;

use arrow::array::{AsArray, IntervalMonthDayNanoBuilder};
use arrow::compute::cast;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use chrono::{Datelike, NaiveDateTime, NaiveTime};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::points::moment;

/// The function of two points in time.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Age { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Age {
    signature: Signature,
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fits = |given: &DataType| {
            let date = matches!(given, DataType::Date32 | DataType::Date64);
            date || given.is_null() || matches!(given, DataType::Timestamp(..))
        };
        if !types.iter().all(fits) {
            return plan_err!("{} takes two timestamps or dates", self.name());
        }
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [later, earlier] = args.args.as_slice() else {
            return exec_err!("{} takes two timestamps", self.name());
        };
        let (later, earlier) = (moments(later, rows)?, moments(earlier, rows)?);
        let pairs = later.iter().zip(&earlier).map(|(later, earlier)| later.zip(*earlier));
        let mut made = IntervalMonthDayNanoBuilder::with_capacity(rows);
        pairs.for_each(|pair| made.append_option(pair.map(|(a, b)| between(a, b))));
        crate::args::as_given(&args, Arc::new(made.finish()))
    }
}

fn moments(values: &ColumnarValue, rows: usize) -> Result<Vec<Option<NaiveDateTime>>> {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let values = cast(&values.to_array(rows)?, &micros)?;
    let values = values.as_primitive::<TimestampMicrosecondType>();
    values.iter().map(|micros| micros.map(moment).transpose()).collect()
}

/// The whole months between two times, as from the last day of a month to that of another, although
/// one is shorter.
pub(super) fn whole_months(later: NaiveDateTime, earlier: NaiveDateTime) -> i64 {
    let (late, early, sign) = match later < earlier {
        true => (earlier, later, -1),
        false => (later, earlier, 1),
    };
    let last = late.day();
    let at_end = last == u32::from(late.num_days_in_month());
    let beyond = at_end && early.day() > last;
    let early = early.with_day(last).filter(|_| beyond).unwrap_or(early);
    sign * i64::from(between(late, early).months)
}

/// Whole months, then whole days, then the rest of a day; all negative when `later` is earlier.
fn between(later: NaiveDateTime, earlier: NaiveDateTime) -> IntervalMonthDayNano {
    const DAY: i64 = 86_400_000_000_000;
    let (late, early, sign) = match later < earlier {
        true => (earlier, later, -1),
        false => (later, earlier, 1),
    };
    let months_of = |time: NaiveDateTime| time.year() * 12 + time.month0() as i32;
    let (mut months, mut days) =
        (months_of(late) - months_of(early), late.day() as i32 - early.day() as i32);
    let of_day =
        |time: NaiveDateTime| (time.time() - NaiveTime::MIN).num_nanoseconds().unwrap_or(0);
    let mut nanos = of_day(late) - of_day(early);
    if nanos < 0 {
        nanos += DAY;
        days -= 1;
    }
    if days < 0 {
        // Days are borrowed from the month of the earlier time.
        days += i32::from(early.num_days_in_month());
        months -= 1;
    }
    IntervalMonthDayNano::new(sign * months, sign * days, i64::from(sign) * nanos)
}
