//! Small tables of texts, numbers and truth values, made row by row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float32Array, Int32Array, Int64Array, Int64Builder, ListBuilder,
    MapBuilder, RecordBatch, StringArray, StringBuilder,
};
use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use swingdb_common::error::{Error, Result};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    /// INTEGER
    Int,
    /// BIGINT
    Big,
    /// FLOAT
    Real,
    /// VARCHAR[]
    Texts,
    /// BIGINT[]
    Bigs,
    /// MAP(VARCHAR, VARCHAR), which is always empty.
    Tags,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Text(String),
    Bool(bool),
    Number(i64),
    Texts(Vec<String>),
    Numbers(Vec<i64>),
}

macro_rules! cell_from {
    ($($kind:ty => |$value:ident| $made:expr;)*) => {
        $(impl From<$kind> for Cell {
            fn from($value: $kind) -> Self {
                $made
            }
        })*
    };
}

cell_from! {
    &str => |value| Self::Text(value.to_string());
    &String => |value| Self::Text(value.clone());
    String => |value| Self::Text(value);
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Number(value);
    i32 => |value| Self::Number(value.into());
    usize => |value| Self::Number(i64::try_from(value).unwrap_or(i64::MAX));
    u64 => |value| Self::Number(i64::try_from(value).unwrap_or(i64::MAX));
    Vec<String> => |value| Self::Texts(value);
    Vec<i64> => |value| Self::Numbers(value);
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a row, each turned into a [`Cell`].
macro_rules! cells {
    ($($value:expr),* $(,)?) => { vec![$($crate::bind::system::rows::Cell::from($value)),*] };
}
pub(super) use cells;

/// A table that is being made.
pub(super) struct Rows {
    columns: &'static [(&'static str, Kind)],
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    pub(super) fn new(columns: &'static [(&'static str, Kind)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The table.
    pub(super) fn finish(self) -> Result<Arc<dyn TableProvider>> {
        if let Some(row) = self.rows.iter().find(|row| row.len() != self.columns.len()) {
            let (found, expected) = (row.len(), self.columns.len());
            return Err(Error::internal(format!("a row of {found} cells, not {expected}")));
        }
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (at, (_, kind)) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().map(|row| &row[at]);
            arrays.push(array(*kind, cells));
        }
        let fields = self.columns.iter().zip(&arrays);
        let fields =
            fields.map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

fn text(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn number(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    }
}

fn array<'a>(kind: Kind, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match kind {
        Kind::Text => Arc::new(cells.map(text).collect::<StringArray>()),
        Kind::Bool => Arc::new(
            cells
                .map(|cell| match cell {
                    Cell::Bool(truth) => Some(*truth),
                    _ => None,
                })
                .collect::<BooleanArray>(),
        ),
        Kind::Int => {
            let small = |cell| number(cell).and_then(|number| i32::try_from(number).ok());
            Arc::new(cells.map(small).collect::<Int32Array>())
        }
        Kind::Big => Arc::new(cells.map(number).collect::<Int64Array>()),
        Kind::Real => {
            Arc::new(cells.map(|cell| number(cell).map(|n| n as f32)).collect::<Float32Array>())
        }
        Kind::Texts => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                match cell {
                    Cell::Texts(texts) => lists.append_value(texts.iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        Kind::Bigs => {
            let mut lists = ListBuilder::new(Int64Builder::new());
            for cell in cells {
                match cell {
                    Cell::Numbers(numbers) => lists.append_value(numbers.iter().copied().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        Kind::Tags => {
            let mut tags = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
            // Appending an entry of no keys cannot fail: keys and values are equally many.
            cells.for_each(|_| drop(tags.append(true)));
            Arc::new(tags.finish())
        }
    }
}
