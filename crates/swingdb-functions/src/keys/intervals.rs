//! The function `interval_length(x)`: intervals as numbers that compare as they do.
//!
//! The engine compares the months of intervals, then their days, then the rest. In SQL a day is 24
//! hours long and a month 30 days where intervals are compared, so that `1 day` equals `24 hours`.
//! Lists, structs and maps with intervals inside are the same ones with lengths inside. The rest of
//! what is known of an interval still counts: a group shows one of its intervals.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeListArray, GenericListArray, MapArray,
    OffsetSizeTrait, StructArray,
};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, FieldRef, Fields, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, Expr, ScalarUDF};
use swingdb_common::floats::canonical;

use crate::keys::same_bits::{LENGTH, call, of_key};

const LENGTH_TYPE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
pub(crate) const DAYS_PER_MONTH: i128 = 30;
pub(crate) const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Whether intervals of this type have months, days and a rest.
pub fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano))
}

/// `interval_length(expr)`, of intervals, or of values that [have some inside](has_intervals).
/// Equal numbers inside get equal bits, too.
pub fn interval_length(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key(LENGTH, measured_type, |array| measured(&canonical(array)?)));
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

// ---- intervals inside of other values -----------------------------------------------------------

/// Whether a type is one of intervals, or has some in it.
pub fn has_intervals(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_intervals(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        other => is_interval(other),
    }
}

/// The type of what [`measured`] makes of values of a type.
fn measured_type(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| {
        let inner = measured_type(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(inner))
    };
    match data_type {
        other if !has_intervals(other) => other.clone(),
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(of(field), *length),
        DataType::Map(field, ordered) => DataType::Map(of(field), *ordered),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        _ => LENGTH_TYPE,
    }
}

/// The same values with lengths in the place of intervals, at any depth.
pub(crate) fn measured(array: &ArrayRef) -> Result<ArrayRef> {
    if !has_intervals(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::List(field) => measured_list(array.as_list::<i32>(), field)?,
        DataType::LargeList(field) => measured_list(array.as_list::<i64>(), field)?,
        DataType::FixedSizeList(field, length) => {
            let values = measured(array.as_fixed_size_list().values())?;
            let (field, nulls) = (of_type(field, &values), array.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new(field, *length, values, nulls)?)
        }
        DataType::Map(field, ordered) => {
            let map = array.as_map();
            let entries = measured_struct(map.entries())?;
            let field = of_type(field, &entries);
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(field, offsets, entries, nulls, *ordered)?)
        }
        DataType::Struct(_) => Arc::new(measured_struct(array.as_struct())?),
        _ => lengths(array)?,
    })
}

fn measured_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    field: &FieldRef,
) -> Result<ArrayRef> {
    let values = measured(list.values())?;
    let (field, offsets) = (of_type(field, &values), list.offsets().clone());
    let nulls = list.nulls().cloned();
    Ok(Arc::new(GenericListArray::<O>::try_new(field, offsets, values, nulls)?))
}

fn measured_struct(array: &StructArray) -> Result<StructArray> {
    let columns = array.columns().iter().map(measured).collect::<Result<Vec<_>>>()?;
    let fields = array.fields().iter().zip(&columns).map(|(field, column)| of_type(field, column));
    let fields = fields.collect::<Fields>();
    Ok(StructArray::try_new(fields, columns, array.nulls().cloned())?)
}

/// The same field with the type of these values.
fn of_type(field: &FieldRef, values: &dyn Array) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
}

// ---- min and max --------------------------------------------------------------------------------

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
