//! `sum` and `avg` of intervals: months, days and the rest are added up apart, in 128 bits. The
//! engine adds them up without a look at overflow.
//!
//! What is left of months when they are divided are days, 30 for a month, and what is left of days
//! are hours, as where an interval is divided by a number.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, UInt64Array};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, IntervalMonthDayNano,
    IntervalMonthDayNanoType, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::Accumulator;

use super::quotients::{TOTAL, whole_quotient};
use crate::keys::intervals::{DAYS_PER_MONTH, NANOS_PER_DAY};

const NANOS_PER_MICRO: i128 = 1_000;

/// The sum, or the average, of intervals.
pub(super) fn interval_totals(average: bool, distinct: bool) -> Result<Box<dyn Accumulator>> {
    match distinct {
        true => plan_err!("sums of DISTINCT intervals; write them over a query with DISTINCT"),
        false => Ok(Box::new(IntervalTotals { average, ..IntervalTotals::default() })),
    }
}

/// The states of both, named after the call.
pub(super) fn interval_states(call: &str) -> Vec<FieldRef> {
    let field = |part, of| Arc::new(Field::new(format!("{call}[{part}]"), of, true));
    vec![
        field("months", TOTAL),
        field("days", TOTAL),
        field("nanoseconds", TOTAL),
        field("count", DataType::UInt64),
    ]
}

/// Also of rows that come and go. 2^64 rows of 64 bits fit.
#[derive(Debug, Default)]
struct IntervalTotals {
    average: bool,
    months: i128,
    days: i128,
    nanos: i128,
    count: u64,
}

impl IntervalTotals {
    /// The totals and the count of some values.
    fn of(values: &[ArrayRef]) -> Result<Self> {
        let [values] = values else { return internal_err!("a total is one of one column") };
        let values = values.as_primitive::<IntervalMonthDayNanoType>();
        let mut all = Self::default();
        for value in values.iter().flatten() {
            all.months += i128::from(value.months);
            all.days += i128::from(value.days);
            all.nanos += i128::from(value.nanoseconds);
            all.count += 1;
        }
        Ok(all)
    }

    /// Months, days and nanoseconds of the average.
    fn quotients(&self) -> (i128, i128, i128) {
        let count = i128::from(self.count);
        let days = self.days + self.months % count * DAYS_PER_MONTH;
        let nanos = self.nanos + days % count * NANOS_PER_DAY;
        let nanos = match nanos % NANOS_PER_MICRO {
            0 => whole_quotient(nanos / NANOS_PER_MICRO, self.count) * NANOS_PER_MICRO,
            _ => whole_quotient(nanos, self.count),
        };
        (self.months / count, days / count, nanos)
    }
}

impl Accumulator for IntervalTotals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let more = Self::of(values)?;
        self.months += more.months;
        self.days += more.days;
        self.nanos += more.nanos;
        self.count += more.count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let less = Self::of(values)?;
        self.months -= less.months;
        self.days -= less.days;
        self.nanos -= less.nanos;
        self.count -= less.count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [months, days, nanos, counts] = states else {
            return internal_err!("intervals have three totals and a count");
        };
        let sum = |totals: &ArrayRef| -> i128 {
            let totals: &Decimal128Array = totals.as_primitive::<Decimal128Type>();
            totals.values().iter().sum()
        };
        let counts: &UInt64Array = counts.as_primitive::<UInt64Type>();
        self.months += sum(months);
        self.days += sum(days);
        self.nanos += sum(nanos);
        self.count += counts.values().iter().sum::<u64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = |total| ScalarValue::Decimal128(Some(total), DECIMAL128_MAX_PRECISION, 0);
        Ok(vec![
            total(self.months),
            total(self.days),
            total(self.nanos),
            ScalarValue::UInt64(Some(self.count)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let (months, days, nanos) = match self.average {
            true => self.quotients(),
            false => (self.months, self.days, self.nanos),
        };
        let (months, days) = (i32::try_from(months), i32::try_from(days));
        let (Ok(months), Ok(days), Ok(nanos)) = (months, days, i64::try_from(nanos)) else {
            return exec_err!("the sum of the intervals does not fit INTERVAL");
        };
        let all = IntervalMonthDayNano::new(months, days, nanos);
        Ok(ScalarValue::IntervalMonthDayNano(Some(all)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::IntervalMonthDayNanoArray;

    use super::*;

    fn of(average: bool, values: &[(i32, i32, i64)]) -> Result<ScalarValue> {
        let values = values.iter().map(|(m, d, n)| IntervalMonthDayNano::new(*m, *d, *n));
        let values: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from_iter_values(values));
        let mut totals = interval_totals(average, false)?;
        totals.update_batch(&[values])?;
        totals.evaluate()
    }

    #[test]
    fn what_is_left_goes_to_smaller_units() {
        let hour = 3_600_000_000_000;
        let expected = IntervalMonthDayNano::new(0, 20, 8 * hour + hour / 3);
        let found = of(true, &[(1, 0, 0), (0, 31, 0), (0, 0, hour)]).unwrap();
        assert_eq!(found, ScalarValue::IntervalMonthDayNano(Some(expected)));
    }

    #[test]
    fn sums_that_do_not_fit_are_errors() {
        assert!(of(false, &[(i32::MAX, 0, 0), (1, 0, 0)]).is_err());
        let found = of(false, &[(i32::MAX, 0, 0), (1, 0, 0), (-1, 0, 0)]).unwrap();
        let expected = IntervalMonthDayNano::new(i32::MAX, 0, 0);
        assert_eq!(found, ScalarValue::IntervalMonthDayNano(Some(expected)));
    }
}
