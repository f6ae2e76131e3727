//! `age(a, b)`: how much later `a` is, in years, months and days of the calendar.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoBuilder};
use arrow::compute::cast;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function.
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
            return plan_err!("age takes two timestamps or dates");
        }
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let whole = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if whole { 1 } else { args.number_rows };
        let moments = DataType::Timestamp(TimeUnit::Microsecond, None);
        let column = |arg: &ColumnarValue| -> Result<ArrayRef> {
            Ok(cast(&cast(&arg.to_array(rows)?, &moments)?, &moments)?)
        };
        let [later, earlier] = args.args.as_slice() else {
            return exec_err!("age takes two timestamps");
        };
        let (later, earlier) = (column(later)?, column(earlier)?);
        let later = later.as_primitive::<TimestampMicrosecondType>();
        let earlier = earlier.as_primitive::<TimestampMicrosecondType>();
        let mut made = IntervalMonthDayNanoBuilder::with_capacity(rows);
        for pair in later.iter().zip(earlier.iter()) {
            let time = |micros: i64| DateTime::from_timestamp_micros(micros).map(|t| t.naive_utc());
            match pair {
                (Some(later), Some(earlier)) => match (time(later), time(earlier)) {
                    (Some(later), Some(earlier)) => made.append_value(between(later, earlier)),
                    _ => return exec_err!("age of a timestamp beyond the calendar"),
                },
                _ => made.append_null(),
            }
        }
        let made: ArrayRef = Arc::new(made.finish());
        Ok(match whole {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
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
