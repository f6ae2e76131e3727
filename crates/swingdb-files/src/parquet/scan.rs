//! Parquet files: row groups are decoded in parallel, each into batches of a segment.
//!
//! Strings and binaries arrive as views, dictionaries as their values: that is how tables keep
//! them. A damaged file may make the decoder panic; that too becomes an error with the file's name.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::file_format::parquet::Int96Coercer;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, TypePtr};
use swingdb_common::error::{Error, Result};
use swingdb_common::uuid;

use crate::input::InputFile;
use crate::input::decoder;
use crate::parquet::{chunks, damage, footer, intervals, widths};
use crate::reading::{FileSink, Run};

/// Adjacent row groups are read together until they have this many rows, so that files with very
/// small ones do not make very small segments.
const TASK_ROWS: i64 = 100_000;
/// Batches of one task are numbered below this.
const MAX_TASK_BATCHES: u64 = 1 << 24;

/// How a set of Parquet files is read.
pub(crate) struct ParquetScan {
    schema: SchemaRef,
    /// Columns whose 16 bytes are UUIDs.
    uuids: Vec<usize>,
    /// Columns of intervals that are decoded twice, in ascending order.
    intervals: Vec<usize>,
    files: Vec<ArrowReaderMetadata>,
    /// The same files with the months of these intervals; none where there are none.
    months: Vec<ArrowReaderMetadata>,
}

/// Row groups of one file that are read together.
struct Task {
    file: usize,
    row_groups: Vec<usize>,
    /// Compressed bytes, for progress.
    bytes: u64,
}

impl ParquetScan {
    /// Reads the footers; all files must have the columns of the first.
    pub(crate) fn open(files: &[InputFile]) -> Result<Self> {
        let mut scan: Option<Self> = None;
        for file in files {
            let metadata = Self::load(file)?;
            let intervals = Self::interval_columns(file, metadata.metadata())?;
            let scan = match &mut scan {
                None => {
                    let (schema, uuids) = (Arc::clone(metadata.schema()), Vec::new());
                    let (files, months) = (Vec::new(), Vec::new());
                    scan.insert(Self { schema, uuids, intervals, files, months })
                }
                Some(scan) => {
                    Self::same_columns(&scan.schema, metadata.schema(), file)?;
                    if scan.intervals != intervals {
                        return Err(file.broken("has other columns than the first file"));
                    }
                    scan
                }
            };
            if !scan.intervals.is_empty() {
                let of = || intervals::of_months(&metadata, &scan.intervals);
                scan.months.push(guarded(file, of)?);
            }
            scan.files.push(metadata);
        }
        let scan = scan.ok_or_else(|| Error::internal("no Parquet file"))?;
        Ok(scan.with_own_types())
    }

    /// The columns of intervals that the engine's scan would give without their months.
    pub(crate) fn interval_columns(
        file: &InputFile,
        metadata: &ParquetMetaData,
    ) -> Result<Vec<usize>> {
        guarded(file, || intervals::columns(metadata))
    }

    /// With texts for columns that Parquet says are UUIDs, and whole intervals.
    fn with_own_types(mut self) -> Self {
        let Some(file) = self.files.first() else { return self };
        self.uuids = Self::uuid_columns(file.metadata());
        let fields = self.schema.fields().iter().enumerate().map(|(at, field)| {
            match self.uuids.contains(&at) {
                true => Arc::new(uuid::marked(Field::clone(field))),
                false if self.intervals.contains(&at) => {
                    Arc::new(Field::clone(field).with_data_type(intervals::WHOLE))
                }
                false => Arc::clone(field),
            }
        });
        let fields = fields.collect::<Fields>();
        self.schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        self
    }

    /// The columns that are UUIDs, which the engine's scan gives as 16 bytes.
    pub(crate) fn uuid_columns(metadata: &ParquetMetaData) -> Vec<usize> {
        let roots = metadata.file_metadata().schema().get_fields().iter().enumerate();
        let is_uuid = |root: &TypePtr| {
            let of = root.get_basic_info().logical_type_ref();
            root.is_primitive() && matches!(of, Some(LogicalType::Uuid))
        };
        roots.filter(|(_, root)| is_uuid(root)).map(|(at, _)| at).collect()
    }

    /// What the decoder gives of these columns, with UUIDs as texts, and intervals with `months`.
    fn converted(
        &self,
        batch: RecordBatch,
        months: Option<&RecordBatch>,
        projection: Option<&[usize]>,
    ) -> Result<RecordBatch> {
        if self.uuids.is_empty() && self.intervals.is_empty() {
            return Ok(batch);
        }
        let mut given = projection.map_or_else(|| (0..batch.num_columns()).collect(), Vec::from);
        given.sort_unstable();
        given.dedup();
        let mut taken = 0..;
        let all = given.iter().zip(batch.columns()).map(|(at, column)| match () {
            () if self.uuids.contains(at) => uuid::canonical(column, false),
            () if self.intervals.contains(at) => {
                let at = taken.next().unwrap_or_default();
                intervals::whole(intervals::next_of(months, at)?, column)
            }
            () => Ok(Arc::clone(column)),
        });
        let columns = all.collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(self.schema.project(&given)?);
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
    }

    /// Reads and checks a file's footer.
    pub(crate) fn load(file: &InputFile) -> Result<ArrowReaderMetadata> {
        guarded(file, || load(file))
    }

    /// Runs what may find a file damaged.
    pub(crate) fn of_file<T>(
        file: &InputFile,
        decode: impl FnOnce() -> Result<T, ParquetError>,
    ) -> Result<T> {
        guarded(file, decode)
    }

    /// Refuses a file whose columns are not those of the first one.
    pub(crate) fn same_columns(first: &Schema, found: &Schema, file: &InputFile) -> Result<()> {
        match Self::are_same(first, found) {
            true => Ok(()),
            false => Err(file.broken("has other columns than the first file")),
        }
    }

    /// Whether two files have the same columns.
    pub(crate) fn are_same(first: &Schema, found: &Schema) -> bool {
        let mut pairs = first.fields().iter().zip(found.fields());
        let same = pairs.all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
        same && first.fields().len() == found.fields().len()
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Reads all files; see [`crate::file_scan::FileScan::run`].
    pub(crate) fn run(
        &self,
        files: &[InputFile],
        run: &Run<'_>,
        sink: &FileSink<'_>,
    ) -> Result<()> {
        let mut tasks = self.tasks().into_iter().enumerate();
        // The number of a task is that of its first batch.
        let first = |number: usize| number as u64 * MAX_TASK_BATCHES;
        let next = || Ok(tasks.next().map(|(number, task)| (first(number), task)));
        let work = |begin: u64, task: Task| {
            let file = &files[task.file];
            let placed = |error| self.placed(error, file, &task);
            let mut reader = guarded(file, || self.reader(file, &task, run)).map_err(placed)?;
            let months = guarded(file, || self.month_reader(file, &task, run));
            let mut months = months.map_err(placed)?;
            let mut order = begin;
            loop {
                run.check()?;
                let batch = guarded(file, || Ok(reader.next().transpose()?)).map_err(placed)?;
                let Some(batch) = batch else { break };
                let months = match &mut months {
                    Some(months) => {
                        guarded(file, || Ok(months.next().transpose()?)).map_err(placed)?
                    }
                    None => None,
                };
                let batch = self.converted(batch, months.as_ref(), run.projection)?;
                sink(order, task.file, batch)?;
                order += 1;
            }
            run.meter.add(task.bytes);
            // Numbers need not follow each other.
            let next = begin + MAX_TASK_BATCHES;
            run.turnstile.map_or(Ok(()), |turnstile| turnstile.skip(order, next))
        };
        run.in_parallel(next, work)
    }

    /// The error, with the column and the row group that are damaged if they are found.
    fn placed(&self, error: Error, file: &InputFile, task: &Task) -> Error {
        if !matches!(error, Error::Import { .. }) {
            return error;
        }
        let metadata = &self.files[task.file];
        let found = file
            .file_with(&self.ranges(task, None))
            .ok()
            .and_then(|source| damage::find(&source, metadata, task.row_groups.iter().copied()));
        found.map_or(error, |damage| file.broken(&damage.to_string()))
    }

    /// Where the bytes of a task lie that are read.
    fn ranges(&self, task: &Task, read: Option<&ProjectionMask>) -> Vec<Range<u64>> {
        let groups = self.files[task.file].metadata().row_groups();
        let groups = task.row_groups.iter().filter_map(|group| groups.get(*group));
        groups.flat_map(|group| chunks::ranges(group, read)).collect()
    }

    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (file, metadata) in self.files.iter().enumerate() {
            let mut task = Task { file, row_groups: Vec::new(), bytes: 0 };
            let mut rows = 0;
            for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
                task.row_groups.push(number);
                task.bytes += group.compressed_size().unsigned_abs();
                rows += group.num_rows();
                if rows >= TASK_ROWS {
                    let empty = Task { file, row_groups: Vec::new(), bytes: 0 };
                    tasks.push(std::mem::replace(&mut task, empty));
                    rows = 0;
                }
            }
            if !task.row_groups.is_empty() {
                tasks.push(task);
            }
        }
        tasks
    }

    fn reader(
        &self,
        file: &InputFile,
        task: &Task,
        run: &Run<'_>,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let metadata = self.files[task.file].clone();
        self.reader_of(metadata, file, task, run.batch_rows, run.projection)
    }

    /// What decodes the months of the intervals among the columns that are read, in the same steps.
    fn month_reader(
        &self,
        file: &InputFile,
        task: &Task,
        run: &Run<'_>,
    ) -> Result<Option<ParquetRecordBatchReader>, ParquetError> {
        let Some(metadata) = self.months.get(task.file) else { return Ok(None) };
        let is_read = |at: &usize| run.projection.is_none_or(|columns| columns.contains(at));
        let columns: Vec<usize> = self.intervals.iter().copied().filter(is_read).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let metadata = metadata.clone();
        self.reader_of(metadata, file, task, run.batch_rows, Some(&columns)).map(Some)
    }

    fn reader_of(
        &self,
        metadata: ArrowReaderMetadata,
        file: &InputFile,
        task: &Task,
        batch_rows: usize,
        projection: Option<&[usize]>,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mask = projection.map(|projection| {
            ProjectionMask::roots(metadata.parquet_schema(), projection.iter().copied())
        });
        let source = file.file_with(&self.ranges(task, mask.as_ref()));
        let source = source.map_err(|error| ParquetError::External(error.into()))?;
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
            .with_row_groups(task.row_groups.clone())
            .with_batch_size(widths::batch_rows(&self.schema, batch_rows));
        if let Some(mask) = mask {
            builder = builder.with_projection(mask);
        }
        builder.build()
    }
}

fn load(file: &InputFile) -> Result<ArrowReaderMetadata, ParquetError> {
    let outside = |error: Error| ParquetError::External(error.into());
    let source = file.file_with(&[footer::tail(file.bytes)]).map_err(outside)?;
    let place = footer::place(&source, file.bytes)?;
    file.need(place.as_slice()).map_err(outside)?;
    footer::check(&source, place)?;
    let plain = ArrowReaderMetadata::load(&source, ArrowReaderOptions::new())?;
    chunks::check(plain.metadata(), file.bytes)?;
    widths::check(plain.schema())?;
    let schema = with_views(&with_whole_micros(plain.schema(), plain.parquet_schema()));
    if &schema == plain.schema() {
        return Ok(plain);
    }
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options)
}

/// The schema with microseconds for timestamps of 96 bits: nanoseconds would only reach from 1677
/// to 2262, and wrap around beyond.
fn with_whole_micros(schema: &SchemaRef, described: &SchemaDescriptor) -> SchemaRef {
    let is_96 = |column: &ColumnDescPtr| column.physical_type() == PhysicalType::INT96;
    if !described.columns().iter().any(is_96) {
        return Arc::clone(schema);
    }
    let coerced = Int96Coercer::new(described, schema, &TimeUnit::Microsecond).coerce();
    coerced.map_or_else(|| Arc::clone(schema), Arc::new)
}

/// The schema with views for strings and binaries, and values instead of dictionaries.
pub(crate) fn with_views(schema: &SchemaRef) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(view_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn view_field(field: &FieldRef) -> FieldRef {
    let data_type = view_type(field.data_type());
    match &data_type == field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

fn view_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => view_type(values),
        DataType::List(item) => DataType::List(view_field(item)),
        DataType::LargeList(item) => DataType::LargeList(view_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(view_field).collect()),
        other => other.clone(),
    }
}

/// Runs a decoder; its errors and panics become errors about the file.
fn guarded<T>(file: &InputFile, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match decoder::run(decode) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damage::error(&file.path, error)),
        Err(_) => Err(file.broken(damage::GAVE_UP)),
    }
}
