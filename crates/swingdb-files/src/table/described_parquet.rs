//! What Parquet files tell of themselves: `parquet_schema`, `parquet_metadata`,
//! `parquet_file_metadata` and `parquet_kv_metadata`, as DuckDB has them.
//!
//! The footers are read when a statement is planned; their values are rows of it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::array::{BinaryViewArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ConvertedType, LogicalType};
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::Type;
use swingdb_common::cast::normalize::as_text;
use swingdb_common::error::{Error, Result};

use crate::input::{InputFile, find_read};
use crate::options::FileFormat;
use crate::parquet::scan::ParquetScan;
use crate::table::arguments::paths;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A row for each element of the schema.
    Schema,
    /// A row for each column of each row group.
    Chunks,
    /// A row for each file.
    File,
    /// A row for each key that a writer has put into a file.
    Keys,
}

/// The functions of this file.
pub(crate) fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 4] {
    [
        ("parquet_schema", Kind::Schema),
        ("parquet_metadata", Kind::Chunks),
        ("parquet_file_metadata", Kind::File),
        ("parquet_kv_metadata", Kind::Keys),
    ]
    .map(|(name, kind)| -> (&'static str, Arc<dyn TableFunctionImpl>) {
        (name, Arc::new(Described { name, kind }))
    })
}

#[derive(Debug)]
struct Described {
    name: &'static str,
    kind: Kind,
}

impl TableFunctionImpl for Described {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let given = match args.exprs() {
            [given] => paths(given),
            _ => None,
        };
        let Some(patterns) = given else {
            let name = self.name;
            let usage =
                format!("{name} takes a file name or pattern, or a list of them: {name}('*')");
            return Err(Error::plan(usage).into());
        };
        let mut rows = Rows::new(self.kind);
        for pattern in &patterns {
            let found = find_read(pattern, Some(FileFormat::Parquet));
            for file in found.map_err(DataFusionError::from)? {
                rows.add(&file).map_err(DataFusionError::from)?;
            }
        }
        rows.table()
    }
}

/// The values of one column.
enum Cells {
    Texts(Vec<Option<String>>),
    Numbers(Vec<Option<i64>>),
    Flags(Vec<Option<bool>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

/// One value.
enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
    Flag(Option<bool>),
    Bytes(Option<Vec<u8>>),
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(Some(value.into()))
}

fn number(value: impl TryInto<i64>) -> Cell {
    Cell::Number(value.try_into().ok())
}

impl Cells {
    fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Texts(all), Cell::Text(value)) => all.push(value),
            (Self::Numbers(all), Cell::Number(value)) => all.push(value),
            (Self::Flags(all), Cell::Flag(value)) => all.push(value),
            (Self::Bytes(all), Cell::Bytes(value)) => all.push(value),
            // A row has the types of the columns.
            _ => {}
        }
    }

    fn of(kind: &DataType) -> Self {
        match kind {
            DataType::Int64 => Self::Numbers(Vec::new()),
            DataType::Boolean => Self::Flags(Vec::new()),
            DataType::BinaryView => Self::Bytes(Vec::new()),
            _ => Self::Texts(Vec::new()),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Texts(all) => Arc::new(all.into_iter().collect::<StringViewArray>()),
            Self::Numbers(all) => Arc::new(Int64Array::from(all)),
            Self::Flags(all) => Arc::new(BooleanArray::from(all)),
            Self::Bytes(all) => Arc::new(all.into_iter().collect::<BinaryViewArray>()),
        }
    }
}

const TEXT: DataType = DataType::Utf8View;
const NUMBER: DataType = DataType::Int64;

fn columns(kind: Kind) -> Vec<(&'static str, DataType)> {
    match kind {
        Kind::Schema => vec![
            ("file_name", TEXT),
            ("name", TEXT),
            ("type", TEXT),
            ("type_length", TEXT),
            ("repetition_type", TEXT),
            ("num_children", NUMBER),
            ("converted_type", TEXT),
            ("scale", NUMBER),
            ("precision", NUMBER),
            ("field_id", NUMBER),
            ("logical_type", TEXT),
            ("column_id", NUMBER),
        ],
        Kind::Chunks => vec![
            ("file_name", TEXT),
            ("row_group_id", NUMBER),
            ("row_group_num_rows", NUMBER),
            ("row_group_num_columns", NUMBER),
            ("row_group_bytes", NUMBER),
            ("column_id", NUMBER),
            ("file_offset", NUMBER),
            ("num_values", NUMBER),
            ("path_in_schema", TEXT),
            ("type", TEXT),
            ("stats_min", TEXT),
            ("stats_max", TEXT),
            ("stats_null_count", NUMBER),
            ("stats_distinct_count", NUMBER),
            ("stats_min_value", TEXT),
            ("stats_max_value", TEXT),
            ("compression", TEXT),
            ("encodings", TEXT),
            ("index_page_offset", NUMBER),
            ("dictionary_page_offset", NUMBER),
            ("data_page_offset", NUMBER),
            ("total_compressed_size", NUMBER),
            ("total_uncompressed_size", NUMBER),
            ("bloom_filter_offset", NUMBER),
            ("bloom_filter_length", NUMBER),
            ("min_is_exact", DataType::Boolean),
            ("max_is_exact", DataType::Boolean),
            ("row_group_compressed_bytes", NUMBER),
        ],
        Kind::File => vec![
            ("file_name", TEXT),
            ("created_by", TEXT),
            ("num_rows", NUMBER),
            ("num_row_groups", NUMBER),
            ("format_version", NUMBER),
            ("file_size_bytes", NUMBER),
        ],
        Kind::Keys => {
            vec![
                ("file_name", TEXT),
                ("key", DataType::BinaryView),
                ("value", DataType::BinaryView),
            ]
        }
    }
}

/// Rows that are being made.
struct Rows {
    kind: Kind,
    columns: Vec<(&'static str, DataType)>,
    cells: Vec<Cells>,
}

impl Rows {
    fn new(kind: Kind) -> Self {
        let columns = columns(kind);
        let cells = columns.iter().map(|(_, kind)| Cells::of(kind)).collect();
        Self { kind, columns, cells }
    }

    fn push(&mut self, row: Vec<Cell>) {
        for (column, cell) in self.cells.iter_mut().zip(row) {
            column.push(cell);
        }
    }

    fn table(self) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let fields = self.columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = self.cells.into_iter().map(Cells::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }

    /// Adds what a file tells.
    fn add(&mut self, file: &InputFile) -> Result<()> {
        let loaded = ParquetScan::load(file)?;
        let name = file.path.to_string_lossy().into_owned();
        let metadata = loaded.metadata();
        let facts = metadata.file_metadata();
        match self.kind {
            Kind::Schema => {
                let mut id = 0;
                self.element(&name, facts.schema_descr().root_schema(), true, &mut id);
            }
            Kind::Chunks => {
                ParquetScan::of_file(file, || self.chunks(&name, &loaded))?;
            }
            Kind::File => self.push(vec![
                text(&name),
                Cell::Text(facts.created_by().map(str::to_string)),
                number(facts.num_rows()),
                number(metadata.num_row_groups()),
                number(facts.version()),
                number(file.bytes),
            ]),
            Kind::Keys => {
                for pair in facts.key_value_metadata().into_iter().flatten() {
                    let value = pair.value.as_ref().map(|value| value.clone().into_bytes());
                    let key = Cell::Bytes(Some(pair.key.clone().into_bytes()));
                    self.push(vec![text(&name), key, Cell::Bytes(value)]);
                }
            }
        }
        Ok(())
    }

    /// A row for an element of the schema, and for all below it.
    fn element(&mut self, file: &str, element: &Type, is_root: bool, id: &mut i64) {
        let info = element.get_basic_info();
        let known = |value: i32| (value >= 0).then(|| i64::from(value));
        let converted = info.converted_type();
        let is_decimal = converted == ConvertedType::DECIMAL;
        let (kind, length, scale, precision) = match element {
            Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => (
                Some(physical_type.to_string()),
                known(*type_length).filter(|length| *length > 0).map(|length| length.to_string()),
                known(*scale).filter(|_| is_decimal),
                known(*precision).filter(|_| is_decimal),
            ),
            Type::GroupType { .. } => (None, None, None, None),
        };
        let children = element.is_group().then(|| element.get_fields().len());
        let repetition = match is_root {
            true => Some("REQUIRED".to_string()),
            false => info.has_repetition().then(|| info.repetition().to_string()),
        };
        self.push(vec![
            text(file),
            text(element.name()),
            Cell::Text(kind),
            Cell::Text(length),
            Cell::Text(repetition),
            Cell::Number(children.and_then(|count| i64::try_from(count).ok())),
            Cell::Text((converted != ConvertedType::NONE).then(|| converted.to_string())),
            Cell::Number(scale),
            Cell::Number(precision),
            Cell::Number(info.has_id().then(|| i64::from(info.id()))),
            Cell::Text(info.logical_type_ref().map(logical_name)),
            Cell::Number(Some(*id)),
        ]);
        *id += 1;
        if element.is_group() {
            for below in element.get_fields() {
                self.element(file, below, false, id);
            }
        }
    }

    /// The rows of all chunks of a file.
    fn chunks(&mut self, file: &str, loaded: &ArrowReaderMetadata) -> parquet::errors::Result<()> {
        let groups = loaded.metadata().row_groups();
        let schema = loaded.metadata().file_metadata().schema_descr();
        let mut leaves = Vec::new();
        loaded.schema().fields().iter().for_each(|field| leaves_of(field, &mut leaves));
        let mut bounds = Vec::with_capacity(leaves.len());
        for column in 0..schema.num_columns() {
            let leaf = leaves.get(column).filter(|_| leaves.len() == schema.num_columns());
            let found = leaf.map(|leaf| {
                let converter = StatisticsConverter::from_column_index(column, leaf, schema)?;
                let least = texts(&converter.row_group_mins(groups)?);
                let greatest = texts(&converter.row_group_maxes(groups)?);
                Ok::<_, parquet::errors::ParquetError>((least, greatest))
            });
            // Values of a type that has no bounds have none.
            bounds.push(found.and_then(|found| found.ok()).unwrap_or_default());
        }
        for (number, group) in groups.iter().enumerate() {
            for column in 0..group.num_columns() {
                let of_group = |texts: &Vec<Option<String>>| texts.get(number).cloned().flatten();
                let (least, greatest) =
                    bounds.get(column).map_or((None, None), |(a, b)| (of_group(a), of_group(b)));
                self.chunk(file, (number, group), column, (least, greatest));
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        file: &str,
        (group_number, group): (usize, &RowGroupMetaData),
        column: usize,
        (least, greatest): (Option<String>, Option<String>),
    ) {
        let chunk = group.column(column);
        let known = |value: Option<i64>| Cell::Number(value);
        let counted = |count: Option<u64>| Cell::Number(count.and_then(|n| i64::try_from(n).ok()));
        let stats = chunk.statistics();
        let encodings = chunk.encodings().map(|encoding| encoding.to_string());
        let has = |bound: &Option<String>| bound.is_some();
        self.push(vec![
            text(file),
            number(group_number),
            number(group.num_rows()),
            number(group.num_columns()),
            number(group.total_byte_size()),
            number(column),
            number(chunk.file_offset()),
            number(chunk.num_values()),
            text(chunk.column_path().parts().join(", ")),
            text(chunk.column_type().to_string()),
            Cell::Text(least.clone()),
            Cell::Text(greatest.clone()),
            counted(stats.and_then(|stats| stats.null_count_opt())),
            counted(stats.and_then(|stats| stats.distinct_count_opt())),
            Cell::Text(least.clone()),
            Cell::Text(greatest.clone()),
            text(format!("{:?}", chunk.compression_codec())),
            text(encodings.collect::<Vec<_>>().join(", ")),
            known(chunk.index_page_offset()),
            known(chunk.dictionary_page_offset()),
            number(chunk.data_page_offset()),
            number(chunk.compressed_size()),
            number(chunk.uncompressed_size()),
            known(chunk.bloom_filter_offset()),
            known(chunk.bloom_filter_length().map(i64::from)),
            Cell::Flag(stats.filter(|_| has(&least)).map(|stats| stats.min_is_exact())),
            Cell::Flag(stats.filter(|_| has(&greatest)).map(|stats| stats.max_is_exact())),
            number(group.compressed_size()),
        ]);
    }
}

/// A logical type as other readers of Parquet write it.
fn logical_name(logical: &LogicalType) -> String {
    let name = format!("{logical:?}");
    match name.split_once([' ', '(', '{']) {
        // The name of one alone.
        None => format!("{name}Type()"),
        Some((head, parameters)) => {
            let parameters = parameters.trim_matches([' ', '(', ')', '{', '}']);
            format!("{head}Type({})", parameters.replace(": ", "="))
        }
    }
}

/// The parts of a field that have columns of their own, in their order.
fn leaves_of<'a>(field: &'a Field, leaves: &mut Vec<&'a Field>) {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().for_each(|field| leaves_of(field, leaves)),
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => leaves_of(inner, leaves),
        _ => leaves.push(field),
    }
}

fn texts(bounds: &ArrayRef) -> Vec<Option<String>> {
    let Ok(texts) = as_text(bounds) else { return Vec::new() };
    let Ok(texts) = arrow::compute::cast(&texts, &DataType::Utf8View) else { return Vec::new() };
    texts.as_string_view().iter().map(|text| text.map(str::to_string)).collect()
}
