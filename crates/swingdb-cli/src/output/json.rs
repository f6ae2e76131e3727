//! JSON: an array of objects, or an object a line. NULL is `null`, not left out; NaN and infinities
//! are texts, as in `to_json`.
//!
//! Types that JSON writers of Arrow do not know (intervals, unions, ...) are written as the text
//! that the other shapes show.

use super::cells::Cells;
use crate::failure::{Failure, Outcome};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use std::io::Write;
use std::sync::Arc;
use swingdb::QueryResult;
use swingdb::io::json_builder;

/// `[{...},...]`
pub fn print_array(sink: &mut impl Write, result: QueryResult) -> Outcome {
    print::<JsonArray>(sink, result)?;
    writeln!(sink)?;
    Ok(())
}

/// One object a line.
pub fn print_lines(sink: &mut impl Write, result: QueryResult) -> Outcome {
    print::<LineDelimited>(sink, result)
}

fn print<F: JsonFormat>(sink: &mut impl Write, result: QueryResult) -> Outcome {
    let mut writer = json_builder().build::<_, F>(sink);
    for batch in result {
        let batch = writable(&batch?)?;
        writer.write(&batch).map_err(unwrap_io)?;
    }
    writer.finish().map_err(unwrap_io)
}

/// A closed pipe arrives as an error of Arrow; it is to be seen as what it is.
fn unwrap_io(error: arrow::error::ArrowError) -> Failure {
    match error {
        arrow::error::ArrowError::IoError(_, error) => error.into(),
        other => Failure::message(other),
    }
}

/// The same batch with the columns that have no JSON form as text.
fn writable(batch: &RecordBatch) -> Outcome<RecordBatch> {
    if batch.columns().iter().all(|column| has_json(column.data_type())) {
        return Ok(batch.clone());
    }
    let cells = Cells::new(batch)?;
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (i, column) in batch.columns().iter().enumerate() {
        let field = schema.field(i);
        if has_json(column.data_type()) {
            fields.push(field.clone());
            columns.push(Arc::clone(column));
            continue;
        }
        let text = |row| {
            let mut text = String::new();
            cells.write(row, i, &mut text);
            (!cells.is_null(row, i)).then_some(text)
        };
        fields.push(Field::new(field.name(), DataType::Utf8, true));
        columns.push(Arc::new((0..column.len()).map(text).collect::<StringArray>()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(Failure::message)
}

fn has_json(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Interval(_) | Union(_, _) | RunEndEncoded(_, _) => false,
        List(field) | LargeList(field) | FixedSizeList(field, _) => has_json(field.data_type()),
        ListView(_) | LargeListView(_) => false,
        Struct(fields) => fields.iter().all(|field| has_json(field.data_type())),
        Map(entries, _) => match entries.data_type() {
            Struct(fields) => {
                matches!(fields[0].data_type(), Utf8 | LargeUtf8 | Utf8View)
                    && has_json(fields[1].data_type())
            }
            _ => false,
        },
        Dictionary(_, value) => has_json(value),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, IntervalYearMonthArray};

    #[test]
    fn types_without_a_json_form_become_text() {
        let columns: [(&str, ArrayRef); 2] = [
            ("i", Arc::new(Int64Array::from(vec![Some(1), None]))),
            ("v", Arc::new(IntervalYearMonthArray::from(vec![Some(14), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let batch = writable(&batch).unwrap();
        let mut text = Vec::new();
        let mut writer = json_builder().build::<_, LineDelimited>(&mut text);
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let lines = String::from_utf8(text).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["i"], 1);
        assert!(lines[0]["v"].as_str().unwrap().contains("1 year"), "{lines:?}");
        assert!(lines[1]["i"].is_null() && lines[1]["v"].is_null());
    }

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        let numbers = Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY, 0.5]);
        let batch = RecordBatch::try_from_iter([("x", Arc::new(numbers) as ArrayRef)]).unwrap();
        let mut text = Vec::new();
        let mut writer = json_builder().build::<_, JsonArray>(&mut text);
        writer.write(&writable(&batch).unwrap()).unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, r#"[{"x":"NaN"},{"x":"-Infinity"},{"x":0.5}]"#);
    }
}
