//! The function `interval_length(x)`: intervals as numbers that compare as they do.
//!
//! The engine compares the months of intervals, then their days, then the rest. In SQL a day is 24
//! hours long and a month 30 days where intervals are compared, so that `1 day` equals `24 hours`.
//! The rest of what is known of an interval still counts: a group shows one of its intervals.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, Expr, ScalarUDF};

use crate::keys::same_bits::{call, of_key};

const DAYS_PER_MONTH: i128 = 30;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Whether intervals of this type have months, days and a rest.
pub fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano))
}

/// `interval_length(expr)`.
pub fn interval_length(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let returns = |_: &DataType| DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
        of_key("interval_length", returns, lengths)
    });
    call(&FUNCTION, expr)
}

/// In nanoseconds.
pub(crate) fn lengths(array: &ArrayRef) -> Result<ArrayRef> {
    let lengths: Decimal128Array = array.as_primitive::<IntervalMonthDayNanoType>().unary(length);
    Ok(Arc::new(lengths.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?))
}

/// In nanoseconds.
fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * DAYS_PER_MONTH + i128::from(interval.days);
    days * NANOS_PER_DAY + i128::from(interval.nanoseconds)
}

/// The shortest or the longest of intervals.
#[derive(Debug)]
pub(crate) struct ExtremeLength {
    greatest: bool,
    found: Option<IntervalMonthDayNano>,
}

impl ExtremeLength {
    pub(crate) fn new(greatest: bool) -> Self {
        Self { greatest, found: None }
    }
}

impl Accumulator for ExtremeLength {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let wanted = if self.greatest { Ordering::Greater } else { Ordering::Less };
        let intervals = values.iter().flat_map(|v| v.as_primitive::<IntervalMonthDayNanoType>());
        for interval in intervals.flatten() {
            let better = |found| length(interval).cmp(&length(found)) == wanted;
            if self.found.is_none_or(better) {
                self.found = Some(interval);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.found))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.evaluate().map(|found| vec![found])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_and_days_have_a_length() {
        let of = |months, days, nanos| length(IntervalMonthDayNano::new(months, days, nanos));
        assert_eq!(of(0, 1, 0), of(0, 0, 86_400_000_000_000));
        assert_eq!(of(1, 0, 0), of(0, 29, 86_400_000_000_000));
        assert!(of(1, 0, 0) < of(0, 40, 0) && of(0, -1, 0) < of(0, 0, 0));
        assert!(of(i32::MAX, i32::MAX, i64::MAX) < 10_i128.pow(38));
    }
}
