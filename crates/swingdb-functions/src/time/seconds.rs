//! The seconds of an interval as `epoch` gives them: those of years of 365.25 days, of months of 30
//! days beyond whole years, and of all the rest.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const DAY: i64 = 86_400;
const MONTH: i64 = 30 * DAY;
/// 365.25 days.
const YEAR: i64 = 365 * DAY + DAY / 4;

/// The function of one interval.
pub fn interval_seconds() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let signature = Signature::exact(vec![interval], Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Seconds { signature }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Seconds {
    signature: Signature,
}

impl ScalarUDFImpl for Seconds {
    fn name(&self) -> &str {
        "interval_seconds"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [interval] = args.args.as_slice() else {
            return plan_err!("{} takes an interval", self.name());
        };
        let intervals = interval.to_array(crate::args::rows_of(&args))?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let found: Float64Array = intervals.iter().map(|interval| interval.map(seconds)).collect();
        crate::args::as_given(&args, Arc::new(found) as ArrayRef)
    }
}

/// Fits for all intervals: months and days have 32 bits.
fn seconds(interval: IntervalMonthDayNano) -> f64 {
    let (months, days) = (i64::from(interval.months), i64::from(interval.days));
    let whole = months / 12 * YEAR + months % 12 * MONTH + days * DAY;
    whole as f64 + interval.nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_longer_than_their_months() {
        let of = |months, days, nanos| seconds(IntervalMonthDayNano::new(months, days, nanos));
        assert_eq!(of(12, 0, 0), 31_557_600.0);
        assert_eq!(of(11, 0, 0), 28_512_000.0);
        assert_eq!(of(14, 3, 7_200_500_000_000), 37_008_000.5);
        assert_eq!(of(-14, 0, 0), -36_741_600.0);
        assert_eq!(of(i32::MIN, i32::MIN, i64::MIN).to_string(), "-5833004307767237");
    }
}
