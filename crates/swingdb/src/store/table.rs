//! One version of a table: its definition, and its segments by pages.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::rowids::RowId;
use super::segment::{ColumnStats, Segment};
use crate::error::Result;

/// A column's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name.
    pub name: String,
    /// Arrow type.
    pub data_type: DataType,
    /// Whether it may hold NULLs.
    pub nullable: bool,
    /// The SQL expression of its default value.
    pub default_sql: Option<String>,
}

/// A rule over columns (indices into [`Table::columns`]). NULLs are distinct; the columns of a
/// primary key are NOT NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// The primary key.
    Primary(Vec<usize>),
    /// A UNIQUE constraint.
    Unique(Vec<usize>),
}

impl Constraint {
    /// The columns of the key.
    pub fn columns(&self) -> &[usize] {
        match self {
            Self::Primary(columns) | Self::Unique(columns) => columns,
        }
    }
}

/// What a table is made of, for `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// Schema it belongs to.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Keys.
    pub constraints: Vec<Constraint>,
}

/// One immutable version of a table.
#[derive(Debug)]
pub struct Table {}

impl Table {
    /// Stays the same while the table exists, whatever its name.
    pub fn id(&self) -> u64 {
        todo!()
    }

    /// Name of the schema it belongs to.
    pub fn schema_name(&self) -> &str {
        todo!()
    }

    /// Name.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Arrow schema of the columns.
    pub fn schema(&self) -> &SchemaRef {
        todo!()
    }

    /// Column definitions.
    pub fn columns(&self) -> &[ColumnDef] {
        todo!()
    }

    /// Keys.
    pub fn constraints(&self) -> &[Constraint] {
        todo!()
    }

    /// Live rows, exactly.
    pub fn row_count(&self) -> u64 {
        todo!()
    }

    /// Bytes of column data.
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// The segments in row order.
    pub fn segments(&self) -> Result<Arc<[Arc<Segment>]>> {
        todo!()
    }

    /// The rows `ids` in the given order, columns `projection`, copied into one batch.
    pub fn take(&self, _ids: &[RowId], _projection: &[usize]) -> Result<RecordBatch> {
        todo!()
    }

    /// Statistics of a column over all segments (computed once for a version). `sorted`: the whole
    /// table is in ascending order of this column.
    pub fn stats(&self, _column: usize) -> Result<ColumnStats> {
        todo!()
    }
}
