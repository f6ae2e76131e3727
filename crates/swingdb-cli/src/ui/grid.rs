//! Rows as text: [`Grid`].
//!
//! A result is turned into text as it arrives, up to limits. So what the page shows later holds no
//! state of the database: its writer may free the memory.

use crate::failure::Outcome;
use crate::output::cells::{Cells, is_number};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

/// The most bytes of the values of one page.
const MAX_PAGE: usize = 2 << 20;

/// The first rows of a result.
pub struct Grid {
    schema: SchemaRef,
    /// Row by row; `None`: NULL.
    cells: Vec<Option<Box<str>>>,
    rows: usize,
    bytes: usize,
    /// Whether the result has more rows than are kept.
    more: bool,
}

/// How much of a result is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub rows: usize,
    pub bytes: usize,
    /// Of one value.
    pub cell_bytes: usize,
}

impl Grid {
    pub fn new(schema: SchemaRef) -> Self {
        Grid { schema, cells: Vec::new(), rows: 0, bytes: 0, more: false }
    }

    /// Bytes of the values, about as the memory has them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds rows; whether there is room for more of them.
    pub fn add(&mut self, batch: &RecordBatch, limit: Limit) -> Outcome<bool> {
        let cells = Cells::new(batch)?;
        for row in 0..batch.num_rows() {
            if self.rows >= limit.rows || self.bytes >= limit.bytes {
                self.more = true;
                return Ok(false);
            }
            for column in 0..batch.num_columns() {
                let mut text = String::new();
                cells.write(row, column, &mut text);
                cut(&mut text, limit.cell_bytes);
                self.bytes += text.len() + size_of::<Option<Box<str>>>();
                self.cells.push((!cells.is_null(row, column)).then(|| text.into_boxed_str()));
            }
            self.rows += 1;
        }
        Ok(true)
    }

    /// The value of a row and a column, if it is kept and not NULL.
    pub fn value(&self, row: usize, column: usize) -> Option<&str> {
        let width = self.schema.fields().len();
        let place = row.checked_mul(width)?.checked_add(column)?;
        self.cells.get(place).filter(|_| column < width)?.as_deref()
    }

    /// Rows that are kept.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What it is: columns, number of rows.
    pub fn about(&self) -> Value {
        let columns = self.schema.fields().iter().map(|field| {
            json!({
                "name": field.name(),
                "type": swingdb::field_type(field),
                "numeric": is_number(field.data_type()),
            })
        });
        json!({
            "columns": columns.collect::<Vec<_>>(),
            "rows": self.rows,
            "more": self.more,
        })
    }

    /// Some rows, at most `limit` and not more than a page may have of bytes.
    pub fn page(&self, offset: usize, limit: usize) -> Value {
        let width = self.schema.fields().len();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for row in offset..self.rows.min(offset.saturating_add(limit)) {
            if bytes >= MAX_PAGE {
                break;
            }
            let cells = &self.cells[row * width..(row + 1) * width];
            bytes += cells.iter().flatten().map(|cell| cell.len()).sum::<usize>();
            rows.push(json!(cells));
        }
        json!({"offset": offset, "rows": rows})
    }
}

/// Cuts a long value, and says so in it.
fn cut(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let gone = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("… ({gone} bytes more)"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    const FEW: Limit = Limit { rows: 5, bytes: 1000, cell_bytes: 4096 };

    fn batch(texts: &[Option<&str>]) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..texts.len() as i64);
        let columns: [(&str, ArrayRef); 2] =
            [("n", Arc::new(numbers)), ("s", Arc::new(StringArray::from(texts.to_vec())))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn rows_are_kept_up_to_a_limit() {
        let batch = batch(&[Some("<b>"), None, Some("z")]);
        let mut grid = Grid::new(batch.schema());
        assert!(grid.add(&batch, FEW).unwrap());
        assert_eq!(grid.about()["more"], false);
        assert!(!grid.add(&batch, FEW).unwrap());
        let about = grid.about();
        assert_eq!((&about["rows"], &about["more"]), (&json!(5), &json!(true)));
        assert_eq!(about["columns"][0], json!({"name": "n", "type": "BIGINT", "numeric": true}));
        assert_eq!(grid.page(1, 2)["rows"], json!([["1", null], ["2", "z"]]));
        assert_eq!(grid.page(4, 100)["rows"], json!([["1", null]]));
        assert_eq!(grid.page(99, 100)["rows"], json!([]));
        assert_eq!(grid.page(0, usize::MAX)["rows"].as_array().unwrap().len(), 5);
        assert_eq!(
            (grid.value(0, 1), grid.value(1, 1), grid.value(0, 2)),
            (Some("<b>"), None, None)
        );
    }

    #[test]
    fn long_values_and_pages_are_cut() {
        let long = "é".repeat(4096);
        let batch = batch(&vec![Some(long.as_str()); 2000]);
        let mut grid = Grid::new(batch.schema());
        grid.add(&batch, Limit { rows: 2000, bytes: usize::MAX, ..FEW }).unwrap();
        assert!(grid.value(0, 1).unwrap().ends_with("é… (4096 bytes more)"));
        let rows = grid.page(0, 2000)["rows"].as_array().unwrap().len();
        assert!(rows > 400 && rows < 600, "{rows}");
        let mut few = Grid::new(batch.schema());
        assert!(!few.add(&batch, Limit { rows: 2000, bytes: 10_000, ..FEW }).unwrap());
        assert!(few.bytes() < 20_000);
    }
}
