//! What [`counted`](super::counted) aggregates are, of one group and of many.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The value that occurs most often, of several the least.
    Mode,
    /// The same, but of several the first.
    FirstMode,
    /// How often each value occurs, as a map in the order of the values.
    Histogram,
    /// Bits of information in a value.
    Entropy,
}

/// The fields of the entries of a histogram.
pub(super) fn entry_fields(values: &DataType) -> Fields {
    let key = Field::new("key", values.clone(), false);
    vec![key, Field::new("value", DataType::UInt64, true)].into()
}

/// Bits of information in one of several values that occur so often.
pub(super) fn entropy(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let total = counts.clone().sum::<u64>() as f64;
    let bits = |count: u64| {
        let share = count as f64 / total;
        -share * share.log2()
    };
    counts.map(bits).sum::<f64>() + 0.0
}

/// One NaN, and one zero.
pub(super) fn one_of_each(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        _ => Arc::clone(values),
    }
}
