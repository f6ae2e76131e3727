//! Appending row by row: [`Appender`].
//!
//! Rows gather in typed column builders and go into the table a segment at a time, so that a row
//! costs little more than storing its values. A value is checked when it is appended: an error
//! names the row and the column, the row is not part of the buffer, and the appender goes on.
//!
//! What is flushed is committed (or part of the session's open transaction). **Dropping an appender
//! drops the rows that are not flushed**: an appender that goes out of scope because of an error
//! must not write. End with [`Appender::finish`].
//!
//! ```
//! # let home = tempfile::tempdir_in("/dev/shm").unwrap();
//! use swingdb::{Database, Value};
//! let database = Database::private_in(home.path())?;
//! let con = database.connect();
//! con.query("CREATE TABLE city (name VARCHAR NOT NULL, people BIGINT)")?;
//! let mut city = con.appender("city")?;
//! city.append_row(&["Oslo".into(), 717_710.into()])?;
//! city.append_row(&["Bergen".into(), Value::Null])?;
//! assert_eq!(city.finish()?, 2);
//! # Ok::<(), swingdb::Error>(())
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::ObjectName;
use swingdb_common::cast::convert::{Origin, relabel};
use swingdb_common::error::{ConstraintKind, Error, Result};
use swingdb_common::value::Value;
use swingdb_store::{SEGMENT_ROWS, Table};

use crate::execute::append::append_name;
use crate::execute::atomic::with_txn;
use crate::execute::dml::literals::column_of;
use crate::execute::target::target;
use crate::session::{Session, temporary};

/// Appends rows to a table through a buffer; see the [module documentation](self).
///
/// Made by [`Connection::appender`](crate::Connection::appender). Rows are flushed when a segment
/// (131 072 rows) is full, by [`flush`](Self::flush) and by [`finish`](Self::finish).
pub struct Appender {
    session: Arc<Session>,
    name: ObjectName,
    table: Arc<Table>,
    columns: Vec<Column>,
    buffered: usize,
    flushed: u64,
}

impl Appender {
    pub(crate) fn new(session: Arc<Session>, name: &str) -> Result<Self> {
        let (session, name) = temporary::of_table(&session, &append_name(name));
        let table = target(&session, &session.catalog(), &name)?.table;
        if table.given_columns().len() < table.columns().len() {
            return Err(Error::unsupported(
                "an appender of a table with generated columns; append Arrow batches, or INSERT",
            ));
        }
        let columns = table.columns().iter().map(|c| Column::new(&c.data_type)).collect();
        Ok(Self { session, name, table, columns, buffered: 0, flushed: 0 })
    }

    /// Appends one row: a value for each column, in the table's order.
    pub fn append_row(&mut self, row: &[Value]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::plan(format!(
                "table {:?} has {} columns, and row {} has {} values",
                self.table.name(),
                self.columns.len(),
                self.flushed + self.buffered as u64 + 1,
                row.len()
            )));
        }
        for (index, value) in row.iter().enumerate() {
            if let Err(error) = self.append_value(index, value) {
                self.shorten(index);
                return Err(error);
            }
        }
        self.buffered += 1;
        if self.buffered >= SEGMENT_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    /// Puts the buffered rows into the table; their number. On an error (a duplicate key, no
    /// memory) none of them is in the table, and the buffer is empty.
    pub fn flush(&mut self) -> Result<u64> {
        if self.buffered == 0 {
            return Ok(0);
        }
        let rows = std::mem::take(&mut self.buffered);
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let schema: SchemaRef = Arc::clone(self.table.schema());
        let batch = relabel(arrays, &schema, rows)?;
        let _one_at_a_time = self.session.lock_statement()?;
        let appended = with_txn(&self.session, |txn| {
            let target = target(&self.session, &txn.view(), &self.name)?;
            if target.table.schema() != &schema {
                return Err(Error::plan(format!(
                    "table {:?} was altered while rows were being appended",
                    target.name
                )));
            }
            txn.append(&target.schema, &target.name, std::slice::from_ref(&batch))
        })?;
        self.flushed += appended;
        Ok(appended)
    }

    /// Flushes and ends; the number of rows appended in all.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.flushed)
    }

    /// Rows appended and not flushed yet.
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// The columns of the table, in the order of a row.
    pub fn schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    fn append_value(&mut self, index: usize, value: &Value) -> Result<()> {
        let column = &self.table.columns()[index];
        let row = self.flushed + self.buffered as u64;
        if !column.nullable && is_null(value) {
            return Err(Error::Constraint {
                table: self.table.name().to_string(),
                kind: ConstraintKind::NotNull,
                columns: vec![column.name.clone()],
                detail: format!("row {} has a NULL", row + 1),
            });
        }
        if self.columns[index].push(value) {
            return Ok(());
        }
        // Not the builder's own type: converted alone, by the rules of INSERT.
        let zone = self.session.zone();
        let array = column_of(vec![value.to_scalar()], &column.field(), Origin::rows(row), zone)?;
        self.columns[index].push_converted(ScalarValue::try_from_array(&array, 0)?, &array)
    }

    /// Takes back the values of an unfinished row from the first columns.
    fn shorten(&mut self, columns: usize) {
        for column in &mut self.columns[..columns] {
            column.drop_last(self.buffered);
        }
    }
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appender")
            .field("table", &self.name)
            .field("buffered", &self.buffered)
            .field("flushed", &self.flushed)
            .finish_non_exhaustive()
    }
}

fn is_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Scalar(scalar) => scalar.is_null(),
        _ => false,
    }
}

/// The buffer of one column: a typed builder for the common types, values otherwise.
struct Column {
    builder: Builder,
    data_type: DataType,
}

enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    TextView(StringViewBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Values(Vec<ScalarValue>),
}

/// Runs `$body` with `$b` bound to whichever Arrow builder it is.
macro_rules! each_builder {
    ($builder:expr, $b:ident => $body:expr, $values:ident => $other:expr) => {
        match $builder {
            Builder::Bool($b) => $body,
            Builder::Int16($b) => $body,
            Builder::Int32($b) => $body,
            Builder::Int64($b) => $body,
            Builder::Float32($b) => $body,
            Builder::Float64($b) => $body,
            Builder::Text($b) => $body,
            Builder::TextView($b) => $body,
            Builder::Timestamp($b) => $body,
            Builder::Values($values) => $other,
        }
    };
}

impl Column {
    fn new(data_type: &DataType) -> Self {
        let builder = match data_type {
            DataType::Boolean => Builder::Bool(BooleanBuilder::new()),
            DataType::Int16 => Builder::Int16(Int16Builder::new()),
            DataType::Int32 => Builder::Int32(Int32Builder::new()),
            DataType::Int64 => Builder::Int64(Int64Builder::new()),
            DataType::Float32 => Builder::Float32(Float32Builder::new()),
            DataType::Float64 => Builder::Float64(Float64Builder::new()),
            DataType::Utf8 => Builder::Text(StringBuilder::new()),
            DataType::Utf8View => Builder::TextView(StringViewBuilder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Builder::Timestamp(TimestampMicrosecondBuilder::new())
            }
            _ => Builder::Values(Vec::new()),
        };
        Self { builder, data_type: data_type.clone() }
    }

    /// Appends a value that needs no conversion; `false` when it needs one.
    fn push(&mut self, value: &Value) -> bool {
        match (&mut self.builder, value) {
            (Builder::Values(values), Value::Null) => {
                match ScalarValue::try_from(&self.data_type) {
                    Ok(null) => values.push(null),
                    Err(_) => return false,
                }
            }
            (builder, Value::Null) => {
                each_builder!(
                    builder,
                    b => b.append_null(),
                    values => values.push(ScalarValue::Null)
                );
            }
            (Builder::Bool(b), Value::Bool(v)) => b.append_value(*v),
            (Builder::Int16(b), Value::Int64(v)) => match i16::try_from(*v) {
                Ok(v) => b.append_value(v),
                Err(_) => return false,
            },
            (Builder::Int32(b), Value::Int64(v)) => match i32::try_from(*v) {
                Ok(v) => b.append_value(v),
                Err(_) => return false,
            },
            (Builder::Int64(b), Value::Int64(v)) => b.append_value(*v),
            (Builder::Float32(b), Value::Float64(v)) => b.append_value(*v as f32),
            (Builder::Float64(b), Value::Float64(v)) => b.append_value(*v),
            (Builder::Text(b), Value::Text(v)) => b.append_value(v),
            (Builder::TextView(b), Value::Text(v)) => b.append_value(v),
            (Builder::Timestamp(b), Value::Timestamp(v, None)) => b.append_value(*v),
            _ => return false,
        }
        true
    }

    /// Appends a value that has the column's type.
    fn push_converted(&mut self, value: ScalarValue, array: &ArrayRef) -> Result<()> {
        use arrow::array::AsArray;
        use arrow::datatypes as t;
        if array.is_null(0) {
            self.push(&Value::Null);
            return Ok(());
        }
        match &mut self.builder {
            Builder::Bool(b) => b.append_value(array.as_boolean().value(0)),
            Builder::Int16(b) => b.append_value(array.as_primitive::<t::Int16Type>().value(0)),
            Builder::Int32(b) => b.append_value(array.as_primitive::<t::Int32Type>().value(0)),
            Builder::Int64(b) => b.append_value(array.as_primitive::<t::Int64Type>().value(0)),
            Builder::Float32(b) => b.append_value(array.as_primitive::<t::Float32Type>().value(0)),
            Builder::Float64(b) => b.append_value(array.as_primitive::<t::Float64Type>().value(0)),
            Builder::Text(b) => b.append_value(array.as_string::<i32>().value(0)),
            Builder::TextView(b) => b.append_value(array.as_string_view().value(0)),
            Builder::Timestamp(b) => {
                b.append_value(array.as_primitive::<t::TimestampMicrosecondType>().value(0));
            }
            Builder::Values(values) => values.push(value),
        }
        Ok(())
    }

    /// Keeps the first `rows` values: builders cannot take a value back, so they are made anew.
    /// Only after an error, so what it costs does not matter.
    fn drop_last(&mut self, rows: usize) {
        if let Builder::Values(values) = &mut self.builder {
            values.truncate(rows);
            return;
        }
        let array = each_builder!(
            &mut self.builder,
            b => Arc::new(b.finish()) as ArrayRef,
            _values => return
        );
        for row in 0..rows.min(array.len()) {
            // The array was made by a builder of this type, so its values are of it.
            let Ok(value) = ScalarValue::try_from_array(&array, row) else { continue };
            if self.push_converted(value, &array.slice(row, 1)).is_err() {
                return;
            }
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        if let Builder::Values(values) = &mut self.builder {
            return Ok(ScalarValue::iter_to_array(std::mem::take(values))?);
        }
        Ok(each_builder!(
            &mut self.builder,
            b => Arc::new(b.finish()) as ArrayRef,
            _values => arrow::array::new_empty_array(&self.data_type)
        ))
    }
}
