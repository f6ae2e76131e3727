//! The text of single values.

use crate::failure::{Failure, Outcome};
use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use swingdb::{blob_text, interval_texts, moment_texts};

/// How NULL is shown to people.
pub const NULL: &str = "NULL";

const OPTIONS: FormatOptions<'static> = FormatOptions::new()
    .with_display_error(true)
    .with_null(NULL)
    .with_date_format(Some("%Y-%m-%d"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_time_format(Some("%H:%M:%S%.f"))
    .with_duration_format(DurationFormat::Pretty);

/// The values of one batch as text.
pub struct Cells<'a> {
    columns: Vec<(Texts<'a>, Option<NullBuffer>)>,
    null: &'a str,
}

/// The texts of a column: written when they are wanted, or before.
pub enum Texts<'a> {
    Formatted(ArrayFormatter<'a>),
    Ready(StringArray),
}

impl<'a> Texts<'a> {
    pub fn of(array: &'a dyn Array) -> Outcome<Self> {
        let texts = interval_texts(array).or_else(|| moment_texts(array));
        Ok(match texts.or_else(|| blob_texts(array)) {
            Some(texts) => Texts::Ready(texts),
            None => {
                let formatter = ArrayFormatter::try_new(array, &OPTIONS);
                Texts::Formatted(formatter.map_err(Failure::message)?)
            }
        })
    }

    /// Writes the text of a value that is not NULL.
    pub fn write(&self, row: usize, text: &mut String) {
        use std::fmt::Write;
        match self {
            Texts::Ready(texts) => text.push_str(texts.value(row)),
            // Writing to a string does not fail, and errors of values are shown in their place.
            Texts::Formatted(formatter) => drop(write!(text, "{}", formatter.value(row))),
        }
    }
}

/// Byte strings as a cast to text writes them, and as CSV files have them; `None` for other types.
fn blob_texts(array: &dyn Array) -> Option<StringArray> {
    let blobs = array.as_binary_opt::<i32>()?;
    let text = |bytes: &[u8]| {
        let mut text = Vec::with_capacity(bytes.len());
        blob_text(bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    Some(blobs.iter().map(|bytes| bytes.map(text)).collect())
}

impl<'a> Cells<'a> {
    pub fn new(batch: &'a RecordBatch) -> Outcome<Self> {
        Cells::with_null(batch, NULL)
    }

    /// With another text for NULL.
    pub fn with_null(batch: &'a RecordBatch, null: &'a str) -> Outcome<Self> {
        // Logical: a dictionary's value may be null where its key is not.
        let column = |array: &'a dyn Array| Ok((Texts::of(array)?, array.logical_nulls()));
        let columns = batch.columns().iter().map(|array| column(array.as_ref()));
        Ok(Cells { columns: columns.collect::<Outcome<_>>()?, null })
    }

    pub fn is_null(&self, row: usize, column: usize) -> bool {
        self.columns[column].1.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes a value's text; nothing for NULL.
    pub fn write(&self, row: usize, column: usize, text: &mut String) {
        if self.is_null(row, column) {
            return;
        }
        self.columns[column].0.write(row, text);
    }

    /// A value's text on one line, NULL by its text: for people.
    pub fn shown(&self, row: usize, column: usize) -> String {
        if self.is_null(row, column) {
            return self.null.to_string();
        }
        let mut text = String::new();
        self.write(row, column, &mut text);
        one_line(text)
    }
}

/// Control characters made visible, so that a value or a name keeps to its place.
pub fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// True for types that stand at the right of their column.
pub fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_number(value),
        other => other.is_numeric(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, BinaryArray, DictionaryArray, Int64Array, ListArray, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type};
    use std::sync::Arc;

    #[test]
    fn values_are_shown_as_people_write_them() {
        let columns: [(&str, ArrayRef); 5] = [
            ("i", Arc::new(Int64Array::from(vec![Some(-1), None]))),
            ("s", Arc::new(StringArray::from(vec![Some("a\n\u{7}b"), Some("")]))),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000, 0]))),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
                    Some(vec![Some(1), None]),
                    None,
                ])),
            ),
            ("b", Arc::new(BinaryArray::from(vec![Some(b"a\xFF".as_slice()), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let cells = Cells::new(&batch).unwrap();
        let row = |row| (0..5).map(|column| cells.shown(row, column)).collect::<Vec<_>>();
        assert_eq!(row(0), ["-1", "a\\n\\u{7}b", "1970-01-01 00:00:01.5", "[1, NULL]", "a\\xFF"]);
        assert_eq!(row(1), ["NULL", "", "1970-01-01 00:00:00", "NULL", "NULL"]);
    }

    #[test]
    fn nulls_behind_dictionary_keys_are_found() {
        let values = Arc::new(StringArray::from(vec![None, Some("x")]));
        let keys = arrow::array::Int32Array::from(vec![0, 1]);
        let array: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
        let batch = RecordBatch::try_from_iter([("d", array)]).unwrap();
        let cells = Cells::new(&batch).unwrap();
        assert!(cells.is_null(0, 0) && !cells.is_null(1, 0));
        assert_eq!(cells.shown(0, 0), "NULL");
    }
}
