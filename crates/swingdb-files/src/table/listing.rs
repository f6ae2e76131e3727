//! Files as rows: `glob('pattern')` has their names, `read_text` and `read_blob` their contents.
//!
//! Names are found when a statement is planned. Contents are read while it runs, one file at a
//! time, and only where a query asks for them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::{
    ArrayRef, BinaryViewArray, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{
    Session as EngineSession, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use swingdb_common::error::{Error, Result};

use crate::input::{MAX_FILES, check_local, is_pattern, no_such_file};
use crate::table::arguments::paths;

/// The longest file that is a value: lengths of values have 31 bits.
const MAX_CONTENT_BYTES: u64 = i32::MAX as u64;

/// What a function says of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Names,
    Texts,
    Blobs,
}

/// The functions of this file.
pub(crate) fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 3] {
    [("glob", Kind::Names), ("read_text", Kind::Texts), ("read_blob", Kind::Blobs)].map(
        |(name, kind)| -> (&'static str, Arc<dyn TableFunctionImpl>) {
            (name, Arc::new(Listing { name, kind }))
        },
    )
}

#[derive(Debug)]
struct Listing {
    name: &'static str,
    kind: Kind,
}

impl TableFunctionImpl for Listing {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let [given] = args.exprs() else { return Err(self.usage().into()) };
        let Some(patterns) = paths(given) else { return Err(self.usage().into()) };
        let mut files = Vec::new();
        for pattern in &patterns {
            find(pattern, self.kind, &mut files).map_err(DataFusionError::from)?;
        }
        match self.kind {
            Kind::Names => names(&files),
            kind => Ok(Arc::new(Contents { files, kind, schema: schema(kind) })),
        }
    }
}

impl Listing {
    fn usage(&self) -> Error {
        let name = self.name;
        let message =
            format!("{name} takes a file name or pattern, or a list of them: {name}('*')");
        Error::plan(message)
    }
}

/// The columns of `read_text` and `read_blob`.
fn schema(kind: Kind) -> SchemaRef {
    let content = if kind == Kind::Texts { DataType::Utf8View } else { DataType::BinaryView };
    let moment = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("filename", DataType::Utf8View, true),
        Field::new("content", content, true),
        Field::new("size", DataType::Int64, true),
        Field::new("last_modified", moment, true),
    ]))
}

/// Adds the files that a pattern matches, in order of their names. A name that is no pattern is an
/// error where its contents are wanted and it is not there.
fn find(pattern: &str, kind: Kind, files: &mut Vec<PathBuf>) -> Result<()> {
    check_local(pattern)?;
    let pattern = pattern.strip_prefix("file://").unwrap_or(pattern);
    if !is_pattern(pattern) {
        match Path::new(pattern).is_file() {
            true => files.push(PathBuf::from(pattern)),
            false if kind == Kind::Names => {}
            false => return Err(no_such_file(pattern)),
        }
        return Ok(());
    }
    let entries = glob::glob(pattern)
        .map_err(|error| Error::plan(format!("{pattern:?} is no file name pattern: {error}")))?;
    for entry in entries {
        let path = entry.map_err(|error| Error::io(error.path().to_path_buf(), error.into()))?;
        if !path.is_file() {
            continue;
        }
        if files.len() == MAX_FILES {
            return Err(Error::plan(format!("{pattern:?} matches more than {MAX_FILES} files")));
        }
        files.push(path);
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn names(files: &[PathBuf]) -> datafusion::error::Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::Utf8View, true)]));
    let names: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(files.iter().map(|file| name_of(file))));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![names])?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// Files whose contents are values.
#[derive(Clone)]
struct Contents {
    files: Vec<PathBuf>,
    kind: Kind,
    /// The columns that are wanted.
    schema: SchemaRef,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Contents {
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
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let wanted = Self { schema: Arc::clone(&schema), ..self.clone() };
        let parts: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(wanted)];
        // The projection is already applied.
        let exec = StreamingTableExec::try_new(schema, parts, None, Vec::new(), false, limit)?;
        Ok(Arc::new(exec))
    }
}

impl PartitionStream for Contents {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let this = self.clone();
        let rows = (0..self.files.len())
            .map(move |at| this.row(&this.files[at]).map_err(DataFusionError::from));
        let rows = futures::stream::iter(rows);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

impl Contents {
    /// The row of one file.
    fn row(&self, path: &Path) -> Result<RecordBatch> {
        let facts = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
        let column = |field: &Arc<Field>| -> Result<ArrayRef> {
            Ok(match field.name().as_str() {
                "filename" => Arc::new(StringViewArray::from_iter_values([name_of(path)])),
                "size" => Arc::new(Int64Array::from(vec![i64::try_from(facts.len()).ok()])),
                "last_modified" => {
                    let since =
                        facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                    let micros = since.and_then(|since| i64::try_from(since.as_micros()).ok());
                    Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
                }
                _ => self.content(path, facts.len())?,
            })
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn content(&self, path: &Path, length: u64) -> Result<ArrayRef> {
        let broken =
            |message: String| Error::Import { path: path.to_path_buf(), line: None, message };
        if length > MAX_CONTENT_BYTES {
            return Err(broken(format!(
                "has {length} bytes; a value has {MAX_CONTENT_BYTES} at most"
            )));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        if self.kind == Kind::Blobs {
            return Ok(Arc::new(BinaryViewArray::from_iter_values([bytes])));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| broken("is not valid UTF-8; read_blob takes any bytes".to_string()))?;
        Ok(Arc::new(StringViewArray::from_iter_values([text])))
    }
}
