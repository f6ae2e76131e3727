//! `sniff_csv('file.csv')`: what is found out about a CSV file, as one row, and the call of
//! `read_csv` that says all of it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::sql_name;

use crate::csv::{CsvScan, Sample};
use crate::input::find_read;
use crate::options::{FileFormat, ImportOptions};
use crate::table::arguments::given;
use crate::text::dialect::Dialect;
use crate::text::values::DateStyle;

const NAME: &str = "sniff_csv";

/// The function of this file.
pub(crate) fn function() -> (&'static str, Arc<dyn TableFunctionImpl>) {
    (NAME, Arc::new(SniffCsv))
}

#[derive(Debug)]
struct SniffCsv;

impl TableFunctionImpl for SniffCsv {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let (paths, options) = given(NAME, FileFormat::Csv, args.exprs())?;
        let [path] = paths.as_slice() else {
            return Err(Error::plan("sniff_csv takes the name of one file").into());
        };
        let row = found(path, &options).map_err(DataFusionError::from)?;
        let schema = row.schema();
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![row]])?))
    }
}

/// What is found out about the first file of a name or pattern.
fn found(path: &str, options: &ImportOptions) -> Result<RecordBatch> {
    options.check_for(FileFormat::Csv)?;
    let files = find_read(path, Some(FileFormat::Csv))?;
    let Some(first) = files.first() else { return Err(Error::internal("no CSV file")) };
    let scan = CsvScan::open(&files[..1], options, None)?;
    let sample = Sample::take(first, options)?;
    let newline = match (scan.dialect.terminator, memchr::memmem::find(&sample.text, b"\r\n")) {
        (b'\r', _) => r"\r",
        (_, Some(_)) => r"\r\n",
        _ => r"\n",
    };
    let columns = scan.schema();
    let columns = columns.fields();
    let prompt = prompt(path, &scan.dialect, newline, columns);
    let text = |value: Option<String>| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let byte = |byte: Option<u8>| {
        text(Some(byte.map_or_else(|| "(empty)".to_string(), |byte| shown(&[byte]))))
    };
    let formats = scan.dialect.styles.as_ref();
    let dates = match formats.and_then(|styles| styles.dates.as_ref()) {
        Some(_) => None,
        None => has(columns, |kind| matches!(kind, DataType::Date32))
            .then(|| date_format(scan.dialect.dates)),
    };
    let row: [(&str, ArrayRef); 11] = [
        ("Delimiter", text(Some(shown(&delimiter(&scan.dialect))))),
        ("Quote", byte(scan.dialect.quote)),
        ("Escape", byte(scan.dialect.escape)),
        ("NewLineDelimiter", text(Some(newline.to_string()))),
        ("Comment", byte(scan.dialect.comment)),
        ("SkipRows", Arc::new(Int64Array::from(vec![i64::try_from(scan.dialect.skip).ok()]))),
        ("HasHeader", Arc::new(BooleanArray::from(vec![scan.dialect.header]))),
        ("Columns", described(columns)?),
        ("DateFormat", text(dates)),
        ("TimestampFormat", text(None)),
        ("Prompt", text(Some(prompt))),
    ];
    let fields =
        row.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, row.into_iter().map(|(_, column)| column).collect())?)
}

fn has(columns: &Fields, is: impl Fn(&DataType) -> bool) -> bool {
    columns.iter().any(|column| is(column.data_type()))
}

fn delimiter(dialect: &Dialect) -> Vec<u8> {
    let mut delimiter = vec![dialect.delimiter];
    delimiter.extend_from_slice(&dialect.delimiter_rest);
    delimiter
}

/// Characters as an option takes them.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\t', "\\t")
}

fn date_format(style: DateStyle) -> String {
    let with = |parts: [&str; 3], separator: u8| parts.join(&char::from(separator).to_string());
    match style {
        DateStyle::Iso => with(["%Y", "%m", "%d"], b'-'),
        DateStyle::YearFirst(separator) => with(["%Y", "%m", "%d"], separator),
        DateStyle::DayFirst(separator) => with(["%d", "%m", "%Y"], separator),
        DateStyle::MonthFirst(separator) => with(["%m", "%d", "%Y"], separator),
    }
}

/// Names and types of columns, as a list of structs.
fn described(columns: &Fields) -> Result<ArrayRef> {
    let names = columns.iter().map(|column| Some(column.name().as_str()));
    let types = columns.iter().map(|column| Some(sql_name(column.data_type())));
    let fields = Fields::from(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("type", DataType::Utf8, true),
    ]);
    let parts: Vec<ArrayRef> =
        vec![Arc::new(names.collect::<StringArray>()), Arc::new(types.collect::<StringArray>())];
    let structs = StructArray::try_new(fields.clone(), parts, None)?;
    let element = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths([columns.len()]);
    Ok(Arc::new(ListArray::try_new(element, offsets, Arc::new(structs), None)?))
}

/// The call that reads the file without finding out anything.
fn prompt(path: &str, dialect: &Dialect, newline: &str, columns: &Fields) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let byte = |byte: Option<u8>| quoted(&byte.map(|byte| shown(&[byte])).unwrap_or_default());
    let types = columns.iter().map(|column| {
        format!("{}: {}", quoted(column.name()), quoted(&sql_name(column.data_type())))
    });
    let types = types.collect::<Vec<_>>().join(", ");
    let mut options = vec![
        format!("delim={}", quoted(&shown(&delimiter(dialect)))),
        format!("quote={}", byte(dialect.quote)),
        format!("escape={}", byte(dialect.escape)),
        format!("new_line='{newline}'"),
        format!("skip={}", dialect.skip),
        format!("header={}", dialect.header),
        format!("columns={{{types}}}"),
    ];
    if dialect.comment.is_some() {
        options.push(format!("comment={}", byte(dialect.comment)));
    }
    if has(columns, |kind| matches!(kind, DataType::Date32)) && dialect.styles.is_none() {
        options.push(format!("dateformat={}", quoted(&date_format(dialect.dates))));
    }
    format!("FROM read_csv({}, {});", quoted(path), options.join(", "))
}
