//! What the passes of this stage ask of the planner: [`Lookahead`].
//!
//! Names are resolved before a statement is planned. But what a function or a constant expression
//! is, only planning can tell. The planner stands above this stage, so it hands itself in. It also
//! binds a part of a statement as a statement of its own, where later passes decide how its columns
//! are called. A view is planned where it is named.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::sql::sqlparser::ast::{Query, Statement};
use swingdb_common::error::Result;

use crate::bind::catalogs::Catalogs;

/// See the [module documentation](self).
pub trait Lookahead {
    /// What names mean.
    fn view(&self) -> &Catalogs;

    /// Whether the engine has a function so named that stands for a table.
    fn is_table_function(&self, name: &str) -> bool;

    /// Whether the engine has a function of single rows so named.
    fn is_scalar(&self, name: &str) -> bool;

    /// Whether the engine has a function of single rows or of lists so named.
    fn is_of_rows(&self, name: &str) -> bool;

    /// Whether the engine has a window function so named.
    fn is_window(&self, name: &str) -> bool;

    /// Whether the engine has an aggregate function so named.
    fn is_aggregate(&self, name: &str) -> bool;

    /// Of an aggregate function, whether IGNORE NULLS and RESPECT NULLS mean something to it.
    fn aggregate_keeps_nulls(&self, name: &str) -> Option<bool>;

    /// The columns of whatever `name` stands for; `None` when it stands for nothing.
    fn columns(&self, name: &TableReference) -> Result<Option<SchemaRef>>;

    /// The columns of a query whose names are not resolved yet. The query is bound as a statement
    /// of its own. It is planned only if a function makes one of its relations, or if the columns
    /// are to be `typed` and one is an expression.
    fn columns_of(&self, query: Statement, typed: bool) -> Result<Known>;

    /// The values of a SELECT without FROM, all constant.
    fn constants(&self, query: Statement) -> Result<Vec<ScalarValue>>;

    /// The texts in the only column of a query, which is answered now, from the same view of the
    /// data; `None` where nothing can be asked. NULLs are left out.
    fn ask(&self, query: Query) -> Result<Option<Vec<String>>>;
}

/// Columns and their types.
pub(crate) type Columns = Vec<(Column, DataType)>;

/// Columns with their types; no type of what only planning an expression tells.
pub(crate) type Known = Vec<(Column, Option<DataType>)>;

/// Whether the types of all columns are known.
pub(crate) fn is_typed(columns: &Known) -> bool {
    columns.iter().all(|(_, data_type)| data_type.is_some())
}
