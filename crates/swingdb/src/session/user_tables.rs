//! Functions that a program adds to a session and that are called as tables: [`TableFunction`].
//!
//! A statement asks for the columns when it is planned and for the rows when it runs; it may ask
//! for the rows several times, as a join of the table with itself does. Rows come in pieces, by one
//! thread, and no further piece is asked for once the statement has enough or ends.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{
    Session as EngineSession, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use swingdb_common::cast::convert::{Origin, convert_array};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel;
use swingdb_common::time::zones::Zone;

/// The pieces of a table.
pub type Pieces = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The columns for some arguments, which are arrays of one value.
pub type ColumnsCall = Arc<dyn Fn(&[ArrayRef]) -> Result<SchemaRef> + Send + Sync>;

/// The rows for some arguments. Their columns are those declared, by name, or by position where no
/// name is known; values are cast where none is lost.
pub type RowsCall = Arc<dyn Fn(&[ArrayRef]) -> Result<Pieces> + Send + Sync>;

/// A function of tables as
/// [`Connection::create_table_function`](crate::Connection::create_table_function) takes it.
pub struct TableFunction {
    /// Its name in SQL, in lower case.
    pub name: String,
    /// The types of its arguments, which are constants.
    pub arguments: Vec<DataType>,
    /// The columns.
    pub columns: ColumnsCall,
    /// The rows.
    pub rows: RowsCall,
}

impl TableFunction {
    /// The function as the query engine knows it.
    pub(crate) fn into_udtf(self) -> Arc<dyn TableFunctionImpl> {
        Arc::new(UserTable(Arc::new(self)))
    }

    fn argument(&self, place: usize, expr: &Expr, zone: Zone) -> Result<ArrayRef> {
        let Expr::Literal(value, _) = expr else {
            let message = format!("argument {} of {} is no constant: {expr}", place + 1, self.name);
            return Err(Error::plan(message));
        };
        let field =
            Field::new(format!("argument {}", place + 1), self.arguments[place].clone(), true);
        convert_array(&value.to_array()?, &field, Origin::UNNUMBERED, zone)
    }
}

struct UserTable(Arc<TableFunction>);

impl fmt::Debug for UserTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserTable").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl TableFunctionImpl for UserTable {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> EngineResult<Arc<dyn TableProvider>> {
        let (function, given) = (&self.0, args.exprs());
        let (name, taken) = (&function.name, function.arguments.len());
        if given.len() != taken {
            let plural = if taken == 1 { "" } else { "s" };
            let message =
                format!("{name}(...) takes {taken} argument{plural}, and has {} here", given.len());
            return Err(Error::plan(message).into());
        }
        let zone = Zone::of(args.session().config_options());
        let arguments = given
            .iter()
            .enumerate()
            .map(|(place, expr)| function.argument(place, expr, zone))
            .collect::<Result<Vec<_>>>()?;
        let schema = (function.columns)(&arguments)?;
        let rows = Rows { function: Arc::clone(function), arguments, schema, zone, wanted: None };
        Ok(Arc::new(rows))
    }
}

/// A call of the function.
#[derive(Clone)]
struct Rows {
    function: Arc<TableFunction>,
    arguments: Vec<ArrayRef>,
    /// The columns of the function, or those of them that are wanted.
    schema: SchemaRef,
    zone: Zone,
    /// The columns of the function and which of them are wanted, in a scan.
    wanted: Option<(SchemaRef, Vec<usize>)>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("name", &self.function.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn EngineSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let mut scan = self.clone();
        if let Some(projection) = projection {
            scan.schema = Arc::new(self.schema.project(projection)?);
            scan.wanted = Some((Arc::clone(&self.schema), projection.clone()));
        }
        let schema = Arc::clone(&scan.schema);
        let parts: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(scan)];
        // The projection is already applied.
        let exec = StreamingTableExec::try_new(schema, parts, None, Vec::new(), false, limit)?;
        Ok(Arc::new(exec))
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let this = self.clone();
        let mut pieces: Option<Pieces> = None;
        let mut before = 0;
        let mut next = move || -> Result<Option<RecordBatch>> {
            cancel::check()?;
            let pieces = match &mut pieces {
                Some(pieces) => pieces,
                None => pieces.insert((this.function.rows)(&this.arguments)?),
            };
            let Some(piece) = pieces.next() else { return Ok(None) };
            let piece = this.converted(&piece?, before)?;
            before += piece.num_rows() as u64;
            Ok(Some(piece))
        };
        let rows = std::iter::from_fn(move || next().map_err(DataFusionError::from).transpose());
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(rows),
        ))
    }
}

impl Rows {
    /// A piece in the form of the columns that are wanted; `before` is the number of rows before.
    fn converted(&self, piece: &RecordBatch, before: u64) -> Result<RecordBatch> {
        let (all, wanted) = match &self.wanted {
            Some((all, wanted)) => (all, wanted.clone()),
            None => (&self.schema, (0..self.schema.fields().len()).collect()),
        };
        let places = self.places(&piece.schema(), all)?;
        let column = |place: usize| {
            let array = piece.column(places[place]);
            convert_array(array, all.field(place), Origin::rows(before), self.zone)
        };
        let columns = wanted.into_iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(piece.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Where each declared column is in a piece: by name, or by position where no name is known.
    fn places(&self, given: &Schema, declared: &Schema) -> Result<Vec<usize>> {
        let known: Vec<String> = given.fields().iter().map(|f| f.name().clone()).collect();
        let count = (known.len(), declared.fields().len());
        if count.0 != count.1 {
            let message = format!(
                "the function {} gave {} columns, and has {} declared",
                self.function.name, count.0, count.1
            );
            return Err(Error::Execution { message });
        }
        let names = declared.fields().iter().map(|field| field.name());
        let place = |wanted: &str| {
            let exact = known.iter().position(|name| name == wanted);
            exact.or_else(|| known.iter().position(|name| name.eq_ignore_ascii_case(wanted)))
        };
        let found: Vec<Option<usize>> = names.clone().map(|name| place(name)).collect();
        if found.iter().all(Option::is_none) {
            return Ok((0..known.len()).collect());
        }
        let each = found.into_iter().zip(names).map(|(place, name)| {
            place.ok_or_else(|| Error::not_found(ObjectKind::Column, name.as_str(), known.iter()))
        });
        each.collect()
    }
}
