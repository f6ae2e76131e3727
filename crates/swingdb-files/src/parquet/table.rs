//! Parquet files as a table of a query, read by the engine's scan: row groups and pages are skipped
//! by their statistics.
//!
//! The footers are read, and checked, here and not by the engine. Of floating point columns it sees
//! no upper bounds: Parquet's leave out NaN, which is greater than all numbers, so whoever trusts
//! them loses rows. Each scan looks whether the files are still those whose footers it knows, and
//! each reader whether it opens the same file.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::provider_as_source;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::sql_name;
use swingdb_functions::text::uuids::as_uuid;

use crate::input::InputFile;
use crate::options::ImportOptions;
use crate::parquet::declared;
use crate::parquet::guarded_source::{GuardedSource, Progress};
use crate::parquet::known::{Identity, Known, changed};
use crate::parquet::scan::ParquetScan;
use crate::reading::file_columns::{Combined, FileColumns, Source};

/// Parquet files that a query reads.
pub(crate) struct ParquetTable {
    files: Vec<Entry>,
    places: FileColumns,
    combined: Combined,
    /// The files' columns that are not hidden by those of `places`, then these.
    table_schema: TableSchema,
    /// For each column of `combined` its place in `table_schema`.
    positions: Vec<usize>,
}

/// A file, and what is known of it.
struct Entry {
    input: InputFile,
    known: Mutex<Arc<Known>>,
}

/// A table, or files that it is not for.
pub(crate) enum Opened {
    Table(Arc<dyn TableProvider>),
    /// Files of whose intervals the engine's scan would give only parts.
    Intervals(Vec<InputFile>),
    /// Files that have other columns than the first one.
    Different(Vec<InputFile>),
}

impl ParquetTable {
    /// The table of these files, with texts for the columns whose bytes are UUIDs.
    pub(crate) fn open(files: Vec<InputFile>, options: &ImportOptions) -> Result<Opened> {
        let table = match Self::new(files, options)? {
            Ok(table) => table,
            Err(files) => return Ok(Opened::Different(files)),
        };
        if table.has_intervals()? {
            let files = table.files.into_iter().map(|entry| entry.input);
            return Ok(Opened::Intervals(files.collect()));
        }
        let uuids = table.uuids()?;
        let table: Arc<dyn TableProvider> = Arc::new(table);
        if uuids.is_empty() {
            return Ok(Opened::Table(table));
        }
        let rows = LogicalPlanBuilder::scan("files", provider_as_source(table), None)?;
        let columns = rows.schema().iter().map(|(relation, field)| {
            let column = Expr::Column((relation, field).into());
            let value = if uuids.contains(field.name()) { as_uuid(column) } else { column };
            value.alias(field.name())
        });
        let columns = columns.collect::<Vec<_>>();
        let rows = rows.project(columns)?.build()?;
        Ok(Opened::Table(Arc::new(ViewTable::new(rows, None))))
    }

    fn has_intervals(&self) -> Result<bool> {
        for entry in &self.files {
            let known = Arc::clone(&entry.known.lock());
            if !ParquetScan::interval_columns(&entry.input, &known.metadata)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names of the columns that Parquet says are UUIDs.
    fn uuids(&self) -> Result<Vec<String>> {
        let Some(first) = self.files.first() else { return Ok(Vec::new()) };
        let known = self.known(first)?;
        let roots = known.metadata.file_metadata().schema().get_fields();
        let own = self.table_schema.file_schema();
        let names = ParquetScan::uuid_columns(&known.metadata).into_iter();
        let names = names.filter_map(|at| roots.get(at)).map(|root| root.name().to_string());
        Ok(names.filter(|name| own.field_with_name(name).is_ok()).collect())
    }

    /// `Err`: files of different columns.
    fn new(
        files: Vec<InputFile>,
        options: &ImportOptions,
    ) -> Result<std::result::Result<Self, Vec<InputFile>>> {
        let places = FileColumns::find(&files, options)?;
        let mut schema: Option<SchemaRef> = None;
        let mut entries = Vec::with_capacity(files.len());
        for input in &files {
            let (known, found) = Known::load(input)?;
            match &schema {
                Some(first) if !ParquetScan::are_same(first, &found) => return Ok(Err(files)),
                Some(_) => {}
                None => schema = Some(found),
            }
            entries.push(Mutex::new(Arc::new(known)));
        }
        let schema = schema.ok_or_else(|| Error::internal("no Parquet file"))?;
        let combined = Combined::new(&schema, &places, options)?;
        let entries = files.into_iter().zip(entries);
        let entries = entries.map(|(input, known)| Entry { input, known }).collect();
        Ok(Ok(Self::of_columns(entries, &schema, combined, places)))
    }

    /// The table of files whose columns are known: those of `schema`, of which `places` has some.
    /// What a file does not have is NULL.
    pub(crate) fn declared(
        files: Vec<InputFile>,
        schema: SchemaRef,
        places: FileColumns,
    ) -> Result<Arc<dyn TableProvider>> {
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();
        let of_files = Combined::new(&schema, &places, &ImportOptions::default())?;
        let mut entries = Vec::new();
        for input in files {
            let (known, found) = Known::load(&input)?;
            for (field, source) in fields.iter_mut().zip(of_files.sources()) {
                if matches!(source, Source::File(_)) {
                    Self::check_declared(field, &found, &input)?;
                    // Parts of lists and maps have names that say nothing: those of the files, so
                    // that no value has to be converted.
                    let found = found.field_with_name(field.name());
                    if let Ok(found) = found.map(Field::data_type)
                        && declared::same(field.data_type(), found)
                    {
                        *field = Arc::new(Field::clone(field).with_data_type(found.clone()));
                    }
                }
            }
            entries.push(Entry { input, known: Mutex::new(Arc::new(known)) });
        }
        let schema = Arc::new(Schema::new(fields));
        let combined = Combined::new(&schema, &places, &ImportOptions::default())?;
        Ok(Arc::new(Self::of_columns(entries, &schema, combined, places)))
    }

    /// Refuses a file that has a column of another type, or lacks one that cannot be NULL.
    fn check_declared(wanted: &FieldRef, found: &SchemaRef, input: &InputFile) -> Result<()> {
        let name = wanted.name();
        let Ok(field) = found.field_with_name(name) else {
            return match wanted.is_nullable() {
                true => Ok(()),
                false => Err(input.broken(&format!("has no column {name:?}"))),
            };
        };
        match declared::fits(wanted.data_type(), field.data_type()) {
            true => Ok(()),
            false => Err(input.broken(&format!(
                "has {} as column {name:?}, which the table says is {}",
                sql_name(field.data_type()),
                sql_name(wanted.data_type())
            ))),
        }
    }

    fn of_columns(
        files: Vec<Entry>,
        schema: &SchemaRef,
        combined: Combined,
        places: FileColumns,
    ) -> Self {
        // The engine looks for columns by their names, so the files' may be fewer here.
        let of_file = |source: &Source| match source {
            Source::File(at) => Some(Arc::clone(&schema.fields()[*at])),
            Source::Path(_) => None,
        };
        let own: Vec<FieldRef> = combined.sources().iter().filter_map(of_file).collect();
        let count = own.len();
        let mut next = 0..count;
        let positions = combined.sources().iter().map(|source| match source {
            Source::File(_) => next.next().unwrap_or(count),
            Source::Path(at) => count + at,
        });
        let positions = positions.collect();
        let own = Schema::new_with_metadata(Fields::from(own), schema.metadata().clone());
        let table_schema = TableSchema::builder(Arc::new(own))
            .with_table_partition_cols(Fields::from(places.fields()))
            .build();
        Self { files, places, combined, table_schema, positions }
    }

    /// What is known of a file now.
    fn known(&self, entry: &Entry) -> Result<Arc<Known>> {
        let input = &entry.input;
        let found = Identity::now(input)?;
        let known = Arc::clone(&entry.known.lock());
        if known.identity == found {
            return Ok(known);
        }
        let (known, schema) = Known::load(input)?;
        for wanted in self.table_schema.file_schema().fields() {
            let same = schema.fields().iter().any(|field| {
                field.name() == wanted.name() && field.data_type() == wanted.data_type()
            });
            if !same {
                return Err(input.broken("has other columns than when the table was made"));
            }
        }
        let known = Arc::new(known);
        *entry.known.lock() = Arc::clone(&known);
        Ok(known)
    }

    /// The files as the engine takes them, and what is known of all rows.
    fn partitioned(&self) -> Result<(Vec<PartitionedFile>, Statistics)> {
        let mut files = Vec::new();
        for (number, entry) in self.files.iter().enumerate() {
            let known = self.known(entry)?;
            let values = self.places.values(number);
            let own = self.table_schema.file_schema();
            let of_file = DFParquetMetadata::statistics_from_parquet_metadata(&known.metadata, own);
            let mut statistics = of_file?;
            let rows = statistics.num_rows;
            statistics.column_statistics.extend(values.iter().map(|value| constant(value, rows)));
            statistics.calculate_total_byte_size(self.table_schema.table_schema());
            let path = known.path().to_string_lossy();
            let bytes = known.identity.bytes;
            let mut file = PartitionedFile::new(path, bytes).with_extension(Arc::clone(&known));
            file.partition_values = values.to_vec();
            file.statistics = Some(Arc::new(statistics));
            files.push(file);
        }
        let each = files.iter().filter_map(|file| file.statistics.as_deref());
        let all = Statistics::try_merge_iter(each, self.table_schema.table_schema())?;
        Ok((files, all))
    }
}

/// What is known of a column that has the same value in all rows.
fn constant(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    let mut known = ColumnStatistics::new_unknown();
    known.null_count = if value.is_null() { rows } else { Precision::Exact(0) };
    if !value.is_null() {
        known.min_value = Precision::Exact(value.clone());
        known.max_value = Precision::Exact(value.clone());
    }
    known
}

impl fmt::Debug for ParquetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.files.iter().map(|entry| &entry.input.path);
        f.debug_list().entries(paths.take(3)).finish()
    }
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        self.combined.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn EngineSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let (files, statistics) = self.partitioned()?;
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let positions = match projection {
            Some(projection) => projection.iter().map(|column| self.positions[*column]).collect(),
            None => self.positions.clone(),
        };
        // Nanoseconds of timestamps of 96 bits would wrap around beyond 1677 and 2262.
        let mut decoding = TableParquetOptions::default();
        decoding.global.coerce_int96 = Some("us".to_string());
        let source = ParquetSource::new(self.table_schema.clone())
            .with_table_parquet_options(decoding)
            .with_parquet_file_reader_factory(Arc::new(Readers));
        let source = Arc::new(GuardedSource::new(Arc::new(source)));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(Some(positions))?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// Makes readers of files whose footers are known.
#[derive(Debug)]
struct Readers;

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let known = file.extension::<Arc<Known>>().map(Arc::clone);
        let known = known.ok_or_else(|| Error::internal("a Parquet file without a footer"))?;
        let source = known.input.file_with(&[])?;
        let found = source.metadata().map_err(|error| Error::io(known.path(), error))?;
        if Identity::of(&known.input, &found) != known.identity {
            return Err(changed(known.path()).into());
        }
        let progress = file.extension::<Arc<Progress>>().map(Arc::clone).unwrap_or_default();
        Ok(Box::new(Reader { source, known, progress }))
    }
}

/// Reads from a local file, or from what was fetched of an object.
struct Reader {
    source: File,
    known: Arc<Known>,
    progress: Arc<Progress>,
}

impl Reader {
    fn read(&self, range: &Range<u64>) -> Result<Bytes, ParquetError> {
        self.progress.reads(range.start);
        let outside = || ParquetError::EOF("a part lies outside of the file".to_string());
        let length = range.end.checked_sub(range.start).ok_or_else(outside)?;
        // What is in the file fits the memory that may be asked for.
        let inside = range.end <= self.known.identity.bytes;
        let length = usize::try_from(length).ok().filter(|_| inside).ok_or_else(outside)?;
        let mut bytes = vec![0; length];
        self.source.read_exact_at(&mut bytes, range.start)?;
        Ok(Bytes::from(bytes))
    }

    fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ParquetError> {
        ranges.iter().map(|range| self.read(range)).collect()
    }

    /// Fetches what is not here, on a thread that may wait: those of the engine compute.
    async fn fetched(&self, ranges: &[Range<u64>]) -> Result<(), ParquetError> {
        let (input, ranges) = (self.known.input.clone(), ranges.to_vec());
        let fetched = SpawnedTask::spawn_blocking(move || input.need(&ranges)).join().await;
        let fetched = fetched.map_err(|error| ParquetError::External(error.into()))?;
        fetched.map_err(|error| ParquetError::External(error.into()))
    }
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        if self.known.input.has(std::slice::from_ref(&range)) {
            return ready(self.read(&range)).boxed();
        }
        async move {
            self.fetched(std::slice::from_ref(&range)).await?;
            self.read(&range)
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        if self.known.input.has(&ranges) {
            return ready(self.read_all(&ranges)).boxed();
        }
        async move {
            self.fetched(&ranges).await?;
            self.read_all(&ranges)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        ready(Ok(Arc::clone(&self.known.metadata))).boxed()
    }
}
