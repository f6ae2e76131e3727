//! The sum of decimals of more than 38 digits, which fails when the total has more than 76.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal256Type, DecimalType, i256};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::Accumulator;

/// One total, also of rows that come and go.
#[derive(Debug)]
pub(super) struct WideSum {
    total: i256,
    count: usize,
    data_type: DataType,
}

impl WideSum {
    pub(super) fn new(data_type: DataType) -> Self {
        Self { total: i256::ZERO, count: 0, data_type }
    }

    /// The total, changed by each value that is not NULL.
    fn change(
        &self,
        values: &[ArrayRef],
        change: impl Fn(i256, i256) -> Option<i256>,
    ) -> Result<(i256, usize)> {
        let Some(values) = values.first().and_then(|v| v.as_primitive_opt::<Decimal256Type>())
        else {
            return internal_err!("a wide sum of something else");
        };
        let total = values.iter().flatten().try_fold(self.total, &change);
        match total {
            Some(total) => Ok((total, values.len() - values.null_count())),
            None => overflow(),
        }
    }
}

fn overflow<T>() -> Result<T> {
    exec_err!("the sum does not fit a DECIMAL of {} digits", Decimal256Type::MAX_PRECISION)
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = self.change(values, i256::checked_add)?;
        self.total = total;
        self.count += count;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = self.change(values, i256::checked_sub)?;
        self.total = total;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let DataType::Decimal256(precision, scale) = self.data_type else {
            return internal_err!("a wide sum of something else");
        };
        let total = (self.count > 0).then_some(self.total);
        Ok(vec![ScalarValue::Decimal256(total, precision, scale)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let fits =
            Decimal256Type::is_valid_decimal_precision(self.total, Decimal256Type::MAX_PRECISION);
        match self.state()?.pop() {
            Some(total) if fits => Ok(total),
            _ => overflow(),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Decimal256Array;

    use super::*;

    #[test]
    fn totals_of_more_than_76_digits_are_errors() {
        let large = Decimal256Type::MAX_FOR_EACH_PRECISION[76];
        let column = |values: &[i256]| -> ArrayRef {
            Arc::new(Decimal256Array::from_iter_values(values.iter().copied()))
        };
        let mut sum = WideSum::new(DataType::Decimal256(76, 0));
        assert!(sum.evaluate().unwrap().is_null());
        sum.update_batch(&[column(&[large, large])]).unwrap();
        assert!(sum.evaluate().is_err());
        sum.retract_batch(&[column(&[large])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Decimal256(Some(large), 76, 0));
        assert!(sum.update_batch(&[column(&[large; 8])]).is_err());
    }
}
