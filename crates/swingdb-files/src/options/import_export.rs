//! Options and reports of import and export.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;
use swingdb_common::error::{Error, Result};
pub use swingdb_functions::time::strftime::Format as WriteFormat;
use swingdb_functions::time::strptime::TimeFormat;

pub use crate::options::encoding::TextEncoding;
use crate::text::styles::{NumberStyle, Styles};
pub use crate::text::values::DateStyle;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values, or separated by something else.
    Csv,
    /// One JSON object a line.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl FileFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::Json => "JSON",
            Self::Arrow => "Arrow",
        }
    }

    /// The format called `name` in SQL and on the command line.
    pub fn by_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Self::Parquet),
            "csv" | "tsv" | "text" => Ok(Self::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Self::Json),
            "arrow" | "ipc" | "feather" | "arrows" => Ok(Self::Arrow),
            other => Err(Error::plan(format!(
                "unknown file format {other:?}; there are csv, parquet, json and arrow"
            ))),
        }
    }
}

/// What stands between the fields of a record: one to four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter {
    bytes: [u8; Self::MOST],
    len: usize,
}

impl Delimiter {
    /// Bytes that it may have.
    pub const MOST: usize = 4;

    /// The delimiter that is written so; `\t` is the tabulator. `None` for no text, for more than
    /// four bytes, and for line ends and quotes.
    pub fn new(text: &str) -> Option<Self> {
        let text = if text == r"\t" { "\t" } else { text };
        let fits =
            !text.is_empty() && text.len() <= Self::MOST && !text.contains(['\n', '\r', '"']);
        fits.then(|| {
            let mut bytes = [0; Self::MOST];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            Self { bytes, len: text.len() }
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Its first byte.
    pub(crate) fn first(&self) -> u8 {
        self.bytes[0]
    }

    /// The bytes behind the first.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[1..self.len]
    }
}

impl From<u8> for Delimiter {
    fn from(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], len: 1 }
    }
}

/// How to read a file; the default finds out by itself.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format; by the file's name and first bytes when `None`.
    pub format: Option<FileFormat>,
    /// CSV: whether the first line names the columns; found out when `None`.
    pub header: Option<bool>,
    /// CSV: what stands between fields; found out when `None`.
    pub delimiter: Option<Delimiter>,
    /// CSV: the texts that stand for NULL; the empty unquoted field when there are none.
    pub nulls: Vec<String>,
    /// CSV: the byte that begins a comment, up to the end of its line; none when `None`.
    pub comment: Option<u8>,
    /// CSV: how lines end; found out when `None`.
    pub new_line: Option<NewLine>,
    /// CSV: the byte between a whole number and its fraction; a point when `None`.
    pub decimal_separator: Option<u8>,
    /// CSV: the byte between groups of digits; there is none when `None`.
    pub thousands: Option<u8>,
    /// CSV: how dates are written, where `dates` cannot say it.
    pub date_format: Option<TimeFormat>,
    /// CSV: how timestamps are written; found out when `None`.
    pub timestamp_format: Option<TimeFormat>,
    /// CSV: how characters are written as bytes; UTF-8 when `None`.
    pub encoding: Option<TextEncoding>,
    /// CSV: lines that cannot be read are left out. JSON: they, and values that are not of their
    /// column's type, are NULL.
    pub ignore_errors: bool,
    /// JSON: how values stand in the file; found out when `None`.
    pub json_form: Option<JsonForm>,
    /// JSON: values are not taken apart, each is a text in the column `json`.
    pub whole_json: bool,
    /// CSV: the byte around fields (`Some(None)`: none is); found out when `None`.
    pub quote: Option<Option<u8>>,
    /// CSV: the byte before a quote in a quoted field; a doubled quote when `None`.
    pub escape: Option<Option<u8>>,
    /// CSV: lines before the header that are no data.
    pub skip: u64,
    /// CSV: how dates are written; found out when `None`.
    pub dates: Option<DateStyle>,
    /// CSV: whether short lines are filled up with NULLs instead of being errors.
    pub null_padding: bool,
    /// CSV: all columns are text.
    pub all_text: bool,
    /// CSV and JSON: types of columns by name, instead of what the sample suggests.
    pub types: Vec<(String, DataType)>,
    /// CSV: types of the first columns, by their places.
    pub types_in_order: Vec<DataType>,
    /// CSV: names of the first columns, instead of those in the header.
    pub names: Vec<String>,
    /// CSV and JSON: rows looked at for finding out types; 20 480 when `None`, all with `u64::MAX`.
    pub sample_rows: Option<u64>,
    /// CSV and JSON: how the files are packed ("none", "gzip", "zstd"), an error where they are
    /// not; by their first bytes when `None`.
    pub compression: Option<String>,
    /// Whether folders called `key=value` make columns; found out when `None`.
    pub hive_partitioning: Option<bool>,
    /// Types of these columns by name, instead of what their values suggest.
    pub hive_types: Vec<(String, DataType)>,
    /// Whether these columns get the types that their values suggest; all are text with
    /// `Some(false)`.
    pub hive_types_autocast: Option<bool>,
    /// The name of a column for the files' names.
    pub filename: Option<String>,
    /// Whether the files may have different columns, which go by their names; when they are read in
    /// a query.
    pub union_by_name: bool,
    /// Columns of the table that the file's columns go to, in the file's order. When empty, columns
    /// are matched by name if the file's names are the table's, and by position otherwise.
    pub columns: Vec<String>,
    /// The table must exist; without this it is created when missing.
    pub must_exist: bool,
    /// Threads to use; all cores when `None`.
    pub threads: Option<usize>,
    /// Bytes of text that a thread parses at a time; chosen by the file's size when `None`.
    pub block_bytes: Option<usize>,
}

/// How values stand in a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// Each on a line.
    Lines,
    /// As the elements of one array.
    Array,
    /// One after the other, over several lines.
    Spread,
}

impl JsonForm {
    /// The form that DuckDB calls so; `Some(None)`: it is found out.
    fn by_name(name: &str) -> Option<Option<Self>> {
        match name.to_ascii_lowercase().as_str() {
            "auto" => Some(None),
            "newline_delimited" | "nd" => Some(Some(Self::Lines)),
            "array" => Some(Some(Self::Array)),
            "unstructured" => Some(Some(Self::Spread)),
            _ => None,
        }
    }
}

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewLine {
    /// `\n`
    Lf,
    /// `\r`
    Cr,
    /// `\r\n`
    CrLf,
}

impl NewLine {
    fn new(text: &str) -> Result<Self> {
        match text {
            "\n" | r"\n" => Ok(Self::Lf),
            "\r" | r"\r" => Ok(Self::Cr),
            "\r\n" | r"\r\n" => Ok(Self::CrLf),
            _ => {
                let message = r"option new_line is one of '\n', '\r' and '\r\n'".to_string();
                Err(Error::plan(message))
            }
        }
    }

    /// The last byte of a line.
    pub(crate) fn terminator(self) -> u8 {
        if self == Self::Cr { b'\r' } else { b'\n' }
    }

    /// How it is written in SQL.
    pub(crate) fn written(self) -> &'static str {
        match self {
            Self::Lf => r"\n",
            Self::Cr => r"\r",
            Self::CrLf => r"\r\n",
        }
    }
}

/// What an import did.
#[derive(Clone, Debug)]
pub struct ImportReport {
    /// Rows appended.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Time it took.
    pub duration: Duration,
}

/// What an export into folders does with what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    #[default]
    Refuse,
    /// All of it gives way.
    Replace,
    /// Files of the same names give way, others stay.
    ReplaceSame,
    /// All of it stays.
    Keep,
}

/// Columns whose fields are quoted in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForceQuote {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of these names.
    Columns(Vec<String>),
}

/// How to write a file; the default goes by the file's name.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The format; by the file's name when `None`.
    pub format: Option<FileFormat>,
    /// CSV: whether to write the columns' names first; yes when `None`.
    pub header: Option<bool>,
    /// CSV: what stands between fields; a comma when `None`.
    pub delimiter: Option<Delimiter>,
    /// Compression: "none", "snappy", "zstd", "gzip", "lz4"; the format's usual one when `None`.
    pub compression: Option<String>,
    /// CSV: the byte around fields that need it; `"` when `None`.
    pub quote: Option<u8>,
    /// CSV: the byte before a quote, and before itself, in a quoted field; the quote when `None`.
    pub escape: Option<u8>,
    /// CSV: the columns whose fields are all quoted, but for NULLs.
    pub force_quote: ForceQuote,
    /// CSV: how dates are written, as `strftime` has it; as in SQL when `None`.
    pub date_format: Option<WriteFormat>,
    /// CSV: how timestamps are written, those of a zone by the clock of the session.
    pub timestamp_format: Option<WriteFormat>,
    /// CSV: the text for NULL; nothing when `None`.
    pub null: Option<String>,
    /// JSON: whether the objects are the elements of one array, and not each on a line by itself.
    pub array: bool,
    /// Parquet: rows of a row group.
    pub row_group_rows: Option<usize>,
    /// Threads to use; all cores when `None`.
    pub threads: Option<usize>,
    /// Arrow through a pipe: the pipe shows the database's memory, and nothing is copied before the
    /// reader does. The reader has to `read`: it may not move pages on by `splice` or `tee`.
    pub zero_copy: bool,
    /// Columns whose values name the folders that rows go to; all rows go to one file when there
    /// are none.
    pub partition_by: Vec<String>,
    /// Whether files have these columns as well.
    pub write_partition_columns: bool,
    /// What becomes of a folder that is not empty.
    pub existing: Existing,
    /// Names of files in folders: `{i}` is their number, `{uuid}` a random one.
    pub filename_pattern: Option<String>,
    /// How their names end; as the format's files do when `None`.
    pub file_extension: Option<String>,
}

/// What an export did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportReport {
    /// Rows written.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time it took.
    pub duration: Duration,
}

/// The value of an option in SQL: `HEADER`, `HEADER false`, `DELIMITER ';'`, `SKIP 2`,
/// `COLUMNS {'a': 'INTEGER'}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// Only the option's name.
    Flag,
    /// A string or a word.
    Text(String),
    /// A number, as written.
    Number(String),
    /// `[...]` or `(...)`.
    List(Vec<String>),
    /// `{'name': 'value', ...}`.
    Map(Vec<(String, String)>),
}

impl OptionValue {
    /// One text, or a list of them.
    fn texts(&self, option: &str) -> Result<Vec<String>> {
        match self {
            Self::List(texts) if texts.is_empty() => {
                Err(Error::plan(format!("option {option} takes a list of at least one string")))
            }
            Self::List(texts) => Ok(texts.clone()),
            _ => Ok(vec![self.text(option)?.to_string()]),
        }
    }

    fn text(&self, option: &str) -> Result<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Ok(text),
            _ => Err(Error::plan(format!("option {option} takes a string"))),
        }
    }

    fn flag(&self, option: &str) -> Result<bool> {
        match self {
            Self::Flag => Ok(true),
            Self::Text(text) | Self::Number(text) => crate::text::values::boolean(text.as_bytes())
                .ok_or_else(|| Error::plan(format!("option {option} takes true or false"))),
            _ => Err(Error::plan(format!("option {option} takes true or false"))),
        }
    }

    fn number(&self, option: &str) -> Result<i64> {
        let number = self.text(option).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Error::plan(format!("option {option} takes a whole number")))
    }

    fn count(&self, option: &str) -> Result<u64> {
        u64::try_from(self.number(option)?)
            .map_err(|_| Error::plan(format!("option {option} must not be negative")))
    }

    /// One byte; `\t` is the tabulator, the empty string none.
    fn byte(&self, option: &str) -> Result<Option<u8>> {
        let text = match self {
            Self::Flag => "",
            _ => self.text(option)?,
        };
        match text.as_bytes() {
            [] => Ok(None),
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(Some(*byte)),
            br"\t" => Ok(Some(b'\t')),
            _ => {
                Err(Error::plan(format!("option {option} takes one ASCII character, not {text:?}")))
            }
        }
    }
}

/// The rows of a sample; of all where the number says so.
fn sample_rows(given: i64) -> Result<u64> {
    match given {
        0 => Err(Error::plan("sample_size is 1 row or more, or -1 for all rows")),
        rows => Ok(u64::try_from(rows).unwrap_or(u64::MAX)),
    }
}

impl ImportOptions {
    /// Sets the option that SQL calls `name`.
    pub fn set(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name.to_ascii_lowercase().as_str() {
            "format" => match JsonForm::by_name(value.text(name)?) {
                Some(form) if self.format == Some(FileFormat::Json) => self.json_form = form,
                _ => self.format = Some(FileFormat::by_name(value.text(name)?)?),
            },
            "array" => self.json_form = value.flag(name)?.then_some(JsonForm::Array),
            "header" | "has_header" => self.header = Some(value.flag(name)?),
            "delimiter" | "delim" | "sep" | "separator" => {
                self.delimiter = delimiter(name, value)?;
            }
            "null" | "nullstr" | "null_value" => self.nulls = value.texts(name)?,
            // A field in quotes is never NULL.
            "allow_quoted_nulls" if !value.flag(name)? => {}
            "allow_quoted_nulls" => {
                let message = "option allow_quoted_nulls: a field in quotes is a text here; write \
                               it without quotes, or UPDATE t SET a = NULL WHERE a = ''";
                return Err(Error::unsupported(message));
            }
            "quote" => self.quote = Some(value.byte(name)?),
            "escape" => self.escape = Some(value.byte(name)?),
            "skip" => self.skip = value.count(name)?,
            "dateformat" | "date_format" => {
                let format = value.text(name)?;
                self.dates = date_style(format);
                self.date_format = match self.dates {
                    Some(_) => None,
                    None => Some(time_format(name, format)?),
                };
            }
            "null_padding" => self.null_padding = value.flag(name)?,
            "all_varchar" | "all_text" => self.all_text = value.flag(name)?,
            "sample_size" => self.sample_rows = Some(sample_rows(value.number(name)?)?),
            "types" | "dtypes" | "column_types" if matches!(value, OptionValue::List(_)) => {
                let one = |sql: &String| crate::text::types::parse_type(sql);
                self.types_in_order = value.texts(name)?.iter().map(one).collect::<Result<_>>()?;
            }
            "columns" | "types" | "dtypes" | "column_types" => self.types = types(name, value)?,
            "names" | "column_names" => self.names = names(name, value)?,
            "threads" => self.threads = Some(value.count(name)?.max(1) as usize),
            "block_bytes" | "buffer_size" => {
                self.block_bytes = Some(value.count(name)?.max(1) as usize)
            }
            "compression" | "codec" => self.compression = packing(value.text(name)?)?,
            "hive_partitioning" => self.hive_partitioning = Some(value.flag(name)?),
            "hive_types" => self.hive_types = types(name, value)?,
            "hive_types_autocast" => self.hive_types_autocast = Some(value.flag(name)?),
            "filename" => self.filename = filename(name, value)?,
            "parallel" => {
                if !value.flag(name)? {
                    self.threads = Some(1);
                }
            }
            // Always on: what is not said is found out.
            "auto_detect" if value.flag(name)? => {}
            "auto_detect" => {
                let message = "option auto_detect cannot be false; what is to be found out can be \
                               said by header, delimiter, quote, columns or all_varchar";
                return Err(Error::unsupported(message));
            }
            "union_by_name" => self.union_by_name = value.flag(name)?,
            other => return self.set_style(other, value),
        }
        Ok(())
    }

    /// As [`Self::set`], for how CSV is written.
    fn set_style(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name {
            "comment" => self.comment = value.byte(name)?,
            "new_line" => self.new_line = Some(NewLine::new(value.text(name)?)?),
            "decimal_separator" => self.decimal_separator = separator(name, value)?,
            "thousands" => self.thousands = separator(name, value)?,
            "timestampformat" | "timestamp_format" => {
                self.timestamp_format = Some(time_format(name, value.text(name)?)?);
            }
            "encoding" => self.encoding = TextEncoding::new(value.text(name)?)?,
            "ignore_errors" => self.ignore_errors = value.flag(name)?,
            "store_rejects" | "rejects_table" | "rejects_scan" | "rejects_limit" => {
                let message = format!(
                    "option {name}: records that ignore_errors leaves out are not kept; FROM \
                     csv_rejects('file', ...) reads them, with what is wrong with each"
                );
                return Err(Error::unsupported(message));
            }
            other => return Err(unknown(other, IMPORT_OPTIONS)),
        }
        Ok(())
    }

    /// Refuses options that mean nothing for files of `format`.
    pub(crate) fn check_for(&self, format: FileFormat) -> Result<()> {
        let (csv, text) = (&[FileFormat::Csv][..], &[FileFormat::Csv, FileFormat::Json][..]);
        let given = [
            ("header", self.header.is_some(), csv),
            ("delimiter", self.delimiter.is_some(), csv),
            ("null", !self.nulls.is_empty(), csv),
            ("comment", self.comment.is_some(), csv),
            ("new_line", self.new_line.is_some(), csv),
            ("decimal_separator", self.decimal_separator.is_some(), csv),
            ("thousands", self.thousands.is_some(), csv),
            ("timestampformat", self.timestamp_format.is_some(), csv),
            ("encoding", self.encoding.is_some(), csv),
            ("ignore_errors", self.ignore_errors, text),
            ("array", self.json_form.is_some(), &[FileFormat::Json][..]),
            ("dateformat", self.date_format.is_some(), csv),
            ("quote", self.quote.is_some(), csv),
            ("escape", self.escape.is_some(), csv),
            ("skip", self.skip > 0, csv),
            ("dateformat", self.dates.is_some(), csv),
            ("null_padding", self.null_padding, csv),
            ("all_varchar", self.all_text, csv),
            ("columns", !self.types.is_empty(), text),
            ("types in a list", !self.types_in_order.is_empty(), csv),
            ("names", !self.names.is_empty(), csv),
            ("sample_size", self.sample_rows.is_some(), text),
            ("compression", self.compression.is_some(), text),
        ];
        let wrong = given.iter().find(|(_, given, of)| *given && !of.contains(&format));
        wrong.map_or(Ok(()), |(name, _, of)| Err(of_other_formats(name, of)))?;
        self.check_separators()
    }

    /// Refuses characters that mean two things.
    fn check_separators(&self) -> Result<()> {
        let quote = self.quote.unwrap_or(Some(b'"'));
        let delimiter = self.delimiter.map(|delimiter| delimiter.first());
        let meanings = [("delimiter", delimiter), ("quote", quote), ("comment", self.comment)];
        for (at, (name, byte)) in meanings.iter().enumerate() {
            let same = meanings[..at].iter().find(|(_, other)| byte.is_some() && other == byte);
            if let Some((other, _)) = same {
                let message = format!("options {other} and {name} are the same character");
                return Err(Error::plan(message));
            }
        }
        let decimal = self.decimal_separator.unwrap_or(b'.');
        match self.thousands == Some(decimal) {
            true => Err(Error::plan("options thousands and decimal_separator are the same")),
            false => Ok(()),
        }
    }

    /// How values are written, where the caller says so.
    pub(crate) fn styles(&self) -> Option<Arc<Styles>> {
        let numbers = (self.decimal_separator.is_some() || self.thousands.is_some()).then(|| {
            let decimal = self.decimal_separator.unwrap_or(b'.');
            NumberStyle { decimal, thousands: self.thousands }
        });
        let (dates, timestamps) = (self.date_format.clone(), self.timestamp_format.clone());
        let styles = Styles { numbers, dates, timestamps };
        (styles != Styles::default()).then(|| Arc::new(styles))
    }
}

impl ExportOptions {
    /// Sets the option that SQL calls `name`.
    pub fn set(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name.to_ascii_lowercase().as_str() {
            "format" => self.format = Some(FileFormat::by_name(value.text(name)?)?),
            "header" | "has_header" => self.header = Some(value.flag(name)?),
            "delimiter" | "delim" | "sep" | "separator" => {
                self.delimiter = delimiter(name, value)?;
            }
            "compression" | "codec" => {
                self.compression = Some(value.text(name)?.to_ascii_lowercase())
            }
            "quote" => self.quote = value.byte(name)?,
            "null" | "nullstr" | "null_value" => self.null = Some(value.text(name)?.to_string()),
            "row_group_size" | "row_group_rows" | "max_row_group_size" => {
                self.row_group_rows = Some(value.count(name)?.max(1) as usize);
            }
            "array" => self.array = value.flag(name)?,
            "threads" => self.threads = Some(value.count(name)?.max(1) as usize),
            "zero_copy" => self.zero_copy = value.flag(name)?,
            "partition_by" => self.partition_by = value.texts(name)?,
            "write_partition_columns" => self.write_partition_columns = value.flag(name)?,
            "overwrite" => self.set_existing(Existing::Replace, value.flag(name)?)?,
            "overwrite_or_ignore" => self.set_existing(Existing::ReplaceSame, value.flag(name)?)?,
            "append" => self.set_existing(Existing::Keep, value.flag(name)?)?,
            "filename_pattern" => self.filename_pattern = Some(file_name(name, value)?),
            "file_extension" => self.file_extension = Some(file_name(name, value)?),
            other => return self.set_style(other, value),
        }
        Ok(())
    }

    /// As [`Self::set`], for how CSV is written.
    fn set_style(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name {
            "escape" => match value.byte(name)? {
                Some(byte) => self.escape = Some(byte),
                None => {
                    let message = "option escape takes a character; quoted fields with quotes \
                                   could not be read without one";
                    return Err(Error::plan(message));
                }
            },
            "force_quote" => {
                self.force_quote = match value {
                    OptionValue::Text(text) if text == "*" => ForceQuote::All,
                    _ => ForceQuote::Columns(value.texts(name)?),
                };
            }
            "dateformat" | "date_format" => {
                self.date_format = Some(write_format(name, value.text(name)?)?);
            }
            "timestampformat" | "timestamp_format" => {
                self.timestamp_format = Some(write_format(name, value.text(name)?)?);
            }
            "encoding" => {
                let is_utf8 = |text: &str| matches!(text, "utf-8" | "utf8");
                if !is_utf8(&value.text(name)?.to_ascii_lowercase()) {
                    let message = "option encoding of COPY ... TO; files are written as UTF-8, \
                                   and iconv -f UTF-8 -t NAME writes them in another encoding";
                    return Err(Error::unsupported(message));
                }
            }
            other => return Err(unknown(other, EXPORT_OPTIONS)),
        }
        Ok(())
    }

    fn set_existing(&mut self, existing: Existing, wanted: bool) -> Result<()> {
        match (wanted, self.existing) {
            (false, _) => {}
            (true, Existing::Refuse) => self.existing = existing,
            (true, other) if other == existing => {}
            (true, _) => {
                let message = "there is one of overwrite, overwrite_or_ignore and append";
                return Err(Error::plan(message));
            }
        }
        Ok(())
    }

    /// Refuses options of folders where there is one file.
    fn check_folders(&self) -> Result<()> {
        let given = [
            ("write_partition_columns", self.write_partition_columns),
            ("append", self.existing == Existing::Keep),
            ("filename_pattern", self.filename_pattern.is_some()),
            ("file_extension", self.file_extension.is_some()),
        ];
        match given.iter().find(|(_, given)| *given && self.partition_by.is_empty()) {
            Some((name, _)) => {
                Err(Error::plan(format!("option {name} is for files in folders, by partition_by")))
            }
            None => Ok(()),
        }
    }

    /// Refuses options that mean nothing for files of `format`.
    pub fn check_for(&self, format: FileFormat) -> Result<()> {
        self.check_folders()?;
        let csv = &[FileFormat::Csv][..];
        let given = [
            ("header", self.header.is_some(), csv),
            ("delimiter", self.delimiter.is_some(), csv),
            ("quote", self.quote.is_some(), csv),
            ("escape", self.escape.is_some(), csv),
            ("force_quote", self.force_quote != ForceQuote::None, csv),
            ("dateformat", self.date_format.is_some(), csv),
            ("timestampformat", self.timestamp_format.is_some(), csv),
            ("null", self.null.is_some(), csv),
            ("array", self.array, &[FileFormat::Json][..]),
            ("row_group_size", self.row_group_rows.is_some(), &[FileFormat::Parquet][..]),
            ("zero_copy", self.zero_copy, &[FileFormat::Arrow][..]),
        ];
        let wrong = given.iter().find(|(_, given, of)| *given && !of.contains(&format));
        wrong.map_or(Ok(()), |(name, _, of)| Err(of_other_formats(name, of)))?;
        self.check_separators()
    }

    /// Refuses a delimiter with the character that quotes, or that escapes quotes.
    fn check_separators(&self) -> Result<()> {
        let delimiter = self.delimiter.unwrap_or(b','.into());
        let quote = self.quote.unwrap_or(b'"');
        let others = [("quote", quote), ("escape", self.escape.unwrap_or(quote))];
        match others.into_iter().find(|(_, byte)| delimiter.bytes().contains(byte)) {
            Some((name, _)) => {
                Err(Error::plan(format!("option delimiter has the character of {name}")))
            }
            None => Ok(()),
        }
    }
}

fn of_other_formats(option: &str, formats: &[FileFormat]) -> Error {
    let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    Error::plan(format!("option {option} is for {} files", names.join(" and ")))
}

/// How a text file is packed; `None`: as its first bytes say.
fn packing(name: &str) -> Result<Option<String>> {
    match name.to_ascii_lowercase().as_str() {
        "auto" | "auto_detect" => Ok(None),
        "none" | "uncompressed" => Ok(Some("none".to_string())),
        "gzip" | "gz" => Ok(Some("gzip".to_string())),
        "zstd" | "zst" => Ok(Some("zstd".to_string())),
        other => Err(Error::plan(format!(
            "unknown compression {other:?}; there are none, gzip and zstd"
        ))),
    }
}

/// The column for files' names: `true` gives it the usual name.
fn filename(option: &str, value: &OptionValue) -> Result<Option<String>> {
    match value {
        OptionValue::Flag => Ok(Some("filename".to_string())),
        _ => Ok(match value.text(option)?.to_ascii_lowercase().as_str() {
            "true" | "1" => Some("filename".to_string()),
            "false" | "0" => None,
            _ => Some(value.text(option)?.to_string()),
        }),
    }
}

const IMPORT_OPTIONS: &[&str] = &[
    "format",
    "header",
    "delimiter",
    "null",
    "allow_quoted_nulls",
    "quote",
    "escape",
    "comment",
    "new_line",
    "encoding",
    "skip",
    "dateformat",
    "timestampformat",
    "decimal_separator",
    "thousands",
    "ignore_errors",
    "array",
    "null_padding",
    "all_varchar",
    "sample_size",
    "columns",
    "types",
    "names",
    "compression",
    "hive_partitioning",
    "hive_types",
    "hive_types_autocast",
    "filename",
    "union_by_name",
    "threads",
    "parallel",
    "block_bytes",
];
const EXPORT_OPTIONS: &[&str] = &[
    "format",
    "header",
    "delimiter",
    "compression",
    "quote",
    "escape",
    "force_quote",
    "dateformat",
    "timestampformat",
    "null",
    "array",
    "row_group_size",
    "threads",
    "zero_copy",
    "partition_by",
    "write_partition_columns",
    "overwrite",
    "overwrite_or_ignore",
    "append",
    "filename_pattern",
    "file_extension",
];

fn unknown(name: &str, known: &[&str]) -> Error {
    let missing = Error::not_found(swingdb_common::error::ObjectKind::Setting, name, known);
    let similar = match missing {
        Error::NotFound { suggestion: Some(similar), .. } => format!("did you mean {similar:?}? "),
        _ => String::new(),
    };
    Error::plan(format!("no option {name:?}; {similar}there are {}", known.join(", ")))
}

/// A part of a file's name.
fn file_name(option: &str, value: &OptionValue) -> Result<String> {
    let text = value.text(option)?;
    match text.is_empty() || text.contains('/') {
        true => Err(Error::plan(format!("option {option} takes a file name without folders"))),
        false => Ok(text.to_string()),
    }
}

fn delimiter(option: &str, value: &OptionValue) -> Result<Option<Delimiter>> {
    let text = match value {
        OptionValue::Flag => "",
        _ => value.text(option)?,
    };
    if text.is_empty() {
        return Ok(None);
    }
    Delimiter::new(text).map(Some).ok_or_else(|| {
        let most = Delimiter::MOST;
        Error::plan(format!(
            "option {option} takes one to {most} bytes without line ends and quotes, not {text:?}"
        ))
    })
}

/// A character in numbers.
fn separator(option: &str, value: &OptionValue) -> Result<Option<u8>> {
    let byte = value.byte(option)?;
    let is_of_numbers = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+');
    match byte {
        Some(byte) if is_of_numbers(byte) => {
            Err(Error::plan(format!("option {option}: {:?} is a part of numbers", byte as char)))
        }
        _ => Ok(byte),
    }
}

fn time_format(option: &str, format: &str) -> Result<TimeFormat> {
    TimeFormat::new(format).map_err(|error| Error::plan(format!("option {option}: {error}")))
}

/// A format to write dates or timestamps in. One without any part of them would lose them.
fn write_format(option: &str, format: &str) -> Result<WriteFormat> {
    if !format.contains('%') {
        return Err(Error::plan(format!(
            "option {option} takes a format such as %Y-%m-%d, not {format:?}"
        )));
    }
    WriteFormat::new(format).map_err(|error| {
        let error = Error::from(error);
        Error::plan(format!("option {option}: {error}"))
    })
}

/// `%d.%m.%Y` and the like; `None` for others.
fn date_style(text: &str) -> Option<DateStyle> {
    let time = text.find([' ', 'T']).map_or(text, |at| &text[..at]);
    match time.as_bytes() {
        [b'%', b'Y', b'-', b'%', b'm', b'-', b'%', b'd'] => Some(DateStyle::Iso),
        [b'%', b'Y', a, b'%', b'm', b, b'%', b'd'] if a == b => Some(DateStyle::YearFirst(*a)),
        [b'%', b'd', a, b'%', b'm', b, b'%', b'Y'] if a == b => Some(DateStyle::DayFirst(*a)),
        [b'%', b'm', a, b'%', b'd', b, b'%', b'Y'] if a == b => Some(DateStyle::MonthFirst(*a)),
        _ => None,
    }
}

/// Names of columns, each once without regard to case.
fn names(option: &str, value: &OptionValue) -> Result<Vec<String>> {
    let names = value.texts(option)?;
    for (at, name) in names.iter().enumerate() {
        if names[..at].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(Error::plan(format!("option {option} has the name {name:?} twice")));
        }
    }
    Ok(names)
}

fn types(option: &str, value: &OptionValue) -> Result<Vec<(String, DataType)>> {
    let OptionValue::Map(pairs) = value else {
        return Err(Error::plan(format!("option {option} takes {{'column': 'TYPE', ...}}")));
    };
    let one =
        |(name, sql): &(String, String)| Ok((name.clone(), crate::text::types::parse_type(sql)?));
    pairs.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_by_their_sql_names() {
        let mut options = ImportOptions::default();
        let text = |text: &str| OptionValue::Text(text.to_string());
        options.set("HEADER", &OptionValue::Flag).unwrap();
        options.set("delim", &text(r"\t")).unwrap();
        options.set("quote", &text("")).unwrap();
        options.set("sample_size", &OptionValue::Number("-1".into())).unwrap();
        options.set("dateformat", &text("%d.%m.%Y")).unwrap();
        assert_eq!((options.header, options.delimiter), (Some(true), Some(b'\t'.into())));
        assert_eq!((options.quote, options.sample_rows), (Some(None), Some(u64::MAX)));
        assert_eq!(options.dates, Some(DateStyle::DayFirst(b'.')));
        let columns = OptionValue::Map(vec![("a".into(), "DECIMAL(10, 2)".into())]);
        options.set("columns", &columns).unwrap();
        assert_eq!(options.types, [("a".to_string(), DataType::Decimal128(10, 2))]);
        let error = options.set("heder", &OptionValue::Flag).unwrap_err();
        assert!(error.to_string().contains("\"header\""), "{error}");
        options.set("delimiter", &text("||")).unwrap();
        assert_eq!(options.delimiter, Delimiter::new("||"));
        assert!(options.set("delimiter", &text("a\nb")).is_err());
        assert!(options.set("delimiter", &text("abcde")).is_err());
        assert!(options.set("skip", &OptionValue::Number("-1".into())).is_err());
        assert!(options.set("dateformat", &text("%Q")).is_err());
        options.set("thousands", &text(".")).unwrap();
        assert!(options.check_for(FileFormat::Csv).is_err(), "a point is two things");
        options.set("decimal_separator", &text(",")).unwrap();
        options.check_for(FileFormat::Csv).unwrap();
        assert!(options.set("thousands", &text("5")).is_err());
        assert!(options.set("nullstr", &OptionValue::List(Vec::new())).is_err());
        assert!(options.set("encoding", &text("nope")).is_err());
    }
}
