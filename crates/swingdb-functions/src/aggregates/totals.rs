//! Exact totals of whole numbers, one a group ([`Totals`]), and a total as a result ([`finish`]).

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::EmitTo;
use swingdb_common::types::sql_names::sql_name;

/// Totals of 64 bits while all of them fit, and of 128 bits from the first that does not. Most
/// queries never need the wide ones, and tables of many groups take half the memory.
#[derive(Debug)]
pub(super) enum Totals {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Default for Totals {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Totals {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Narrow(totals) => totals.len(),
            Self::Wide(totals) => totals.len(),
        }
    }

    /// New groups have a total of 0.
    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            Self::Narrow(totals) => totals.resize(groups, 0),
            Self::Wide(totals) => totals.resize(groups, 0),
        }
    }

    /// Adds values to the totals of their groups. Returns false if a total did not fit 128 bits; it
    /// is not the right one then.
    #[must_use]
    pub(super) fn add<T: Copy + Into<i128>>(
        &mut self,
        mut values: impl Iterator<Item = (usize, T)>,
    ) -> bool {
        match self {
            Self::Narrow(totals) => {
                let does_not_fit = values.find(|(group, value)| {
                    let total = &mut totals[*group];
                    let value = i64::try_from((*value).into()).ok();
                    let sum = value.and_then(|value| total.checked_add(value));
                    sum.map(|sum| *total = sum).is_none()
                });
                let Some(value) = does_not_fit else { return true };
                *self = Self::Wide(std::mem::take(self).into_wide());
                self.add(std::iter::once(value)) & self.add(values)
            }
            Self::Wide(totals) => values.fold(true, |fits, (group, value)| {
                let (total, overflowed) = totals[group].overflowing_add(value.into());
                totals[group] = total;
                fits & !overflowed
            }),
        }
    }

    /// Takes the totals of the groups that are emitted out.
    pub(super) fn take(&mut self, emit_to: EmitTo) -> Self {
        match self {
            Self::Narrow(totals) => Self::Narrow(emit_to.take_needed(totals)),
            Self::Wide(totals) => Self::Wide(emit_to.take_needed(totals)),
        }
    }

    pub(super) fn into_wide(self) -> Vec<i128> {
        match self {
            Self::Narrow(totals) => totals.into_iter().map(i128::from).collect(),
            Self::Wide(totals) => totals,
        }
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Narrow(totals) => totals.capacity() * size_of::<i64>(),
            Self::Wide(totals) => totals.capacity() * size_of::<i128>(),
        }
    }
}

/// What no total can be added up to.
pub(super) fn overflow<T>(total: &DataType) -> Result<T> {
    match total {
        DataType::Decimal128(..) => exec_err!("the sum does not fit a DECIMAL of 38 digits"),
        _ => exec_err!(
            "the sum does not fit {}; sum(CAST(... AS DECIMAL(38, 0))) has room",
            sql_name(total)
        ),
    }
}

/// A total in the type of the result.
pub(super) fn finish(total: i128, data_type: &DataType) -> Result<ScalarValue> {
    const DECIMAL_LIMIT: u128 = 10u128.pow(DECIMAL128_MAX_PRECISION as u32);
    match data_type {
        DataType::Int64 => match i64::try_from(total) {
            Ok(total) => Ok(ScalarValue::Int64(Some(total))),
            Err(_) => overflow(data_type),
        },
        DataType::Duration(_) => match i64::try_from(total) {
            Ok(total) => ScalarValue::Int64(Some(total)).cast_to(data_type),
            Err(_) => exec_err!("the sum of the durations does not fit INTERVAL"),
        },
        DataType::UInt64 => match u64::try_from(total) {
            Ok(total) => Ok(ScalarValue::UInt64(Some(total))),
            Err(_) => overflow(data_type),
        },
        DataType::Decimal128(precision, scale) if total.unsigned_abs() < DECIMAL_LIMIT => {
            Ok(ScalarValue::Decimal128(Some(total), *precision, *scale))
        }
        _ => overflow(data_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_widen_where_they_have_to_and_lose_nothing() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for edge in [1_i128 << 20, 1 << 62, 1 << 90] {
            let (mut totals, mut model) = (Totals::default(), vec![0_i128; 5]);
            for _ in 0..50 {
                totals.resize(5);
                let values: Vec<(usize, i128)> = (0..random.usize(0..9))
                    .map(|_| (random.usize(0..5), random.i128(-edge..=edge)))
                    .collect();
                values.iter().for_each(|(group, value)| model[*group] += value);
                assert!(totals.add(values.into_iter()));
            }
            assert_eq!(matches!(totals, Totals::Narrow(_)), edge == 1 << 20);
            assert_eq!(totals.take(EmitTo::First(2)).into_wide(), model[..2]);
            assert_eq!(totals.len(), 3);
            assert_eq!(totals.take(EmitTo::All).into_wide(), model[2..]);
        }
    }

    #[test]
    fn more_than_128_bits_are_told() {
        let mut totals = Totals::default();
        totals.resize(1);
        assert!(totals.add(std::iter::once((0, i128::MAX))));
        assert!(totals.add(std::iter::once((0, -1_i64))));
        assert!(!totals.add([(0, 1_i64), (0, 1)].into_iter()));
    }
}
