//! `sum` of whole numbers and decimals that fails when the total does not fit.
//!
//! Totals are kept in 128 bits, so what fits is told for any order of the rows: intermediate
//! totals may be larger than the result's type. Durations are whole numbers too, and intervals
//! three of them. Floats are left to the engine's own sum. The sum of a column without a type,
//! which has nothing but NULLs, is NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::stats::Precision;
use datafusion::common::types::{NativeType, logical_boolean, logical_int64};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs, TypeSignature, TypeSignatureClass,
};

use super::interval_totals::{interval_states, interval_totals};
use super::sum_groups::SumGroups;
use super::totals::{finish, overflow};
use super::wide_sum::WideSum;
use crate::aggregates::sliding::moving_sum;

/// The function.
pub fn checked_sum() -> AggregateUDF {
    let engine = Sum::new();
    let mut signature = engine.signature().clone();
    if let TypeSignature::OneOf(taken) = &mut signature.type_signature {
        taken.push(of_booleans());
    }
    AggregateUDF::new_from_impl(CheckedSum { engine, signature })
}

/// A BOOLEAN is one or zero: `sum(x > 3)` counts.
fn of_booleans() -> TypeSignature {
    TypeSignature::Coercible(vec![Coercion::new_implicit(
        TypeSignatureClass::Native(logical_int64()),
        vec![TypeSignatureClass::Native(logical_boolean())],
        NativeType::Int64,
    )])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    /// Knows the types, and adds up what is no whole number.
    engine: Sum,
    signature: Signature,
}

/// Whether totals of this type are added up here.
fn is_ours(total: &DataType) -> bool {
    matches!(
        total,
        DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) | DataType::Duration(_)
    )
}

/// Whether all values are NULL, and have no type.
fn is_untyped(fields: &[FieldRef]) -> bool {
    fields.first().is_some_and(|field| field.data_type().is_null())
}

/// The type totals have while they are added up.
fn state_type(total: &DataType) -> DataType {
    match total {
        DataType::Decimal128(_, scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
    }
}

/// The total of the values that are not NULL, and how many they are.
pub(super) fn total(values: &ArrayRef, data_type: &DataType) -> Result<(i128, usize)> {
    let count = values.len() - values.null_count();
    let total = match values.data_type() {
        DataType::Null => return Ok((0, 0)),
        DataType::Int64 => Some(add_up(values.as_primitive::<Int64Type>(), total_i64)),
        DataType::UInt64 => Some(add_up(values.as_primitive::<UInt64Type>(), total_u64)),
        DataType::Duration(_) => {
            let units = cast(values, &DataType::Int64)?;
            Some(add_up(units.as_primitive::<Int64Type>(), total_i64))
        }
        DataType::Decimal128(..) => {
            let values = values.as_primitive::<Decimal128Type>();
            match values.null_count() {
                0 => values.values().iter().try_fold(0i128, |sum, v| sum.checked_add(*v)),
                _ => values.iter().flatten().try_fold(0i128, |sum, v| sum.checked_add(v)),
            }
        }
        other => return internal_err!("a sum of {other}"),
    };
    match total {
        Some(total) => Ok((total, count)),
        None => overflow(data_type),
    }
}

fn add_up<T: arrow::array::ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    total: impl Fn(&[T::Native]) -> i128,
) -> i128 {
    match values.nulls() {
        None => total(values.values()),
        Some(nulls) => {
            let runs = nulls.valid_slices();
            runs.map(|(start, end)| total(&values.values()[start..end])).sum()
        }
    }
}

/// Values added up as two halves at a time: neither can overflow.
const HALVES: usize = 1 << 20;

fn total_i64(values: &[i64]) -> i128 {
    let part = |values: &[i64]| {
        let (mut high, mut low) = (0i64, 0i64);
        for value in values {
            high += value >> 32;
            low += value & 0xffff_ffff;
        }
        (i128::from(high) << 32) + i128::from(low)
    };
    values.chunks(HALVES).map(part).sum()
}

fn total_u64(values: &[u64]) -> i128 {
    let part = |values: &[u64]| {
        let (mut high, mut low) = (0u64, 0u64);
        for value in values {
            high += value >> 32;
            low += value & 0xffff_ffff;
        }
        (i128::from(high) << 32) + i128::from(low)
    };
    values.chunks(HALVES).map(part).sum()
}

/// One total, also of rows that come and go.
#[derive(Debug)]
struct SumTotal {
    total: i128,
    count: usize,
    data_type: DataType,
}

impl SumTotal {
    fn add(&mut self, total: i128, count: usize) -> Result<()> {
        match self.total.checked_add(total) {
            Some(sum) => self.total = sum,
            None => return overflow(&self.data_type),
        }
        self.count += count;
        Ok(())
    }
}

impl Accumulator for SumTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = total(&values[0], &self.data_type)?;
        self.add(total, count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = total(&values[0], &self.data_type)?;
        self.add(-total, 0)?;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let DataType::Decimal128(precision, scale) = state_type(&self.data_type) else {
            return internal_err!("a state that is no decimal");
        };
        let total = (self.count > 0).then_some(self.total);
        Ok(vec![ScalarValue::Decimal128(total, precision, scale)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.count {
            0 => ScalarValue::try_new_null(&self.data_type),
            _ => finish(self.total, &self.data_type),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Adds up the distinct values that the engine's own accumulator has gathered.
#[derive(Debug)]
struct SumDistinct {
    gathered: Box<dyn Accumulator>,
    data_type: DataType,
}

impl Accumulator for SumDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gathered.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.gathered.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gathered.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.gathered.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.gathered.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.gathered.state()?;
        let [ScalarValue::List(list)] = state.as_slice() else {
            return internal_err!("a state that is no list of the distinct values");
        };
        let (mut sum, mut count) = (Some(0i128), 0);
        for values in list.iter().flatten() {
            let (part, values) = total(&values, &self.data_type)?;
            sum = sum.and_then(|sum| sum.checked_add(part));
            count += values;
        }
        match sum {
            _ if count == 0 => ScalarValue::try_new_null(&self.data_type),
            Some(sum) => finish(sum, &self.data_type),
            None => overflow(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.gathered.size()
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Null] => Ok(DataType::Int64),
            _ => self.engine.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_type().clone();
        if is_untyped(args.expr_fields) {
            return Ok(Box::new(SumTotal { total: 0, count: 0, data_type }));
        }
        if matches!(data_type, DataType::Decimal256(..)) && !args.is_distinct {
            return Ok(Box::new(WideSum::new(data_type)));
        }
        if matches!(data_type, DataType::Interval(_)) {
            return interval_totals(false, args.is_distinct);
        }
        if !is_ours(&data_type) {
            return self.engine.accumulator(args);
        }
        if args.is_distinct {
            let gathered = self.engine.accumulator(args)?;
            return Ok(Box::new(SumDistinct { gathered, data_type }));
        }
        Ok(Box::new(SumTotal { total: 0, count: 0, data_type }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if matches!(args.return_type(), DataType::Interval(_)) {
            return Ok(interval_states(args.name));
        }
        let engines = args.is_distinct && !is_untyped(args.input_fields);
        if engines || !is_ours(args.return_type()) {
            return self.engine.state_fields(args);
        }
        let name = format!("{}[sum]", args.name);
        Ok(vec![Arc::new(Field::new(name, state_type(args.return_type()), true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !matches!(
            args.return_type(),
            DataType::Decimal256(..) | DataType::Interval(_) | DataType::Duration(_)
        ) && !is_untyped(args.expr_fields)
            && self.engine.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_type() {
            ours if is_ours(ours) => Ok(Box::new(SumGroups::new(ours.clone(), state_type(ours)))),
            _ => self.engine.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_type().clone();
        if is_untyped(args.expr_fields) {
            return self.accumulator(args);
        }
        if data_type == DataType::Float64 && !args.is_distinct {
            return Ok(moving_sum(false));
        }
        if matches!(data_type, DataType::Decimal256(..)) && !args.is_distinct {
            return Ok(Box::new(WideSum::new(data_type)));
        }
        if matches!(data_type, DataType::Interval(_)) {
            return interval_totals(false, args.is_distinct);
        }
        if !is_ours(&data_type) {
            return self.engine.create_sliding_accumulator(args);
        }
        if args.is_distinct {
            let gathered = self.engine.create_sliding_accumulator(args)?;
            return Ok(Box::new(SumDistinct { gathered, data_type }));
        }
        Ok(Box::new(SumTotal { total: 0, count: 0, data_type }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// Sums of unsigned numbers grow; but NULL, the sum of nothing, has no such place in an order.
    fn set_monotonicity(&self, _data_type: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        match args.statistics.num_rows {
            // The sum of nothing is NULL, and not zero times a constant.
            Precision::Exact(0) => ScalarValue::try_new_null(args.return_type).ok(),
            // Statistics of several parts are added up without a look at the digits.
            _ if args.return_type.is_decimal() => None,
            _ => self.engine.value_from_stats(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_add_up_to_the_whole() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for length in [0, 1, 2, 1000, HALVES, HALVES + 1] {
            let signed = (0..length).map(|i| match i % 3 {
                0 => i64::MIN + random.i64(0..10),
                1 => i64::MAX - random.i64(0..10),
                _ => random.i64(..),
            });
            let signed = signed.collect::<Vec<_>>();
            assert_eq!(total_i64(&signed), signed.iter().map(|v| i128::from(*v)).sum::<i128>());
            let unsigned = signed.iter().map(|v| *v as u64).collect::<Vec<_>>();
            assert_eq!(total_u64(&unsigned), unsigned.iter().map(|v| i128::from(*v)).sum::<i128>());
        }
        assert_eq!(total_i64(&vec![i64::MAX; HALVES]), i128::from(i64::MAX) * HALVES as i128);
        assert_eq!(total_i64(&vec![i64::MIN; HALVES]), i128::from(i64::MIN) * HALVES as i128);
    }

    #[test]
    fn a_total_may_leave_the_type_and_come_back() {
        let column = |values: &[i64]| -> ArrayRef {
            Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(values.iter().copied()))
        };
        let mut sum = SumTotal { total: 0, count: 0, data_type: DataType::Int64 };
        sum.update_batch(&[column(&[i64::MAX, i64::MAX])]).unwrap();
        assert!(sum.evaluate().is_err());
        sum.retract_batch(&[column(&[i64::MAX])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX)));
        sum.retract_batch(&[column(&[i64::MAX])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Int64(None));
    }
}
