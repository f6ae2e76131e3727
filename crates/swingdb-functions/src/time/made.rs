//! Times made of their parts: `make_timestamp(2024, 2, 29, 12, 30, 5.25)`, `make_time(12, 30,
//! 5.25)`. Parts that no calendar or clock has are an error, also when the fraction of the second
//! is rounded to the midnight after a time of day.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use chrono::NaiveDate;
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::points::{DAY, SECOND};

/// Names of the functions, and what users call them.
const FUNCTIONS: [(&str, &str, usize); 2] =
    [("timestamp_of_parts", "make_timestamp", 6), ("time_of_parts", "make_time", 3)];

/// Timestamps of whole numbers, since 1970.
const COUNTED: [(&str, TimeUnit); 2] =
    [("timestamp_of_micros", TimeUnit::Microsecond), ("timestamp_of_nanos", TimeUnit::Nanosecond)];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of_parts = FUNCTIONS.iter().map(|(name, shown, parts)| {
        let signature = Signature::any(*parts, Volatility::Immutable);
        ScalarUDF::new_from_impl(OfParts { name, shown, parts: *parts, signature })
    });
    of_parts.chain(COUNTED.iter().map(|(name, unit)| {
        let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
        ScalarUDF::new_from_impl(OfCount { name, unit: *unit, signature })
    }))
}

/// The point in time that lies so many units behind the beginning of 1970.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfCount {
    name: &'static str,
    unit: TimeUnit,
    signature: Signature,
}

impl ScalarUDFImpl for OfCount {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(self.unit, None))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [count] = args.args.as_slice() else {
            return plan_err!("{} takes a whole number", self.name);
        };
        let count = count.to_array(crate::args::rows_of(&args))?;
        crate::args::as_given(&args, cast(&count, args.return_type())?)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfParts {
    name: &'static str,
    shown: &'static str,
    parts: usize,
    signature: Signature,
}

impl OfParts {
    fn has_date(&self) -> bool {
        self.parts == 6
    }
}

impl ScalarUDFImpl for OfParts {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some((seconds, whole)) = types.split_last() else {
            return plan_err!("{} takes numbers", self.shown);
        };
        let is_whole = |given: &DataType| given.is_integer() || given.is_null();
        if !whole.iter().all(is_whole) || !(seconds.is_numeric() || seconds.is_null()) {
            return plan_err!("{} takes whole numbers, and seconds", self.shown);
        }
        Ok(match self.has_date() {
            true => DataType::Timestamp(TimeUnit::Microsecond, None),
            false => DataType::Time64(TimeUnit::Microsecond),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let Some((seconds, whole)) = args.args.split_last() else {
            return plan_err!("{} takes numbers", self.shown);
        };
        let whole = whole.iter().map(|part| Ok(cast(&part.to_array(rows)?, &DataType::Int64)?));
        let whole = whole.collect::<Result<Vec<ArrayRef>>>()?;
        let whole: Vec<&Int64Array> =
            whole.iter().map(|part| part.as_primitive::<Int64Type>()).collect();
        let seconds = cast(&seconds.to_array(rows)?, &DataType::Float64)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        let mut found = Int64Builder::with_capacity(rows);
        for row in 0..rows {
            if seconds.is_null(row) || whole.iter().any(|part| part.is_null(row)) {
                found.append_null();
                continue;
            }
            let parts: Vec<i64> = whole.iter().map(|part| part.value(row)).collect();
            let micros = micros_of(&parts, seconds.value(row));
            found.append_value(micros.ok_or_else(|| {
                let parts = parts.iter().map(|part| format!("{part}, ")).collect::<String>();
                let seconds = seconds.value(row);
                exec_datafusion_err!("{}({parts}{seconds}): there is no such time", self.shown)
            })?);
        }
        let found: ArrayRef = Arc::new(found.finish());
        crate::args::as_given(&args, cast(&found, args.return_type())?)
    }
}

/// Microseconds since 1970 or midnight of a year, month and day, which may be missing, an hour and
/// a minute, and seconds.
fn micros_of(parts: &[i64], seconds: f64) -> Option<i64> {
    let (date, [hour, minute]) = parts.split_last_chunk()?;
    let is_clock = (0..24).contains(hour) && (0..60).contains(minute);
    if !is_clock || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    let clock = (hour * 3_600 + minute * 60) * SECOND + (seconds * SECOND as f64).round() as i64;
    let [year, month, day] = date else { return (clock < DAY).then_some(clock) };
    let (month, day) = (u32::try_from(*month).ok()?, u32::try_from(*day).ok()?);
    let date = NaiveDate::from_ymd_opt(i32::try_from(*year).ok()?, month, day)?;
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    days.checked_mul(DAY)?.checked_add(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_no_clock_has() {
        assert_eq!(micros_of(&[1970, 1, 2, 0, 0], 1.5), Some(DAY + 1_500_000));
        assert_eq!(micros_of(&[1969, 12, 31, 23, 59], 59.0), Some(-1_000_000));
        assert_eq!(micros_of(&[23, 59], 59.999_999), Some(DAY - 1));
        for (parts, seconds) in [
            (&[2, 2, 2, -1, 2][..], 0.0),
            (&[2, 2, 2, 2, 60][..], 0.0),
            (&[2, 2, 2, 2, 2][..], -0.5),
            (&[2, 2, 2, 2, 2][..], 60.0),
            (&[2, 2, 2, 2, 2][..], f64::NAN),
            (&[2023, 2, 29, 0, 0][..], 0.0),
            (&[24, 0][..], 0.0),
            (&[23, 59][..], 59.999_999_9),
        ] {
            assert_eq!(micros_of(parts, seconds), None, "{parts:?} {seconds}");
        }
    }
}
