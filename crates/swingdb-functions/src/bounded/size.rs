//! How much memory a function's result takes, from its arguments: [`Growth`].
//!
//! An estimate is not too small by more than a small factor where the result is large, and costs
//! a pass over lengths and numbers, not over what texts and lists hold. An argument that is the
//! same for all rows counts once for each row, as the result holds it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

use super::column::{Column, Each, Size};
use super::replaced::{matched, replaced};
use crate::bounded::concat::CONCAT_OPERATOR;

/// What the engine takes for each element beside the element itself, to tell where it comes from.
const INDEX_BYTES: u64 = 8;

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
