//! The function `interval_length(x)`: intervals as numbers that compare as they do.
//!
//! The engine compares the months of intervals, then their days, then the rest. In SQL a day is 24
//! hours long and a month 30 days where intervals are compared, so that `1 day` equals `24 hours`.
//! The rest of what is known of an interval still counts: a group shows one of its intervals.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeListArray, GenericListArray, Int32Array,
    MapArray, OffsetSizeTrait, PrimitiveArray, StructArray,
};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields, Int32Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
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

// ---- intervals inside of other values -----------------------------------------------------------

/// Whether a type is one of intervals, or has some in it.
fn has_intervals(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_intervals(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        other => is_interval(other),
    }
}

/// The same values with structs in the place of intervals, at any depth: of the length, which is
/// compared first, and of what tells equal ones apart.
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
        _ => Arc::new(measured_intervals(array.as_primitive())?),
    })
}

fn measured_intervals(intervals: &PrimitiveArray<IntervalMonthDayNanoType>) -> Result<StructArray> {
    let lengths: Decimal128Array = intervals.unary(length);
    let lengths = lengths.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?;
    let months: Int32Array = intervals.unary::<_, Int32Type>(|interval| interval.months);
    let days: Int32Array = intervals.unary::<_, Int32Type>(|interval| interval.days);
    let columns: Vec<ArrayRef> = vec![Arc::new(lengths), Arc::new(months), Arc::new(days)];
    let fields = ["length", "months", "days"].into_iter().zip(&columns);
    let fields = fields.map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let nulls = intervals.nulls().cloned();
    Ok(StructArray::try_new(Fields::from_iter(fields), columns, nulls)?)
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
