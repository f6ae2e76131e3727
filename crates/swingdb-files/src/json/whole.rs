//! Values that are not taken apart: `read_json_objects('file.json')` has each as one text.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::text::json_scanner::{Scanned, Scanner};
use crate::text::json_values::Failure;

/// The only column.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("json", DataType::Utf8View, true)]))
}

/// A row for each line that is not blank. With `lenient`, one that is no JSON is NULL.
pub(super) fn decode(
    text: &[u8],
    projection: Option<&[usize]>,
    lenient: bool,
) -> Result<RecordBatch, Failure> {
    let mut values = StringViewBuilder::new();
    let mut rows = 0;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let value = match std::str::from_utf8(line) {
            Ok(line) => value(line),
            Err(_) => Scanner::new("", 0).fault("is not valid UTF-8"),
        };
        match value {
            Ok(value) => values.append_value(value),
            Err(_) if lenient => values.append_null(),
            Err(fault) => return Err(fault.into()),
        }
        rows += 1;
    }
    let column: ArrayRef = Arc::new(values.finish());
    let whole = schema();
    let (schema, columns) = match projection {
        Some([]) => (Arc::new(whole.project(&[])?), Vec::new()),
        _ => (whole, vec![column]),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// The only value of a line, as it stands there.
fn value(line: &str) -> Scanned<&str> {
    let mut scanner = Scanner::new(line, 0);
    let token = scanner.token()?;
    let from = scanner.start_of(token);
    scanner.skip(token, 0)?;
    let value = scanner.since(from);
    match scanner.line_end() {
        true => Ok(value),
        false => scanner.fault("is more than one JSON value"),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn each_line_is_a_value() {
        let text = b" {\"a\": [1,  2]}\n\n1\r\n\"x\"\nnull";
        let rows = decode(text, None, false).unwrap();
        let values: Vec<_> = rows.column(0).as_string_view().iter().flatten().collect();
        assert_eq!(values, ["{\"a\": [1,  2]}", "1", "\"x\"", "null"]);
        for bad in [&b"{\"a\": 1"[..], b"1 2", b"\xff"] {
            assert!(decode(bad, None, false).is_err());
            let rows = decode(bad, None, true).unwrap();
            assert_eq!((rows.num_rows(), rows.column(0).null_count()), (1, 1));
        }
        assert_eq!(decode(text, Some(&[]), false).unwrap().num_rows(), 4);
    }
}
