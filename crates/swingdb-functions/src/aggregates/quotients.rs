//! Averages from exact totals and counts, and both as states.

use std::cmp::Ordering;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, UInt64Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, UInt64Type};
use datafusion::common::{Result, internal_err};

/// The type of totals as states.
pub(super) const TOTAL: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// A total divided, each rounded once.
pub(super) fn quotient(total: i128, count: u64) -> f64 {
    total as f64 / count as f64
}

/// A total divided, to the nearest whole number; exact halves to the even one.
pub(super) fn whole_quotient(total: i128, count: u64) -> i128 {
    let count = i128::from(count);
    let (down, rest) = (total.div_euclid(count), total.rem_euclid(count));
    match (2 * rest).cmp(&count) {
        Ordering::Less => down,
        Ordering::Equal => down + down.rem_euclid(2),
        Ordering::Greater => down + 1,
    }
}

/// Totals and counts of parts; neither is ever NULL.
pub(super) fn parts(states: &[ArrayRef]) -> Result<(&Decimal128Array, &UInt64Array)> {
    match states {
        [totals, counts] => {
            Ok((totals.as_primitive::<Decimal128Type>(), counts.as_primitive::<UInt64Type>()))
        }
        _ => internal_err!("an average has a total and a count"),
    }
}

/// The averages of groups, NULL where nothing was counted.
pub(super) fn averages(totals: &[i128], counts: &[u64]) -> Float64Array {
    let average = |(total, count): (&i128, &u64)| (*count > 0).then(|| quotient(*total, *count));
    totals.iter().zip(counts).map(average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_quotients_are_the_nearest() {
        for (total, count, expected) in
            [(7, 2, 4), (5, 2, 2), (-5, 2, -2), (-7, 2, -4), (7, 3, 2), (8, 3, 3), (-8, 3, -3)]
        {
            assert_eq!(whole_quotient(total, count), expected, "{total} / {count}");
        }
    }
}
