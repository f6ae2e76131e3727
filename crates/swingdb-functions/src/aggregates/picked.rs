//! Which of many values are at some places of their order, and what lies between two of them.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt32Array,
    downcast_primitive_array,
};
use arrow::compute::{cast, sort_to_indices, take};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err};

use crate::keys::intervals::lengths as interval_lengths;
use crate::keys::order::{bytes as nested_order, is_ordered_otherwise};

/// A share of all values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fraction {
    /// From 0 to 1.
    pub(super) of: f64,
    /// Counted from the greatest value down.
    pub(super) is_down: bool,
}

/// Two places in an order, and how far to go from the first to the second.
#[derive(Debug, Clone, Copy)]
struct Interpolation {
    from: usize,
    to: usize,
    share: f64,
}

/// The values at fractions of their order; there are values, and none is NULL.
pub(super) fn picked(
    values: &ArrayRef,
    fractions: &[Fraction],
    is_between: bool,
) -> Result<ArrayRef> {
    let last = values.len() - 1;
    let places: Vec<Interpolation> = fractions.iter().map(|f| place(f, last, is_between)).collect();
    let all = places.iter().flat_map(|place| [place.from, place.to]);
    let found = at_places(values, &all.collect::<Vec<_>>())?;
    let between = places.iter().enumerate().map(|(number, place)| {
        let ends = [2 * number, 2 * number + 1].map(|row| ScalarValue::try_from_array(&found, row));
        let [from, to] = ends;
        between(from?, &to?, place.share)
    });
    let between = between.collect::<Result<Vec<_>>>()?;
    match between.is_empty() {
        true => Ok(arrow::array::new_empty_array(values.data_type())),
        false => Ok(ScalarValue::iter_to_array(between)?),
    }
}

/// What lies at a fraction of the order of numbers; `None` where there are none.
pub(super) fn number_at(values: &mut [f64], fraction: &Fraction) -> Option<f64> {
    let place = place(fraction, values.len().checked_sub(1)?, true);
    let (low, high) = (place.from.min(place.to), place.from.max(place.to));
    let (below, second, _) = values.select_nth_unstable_by(high, f64::total_cmp);
    let second = *second;
    let first = match low == high {
        true => second,
        false => below.iter().copied().max_by(f64::total_cmp).unwrap_or(second),
    };
    let (from, to) = if place.from <= place.to { (first, second) } else { (second, first) };
    let is_one = place.share == 0.0 || from.to_bits() == to.to_bits();
    Some(if is_one { from } else { number_between(from, to, place.share) })
}

/// The value at a fraction of the order of values, where nothing lies in between; `None` where
/// there are none.
pub(super) fn value_at<T: ArrowNativeTypeOp>(values: &mut [T], fraction: &Fraction) -> Option<T> {
    let at = index_at(fraction, values.len().checked_sub(1)?);
    Some(*values.select_nth_unstable_by(at, |a, b| a.compare(*b)).1)
}

/// Where the value at a fraction is among values in order, where nothing lies in between.
pub(super) fn index_at(fraction: &Fraction, last: usize) -> usize {
    place(fraction, last, false).from
}

fn place(fraction: &Fraction, last: usize, is_between: bool) -> Interpolation {
    let (from, to, share) = match is_between {
        true => {
            let at = fraction.of * last as f64;
            (at.floor() as usize, (at.ceil() as usize).min(last), at - at.floor())
        }
        false => {
            let count = whole_if_near(fraction.of * (last + 1) as f64).ceil() as usize;
            let at = count.clamp(1, last + 1) - 1;
            (at, at, 0.0)
        }
    };
    match fraction.is_down {
        true => Interpolation { from: last - from, to: last - to, share },
        false => Interpolation { from, to, share },
    }
}

/// 7 for 7.000000000000001, which 100 times 0.07 is.
fn whole_if_near(number: f64) -> f64 {
    const ROUNDING: f64 = 4.0 * f64::EPSILON;
    let whole = number.round();
    if (number - whole).abs() <= whole * ROUNDING { whole } else { number }
}

/// What has the order of values in the query engine; the values themselves, where they have.
pub(super) fn order_keys(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => interval_lengths(values),
        other if is_ordered_otherwise(other) => nested_order(values),
        _ => Ok(Arc::clone(values)),
    }
}

/// The values at these places of their order.
fn at_places(values: &ArrayRef, places: &[usize]) -> Result<ArrayRef> {
    let (array, keys) = (values.as_ref(), order_keys(values)?);
    if !Arc::ptr_eq(values, &keys) {
        return sorted_at(values, &keys, places);
    }
    downcast_primitive_array!(
        array => Ok(selected_at(array, places)),
        _ => sorted_at(values, values, places)
    )
}

/// Without sorting all for a few.
fn selected_at<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, places: &[usize]) -> ArrayRef {
    const FEW: usize = 4;
    let compare = |a: &T::Native, b: &T::Native| -> Ordering { a.compare(*b) };
    let mut all = values.values().to_vec();
    if let [from, to] = *places
        && from + 1 == to
    {
        let (below, second, _) = all.select_nth_unstable_by(to, compare);
        let first = below.iter().copied().max_by(compare).unwrap_or(*second);
        let found = PrimitiveArray::<T>::from_iter_values([first, *second]);
        return Arc::new(found.with_data_type(values.data_type().clone()));
    }
    if places.len() > FEW {
        all.sort_unstable_by(compare);
    }
    let found = places.iter().map(|place| match places.len() > FEW {
        true => all[*place],
        false => *all.select_nth_unstable_by(*place, compare).1,
    });
    let found: PrimitiveArray<T> = PrimitiveArray::from_iter_values(found);
    Arc::new(found.with_data_type(values.data_type().clone()))
}

fn sorted_at(values: &ArrayRef, keys: &ArrayRef, places: &[usize]) -> Result<ArrayRef> {
    let order = sort_to_indices(keys, None, None)?;
    let places = places.iter().map(|place| order.value(*place));
    Ok(take(values, &UInt32Array::from_iter_values(places), None)?)
}

/// What lies between two values. Of whole units the nearest.
fn between(from: ScalarValue, to: &ScalarValue, share: f64) -> Result<ScalarValue> {
    if share == 0.0 || from == *to {
        return Ok(from);
    }
    let (ends, of) = ([from.to_array()?, to.to_array()?], from.data_type());
    let found: ArrayRef = match &of {
        DataType::Float64 => part::<Float64Type>(&ends, |a, b| number_between(a, b, share)),
        DataType::Float16 | DataType::Float32 => {
            let wide = [cast(&ends[0], &DataType::Float64)?, cast(&ends[1], &DataType::Float64)?];
            cast(&part::<Float64Type>(&wide, |a, b| number_between(a, b, share)), &of)?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let lengths = [interval_lengths(&ends[0])?, interval_lengths(&ends[1])?];
            let lengths = lengths.map(|length| length.as_primitive::<Decimal128Type>().value(0));
            let longer = step(lengths[0], lengths[1], share);
            part::<IntervalMonthDayNanoType>(&ends, |a, _| IntervalMonthDayNano {
                nanoseconds: a.nanoseconds.saturating_add(longer as i64),
                ..a
            })
        }
        DataType::Decimal128(..) => part::<Decimal128Type>(&ends, |a, b| a + step(a, b, share)),
        _ => return between_whole(ends, &of, share),
    };
    ScalarValue::try_from_array(&found, 0)
}

/// Their distance may be infinite, and so may be one of them.
pub(super) fn number_between(a: f64, b: f64, share: f64) -> f64 {
    match (b - a).is_finite() {
        true => a + (b - a) * share,
        false => a * (1.0 - share) + b * share,
    }
}

fn part<T: ArrowPrimitiveType>(
    ends: &[ArrayRef; 2],
    between: impl Fn(T::Native, T::Native) -> T::Native,
) -> ArrayRef {
    let [from, to] = ends.each_ref().map(|end| end.as_primitive::<T>());
    let found = PrimitiveArray::<T>::from_iter_values([between(from.value(0), to.value(0))]);
    Arc::new(found.with_data_type(from.data_type().clone()))
}

/// A share of the way between two whole numbers, rounded.
fn step(from: i128, to: i128, share: f64) -> i128 {
    ((to as f64 - from as f64) * share).round_ties_even() as i128
}

/// Between whole numbers, dates and times.
fn between_whole(ends: [ArrayRef; 2], of: &DataType, share: f64) -> Result<ScalarValue> {
    const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
    let steps: &[DataType] = match of {
        DataType::Date32 | DataType::Time32(_) => &[DataType::Int32, WIDE],
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => {
            &[DataType::Int64, WIDE]
        }
        whole if whole.is_integer() => &[WIDE],
        other => return exec_err!("nothing is between two values of {other}"),
    };
    let mut ends = ends;
    for step in steps {
        ends = [cast(&ends[0], step)?, cast(&ends[1], step)?];
    }
    let mut found = part::<Decimal128Type>(&ends, |a, b| a + step(a, b, share));
    for step in steps.iter().rev().skip(1).chain([of]) {
        found = cast(&found, step)?;
    }
    ScalarValue::try_from_array(&found, 0)
}
