//! How much memory a function's result takes, from its arguments: [`Growth`].
//!
//! An estimate is not too small by more than a small factor where the result is large, and costs
//! a pass over lengths and numbers, not over what texts and lists hold. An argument that is the
//! same for all rows counts once for each row, as the result holds it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

use super::replaced::{matched, replaced};
use crate::bounded::concat::CONCAT_OPERATOR;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// Of the shortest month.
const DAYS_PER_MONTH: i128 = 28;
/// What the engine takes for each element beside the element itself, to tell where it comes from.
const INDEX_BYTES: u64 = 8;

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

/// How the result of a function grows with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// `repeat(text, n)`: n times the text.
    Times,
    /// `lpad(text, n, fill)`: n characters.
    Characters,
    /// `array_repeat(element, n)`: n elements, each as large as the one.
    Copies,
    /// `array_resize(list, n, element)`: n elements.
    Elements,
    /// `range(from, to, step)`: what lies between, in steps.
    Series,
    /// `replace(text, from, to)`: `to` for each place where `from` is.
    Replaced,
    /// `regexp_replace(text, pattern, to, flags)`: `to` for each place that the pattern matches.
    Matched,
    /// `array_to_string(list, separator)`: a separator for each element.
    Separated,
    /// `concat(a, b)`: all arguments.
    Joined,
    /// `hex(text)`: so many bytes for each of the argument.
    Multiple(u64),
    /// `format(text, a, b)`: arguments in the places of a text, with widths that this tells.
    Formatted,
    /// Functions of regular expressions and of distances, whose result is small.
    Small,
    /// Functions of lists, which copy a list that is the same for all rows for each row.
    Spread,
}

impl Growth {
    /// That of a function of the engine; `None` of those whose result is about as large as their
    /// arguments are.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "repeat" => Self::Times,
            "lpad" | "rpad" => Self::Characters,
            "array_repeat" => Self::Copies,
            "array_resize" => Self::Elements,
            "range" | "generate_series" => Self::Series,
            "replace" => Self::Replaced,
            "regexp_replace" => Self::Matched,
            "regexp_like" | "regexp_match" | "regexp_count" | "regexp_instr" | "levenshtein" => {
                Self::Small
            }
            "array_to_string" => Self::Separated,
            "hex" => Self::Multiple(2),
            "url_encode" => Self::Multiple(3),
            "bin" | "to_binary" => Self::Multiple(8),
            // A piece between two characters takes an entry of its own.
            "string_to_array"
            | "regexp_extract_all"
            | "regexp_split_to_array"
            | "string_split_regex"
            | "str_split_regex" => Self::Multiple(2 * INDEX_BYTES + 1),
            "format" | "printf" => Self::Formatted,
            "concat" | "concat_ws" | CONCAT_OPERATOR => Self::Joined,
            "make_array" | "array_append" | "array_prepend" | "array_concat" | "array_except"
            | "array_union" | "array_intersect" | "array_slice" | "array_position"
            | "array_positions" | "array_remove" | "array_remove_n" | "array_remove_all"
            | "array_replace" | "array_replace_n" | "array_replace_all" | "array_element"
            | "arrays_zip" => Self::Spread,
            _ => return None,
        })
    }

    /// The size of the result for these arguments; nothing where they are none it can have.
    pub(super) fn size(self, args: &[ColumnarValue]) -> Result<Size> {
        let rows = args.iter().find_map(|arg| match arg {
            ColumnarValue::Array(array) => Some(array.len()),
            ColumnarValue::Scalar(_) => None,
        });
        if self == Self::Small || self == Self::Spread && rows.is_none() {
            return Ok(Size::default());
        }
        let columns = args.iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        let rows = rows.unwrap_or(1);
        match (self, columns.as_slice()) {
            (Self::Joined | Self::Spread, all) => {
                let each = all.iter().map(|column| column.total(rows));
                return Ok(each.fold(Size::default(), Size::plus));
            }
            (Self::Times, [text, n]) if n.same => {
                return Ok(text.total(rows).times(n.numbers()?(0)));
            }
            (Self::Multiple(times), [text, ..]) => return Ok(text.total(rows).times(times)),
            (Self::Replaced, [text, from, to]) => return replaced(text, from, to, rows),
            (Self::Matched, [text, pattern, to, flags @ ..]) => {
                return matched(text, pattern, to, flags.first(), rows);
            }
            _ => {}
        }
        let Some(one) = self.one(&columns)? else { return Ok(Size::default()) };
        Ok((0..rows).map(one).fold(Size::default(), Size::plus))
    }

    /// The size of the result of a row.
    fn one(self, columns: &[Column]) -> Result<Option<Each<Size>>> {
        Ok(Some(match (self, columns) {
            (Self::Times, [text, n]) => {
                let (bytes, n) = (text.bytes(), n.numbers()?);
                Box::new(move |row| Size::of_text(bytes(row)).times(n(row)))
            }
            (Self::Characters, [_, n, ..]) => {
                let n = n.numbers()?;
                Box::new(move |row| Size::of_text(n(row)))
            }
            (Self::Copies, [element, n]) => {
                let (bytes, n) = (element.bytes(), n.numbers()?);
                Box::new(move |row| {
                    Size { bytes: bytes(row).saturating_add(INDEX_BYTES), items: 1 }.times(n(row))
                })
            }
            (Self::Elements, [list, n, ..]) => {
                let (width, n) = (list.element_width(), n.numbers()?);
                Box::new(move |row| Size { bytes: width, items: 1 }.times(n(row)))
            }
            (Self::Series, [to]) => {
                let to = to.numbers()?;
                Box::new(move |row| Size { bytes: 8, items: 1 }.times(to(row)))
            }
            (Self::Series, [from, to, rest @ ..]) => {
                let (width, from, to) = (from.width(), from.moments()?, to.moments()?);
                let step = rest.first().map(Column::moments).transpose()?;
                Box::new(move |row| {
                    let step = step.as_ref().map_or(1, |step| step(row));
                    let count = steps(from(row), to(row), step);
                    Size { bytes: width, items: 1 }.times(count)
                })
            }
            (Self::Formatted, [format, values @ ..]) => {
                let (format, f) = format.texts()?;
                let values: Vec<_> = values.iter().map(Column::bytes).collect();
                Box::new(move |row| {
                    let largest = values.iter().map(|bytes| bytes(row)).max().unwrap_or(0);
                    formatted(format.value(f(row)), largest)
                })
            }
            (Self::Separated, [list, separator, ..]) => {
                let (count, bytes) = (list.counts(), separator.bytes());
                Box::new(move |row| Size::of_text(bytes(row).saturating_add(1)).times(count(row)))
            }
            _ => return Ok(None),
        }))
    }
}

/// A text whose places are filled with values of up to so many bytes.
fn formatted(format: &str, largest: u64) -> Size {
    /// Digits of any number, and a sign.
    const NUMBER: u64 = 330;
    let places = format.bytes().filter(|byte| matches!(byte, b'{' | b'%')).count() as u64;
    let digits = format.split(|char: char| !char.is_ascii_digit());
    let widths: u64 =
        digits.filter_map(|digits| digits.parse::<u64>().ok()).fold(0, u64::saturating_add);
    let filled = Size::of_text(largest.saturating_add(NUMBER)).times(places);
    // A character to fill with may have four bytes.
    filled.plus(Size::of_text(widths.saturating_mul(4))).plus(Size::of_text(format.len() as u64))
}

/// What so many copies of each value take.
pub(crate) fn bytes_of_copies(of: &ArrayRef, times: impl Iterator<Item = u64>) -> Result<u64> {
    /// Copies of these share their bytes.
    const VIEW: u64 = 16;
    if matches!(of.data_type(), DataType::Utf8View | DataType::BinaryView) {
        return Ok(times.fold(0, u64::saturating_add).saturating_mul(VIEW));
    }
    let bytes = Column::new(&ColumnarValue::Array(Arc::clone(of)))?.bytes();
    let each = times.enumerate().map(|(row, times)| bytes(row).saturating_mul(times));
    Ok(each.fold(0, u64::saturating_add))
}

/// How many steps lead from here to there, the last included.
fn steps(from: i128, to: i128, step: i128) -> u64 {
    match (to - from).checked_div(step) {
        Some(count) if count >= 0 => u64::try_from(count + 1).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// An argument.
pub(super) struct Column {
    array: ArrayRef,
    /// It is the same for all rows.
    pub(super) same: bool,
}

type Each<T> = Box<dyn Fn(usize) -> T>;

impl Column {
    fn new(value: &ColumnarValue) -> Result<Self> {
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
    fn counts(&self) -> Each<u64> {
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
    fn width(&self) -> u64 {
        average(self.array.as_ref())
    }

    /// What an element of a list takes on average.
    fn element_width(&self) -> u64 {
        match self.array.data_type() {
            DataType::List(_) => average(self.array.as_list::<i32>().values()),
            DataType::LargeList(_) => average(self.array.as_list::<i64>().values()),
            DataType::FixedSizeList(..) => average(self.array.as_fixed_size_list().values()),
            _ => 1,
        }
    }

    /// Numbers; what is negative counts as nothing.
    fn numbers(&self) -> Result<Each<u64>> {
        let numbers = cast(&self.array, &DataType::Int64)?;
        let value = move |i| numbers.as_primitive::<Int64Type>().value(i);
        Ok(self.each(move |i| u64::try_from(value(i)).unwrap_or_default()))
    }

    /// Numbers, or points in time and distances between them in nanoseconds.
    fn moments(&self) -> Result<Each<i128>> {
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
fn average(array: &dyn Array) -> u64 {
    let fixed = array.data_type().primitive_width().map(|width| width as u64);
    fixed.unwrap_or_else(|| {
        let all = array.to_data().get_slice_memory_size();
        let all = all.unwrap_or_else(|_| array.get_array_memory_size());
        (all / array.len().max(1)).max(1) as u64
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn size(name: &str, args: &[ColumnarValue]) -> Size {
        Growth::of(name).unwrap().size(args).unwrap()
    }

    fn number(n: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(n)))
    }

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.to_string())))
    }

    fn numbers(of: &[Option<i64>]) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(Int64Array::from(of.to_vec())))
    }

    #[test]
    fn texts() {
        assert_eq!(size("repeat", &[text("abc"), number(1 << 40)]).bytes, 3 << 40);
        assert_eq!(size("repeat", &[text("abc"), number(i64::MAX)]).bytes, u64::MAX);
        let times = numbers(&[Some(10), None, Some(-5), Some(2)]);
        assert_eq!(size("repeat", &[text("abc"), times.clone()]).bytes, 36);
        assert_eq!(size("lpad", &[text("abc"), times, text(" ")]).items, 12);
        let texts = StringArray::from(vec![Some("a"), None, Some("bcd")]);
        let texts = ColumnarValue::Array(Arc::new(texts));
        assert_eq!(size("concat_operator", &[texts.clone(), texts.clone()]).bytes, 8);
        assert_eq!(size("concat", &[texts.clone(), text("12345")]).bytes, 4 + 15);
        let long = "x".repeat(1 << 20);
        assert_eq!(size("replace", &[texts, text("b"), text(&long)]).items, 4 + (1 << 20));
        assert_eq!(size("bin", &[text("abc")]).bytes, 24);
        let places = text("{:100000}{}");
        assert!(size("format", &[places.clone(), text(&long), text(&long)]).bytes > 2 << 20);
        assert!(size("format", &[places, number(1), number(2)]).bytes > 400_000);
        let squared = size("replace", &[text(&long), text("x"), text(&long)]);
        assert!(squared.bytes >= 1 << 40, "{squared:?}");
        let matched = |pattern: &str, to: &str, flags: &str| {
            size("regexp_replace", &[text(&long), text(pattern), text(to), text(flags)]).bytes
        };
        assert!(matched("X|y", &long, "gi") >= 1 << 40);
        assert!(matched("x+", &long, "g") <= 3 << 20);
        assert!(matched("x", &long, "") <= 3 << 20);
        assert!(matched("(x*)", &"\\1".repeat(100), "g") >= 100 << 20);
        assert_eq!(matched("(", &long, "g"), 1 << 20);
    }

    #[test]
    fn series() {
        assert_eq!(size("range", &[number(10_000_000_000)]).bytes, 80_000_000_000);
        assert_eq!(size("range", &[number(5), number(1), number(1)]).items, 0);
        assert_eq!(size("range", &[number(5), number(1), number(-2)]).items, 3);
        assert_eq!(size("range", &[number(5), number(1), number(0)]).items, 0);
        assert_eq!(size("range", &[number(i64::MIN), number(i64::MAX)]).bytes, u64::MAX);
        assert_eq!(size("range", &[number(0), numbers(&[Some(9), None])]).items, 11);
    }

    #[test]
    fn lists() {
        assert_eq!(size("array_repeat", &[number(1), number(1000)]).bytes, 16_000);
        let list = ScalarValue::new_list_nullable(
            &(0..1000).map(|n| ScalarValue::Int64(Some(n))).collect::<Vec<_>>(),
            &DataType::Int64,
        );
        let list = ColumnarValue::Scalar(ScalarValue::List(list));
        assert_eq!(size("array_resize", &[list.clone(), number(1 << 30)]).bytes, 8 << 30);
        assert_eq!(size("array_append", &[list.clone(), number(1)]).bytes, 0);
        let rows = numbers(&[Some(1); 500]);
        assert_eq!(size("array_append", &[list, rows]).items, 500_500);
    }
}
