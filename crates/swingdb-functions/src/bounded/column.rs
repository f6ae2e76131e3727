//! Arguments of functions, as the size of a result depends on them: [`Column`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Of the shortest month.
const DAYS_PER_MONTH: i128 = 28;

/// The size of a result, estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Memory that it takes.
    pub(super) bytes: u64,
    /// Bytes of its texts, or elements of its lists.
    pub(super) items: u64,
}

impl Size {
    pub(super) fn of_text(bytes: u64) -> Self {
        Self { bytes, items: bytes }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            items: self.items.saturating_add(other.items),
        }
    }

    pub(super) fn times(self, count: u64) -> Self {
        Self { bytes: self.bytes.saturating_mul(count), items: self.items.saturating_mul(count) }
    }
}

/// An argument.
pub(super) struct Column {
    array: ArrayRef,
    /// It is the same for all rows.
    pub(super) same: bool,
}

/// A value for each row.
pub(super) type Each<T> = Box<dyn Fn(usize) -> T>;

impl Column {
    /// Of the values that a function was called with.
    pub(super) fn new(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { array: Arc::clone(array), same: false },
            ColumnarValue::Scalar(one) => Self { array: one.to_array()?, same: true },
        })
    }

    /// What `value` gives for a place in the array, by row; nothing where there is NULL.
    fn each<T: Default>(&self, value: impl Fn(usize) -> T + 'static) -> Each<T> {
        let (array, same) = (Arc::clone(&self.array), self.same);
        Box::new(move |row| {
            let at = if same { 0 } else { row };
            if at < array.len() && array.is_valid(at) { value(at) } else { T::default() }
        })
    }

    /// The bytes that a value takes.
    pub(super) fn bytes(&self) -> Each<u64> {
        let array = Arc::clone(&self.array);
        match array.data_type() {
            DataType::Utf8 => self.each(move |i| array.as_string::<i32>().value(i).len() as u64),
            DataType::LargeUtf8 => {
                self.each(move |i| array.as_string::<i64>().value(i).len() as u64)
            }
            DataType::Utf8View => self.each(move |i| array.as_string_view().value(i).len() as u64),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let (width, counts) = (self.element_width(), self.counts());
                Box::new(move |row| counts(row).saturating_mul(width))
            }
            _ => {
                let width = self.width();
                self.each(move |_| width)
            }
        }
    }

    /// How many elements a list has.
    pub(super) fn counts(&self) -> Each<u64> {
        let array = Arc::clone(&self.array);
        match array.data_type() {
            DataType::List(_) => {
                self.each(move |i| array.as_list::<i32>().value_length(i).max(0) as u64)
            }
            DataType::LargeList(_) => {
                self.each(move |i| array.as_list::<i64>().value_length(i).max(0) as u64)
            }
            DataType::FixedSizeList(_, count) => {
                let count = u64::try_from(*count).unwrap_or_default();
                self.each(move |_| count)
            }
            _ => Box::new(|_| 1),
        }
    }

    /// Of all rows together.
    pub(super) fn total(&self, rows: usize) -> Size {
        let between = |offsets: &[i32]| match offsets {
            [first, .., last] => u64::try_from(last - first).unwrap_or_default(),
            _ => 0,
        };
        let all = match self.array.data_type() {
            DataType::Utf8 => Size::of_text(between(self.array.as_string::<i32>().value_offsets())),
            DataType::Utf8View => {
                let lengths = self.array.as_string_view().lengths();
                Size::of_text(lengths.map(u64::from).sum())
            }
            DataType::List(_) => {
                let items = between(self.array.as_list::<i32>().value_offsets());
                Size { bytes: items.saturating_mul(self.element_width()), items }
            }
            _ => Size { bytes: self.width(), items: 1 }.times(self.array.len() as u64),
        };
        if self.same { all.times(rows as u64) } else { all }
    }

    /// Its texts, and which of them is a row's.
    pub(super) fn texts(&self) -> Result<(StringViewArray, impl Fn(usize) -> usize + use<>)> {
        let texts = cast(&self.array, &DataType::Utf8View)?.as_string_view().clone();
        let same = self.same;
        Ok((texts, move |row| if same { 0 } else { row }))
    }

    /// What a value takes on average.
    pub(super) fn width(&self) -> u64 {
        average(self.array.as_ref())
    }

    /// What an element of a list takes on average.
    pub(super) fn element_width(&self) -> u64 {
        match self.array.data_type() {
            DataType::List(_) => average(self.array.as_list::<i32>().values()),
            DataType::LargeList(_) => average(self.array.as_list::<i64>().values()),
            DataType::FixedSizeList(..) => average(self.array.as_fixed_size_list().values()),
            _ => 1,
        }
    }

    /// Numbers; what is negative counts as nothing.
    pub(super) fn numbers(&self) -> Result<Each<u64>> {
        let numbers = cast(&self.array, &DataType::Int64)?;
        let value = move |i| numbers.as_primitive::<Int64Type>().value(i);
        Ok(self.each(move |i| u64::try_from(value(i)).unwrap_or_default()))
    }

    /// Numbers, or points in time and distances between them in nanoseconds.
    pub(super) fn moments(&self) -> Result<Each<i128>> {
        if let DataType::Interval(_) = self.array.data_type() {
            let array = Arc::clone(&self.array);
            let Some(_) = array.as_primitive_opt::<IntervalMonthDayNanoType>() else {
                return Ok(Box::new(|_| 0));
            };
            return Ok(self.each(move |i| {
                let by = array.as_primitive::<IntervalMonthDayNanoType>().value(i);
                let days = i128::from(by.months) * DAYS_PER_MONTH + i128::from(by.days);
                days * NANOS_PER_DAY + i128::from(by.nanoseconds)
            }));
        }
        let unit: i128 = match self.array.data_type() {
            DataType::Date32 => NANOS_PER_DAY,
            DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            _ => 1,
        };
        let whole = match self.array.data_type() {
            DataType::Date32 => cast(&cast(&self.array, &DataType::Int32)?, &DataType::Int64)?,
            _ => cast(&self.array, &DataType::Int64)?,
        };
        Ok(self.each(move |i| i128::from(whole.as_primitive::<Int64Type>().value(i)) * unit))
    }
}

/// The bytes of a value of an array, on average.
pub(super) fn average(array: &dyn Array) -> u64 {
    let fixed = array.data_type().primitive_width().map(|width| width as u64);
    fixed.unwrap_or_else(|| {
        let all = array.to_data().get_slice_memory_size();
        let all = all.unwrap_or_else(|_| array.get_array_memory_size());
        (all / array.len().max(1)).max(1) as u64
    })
}
