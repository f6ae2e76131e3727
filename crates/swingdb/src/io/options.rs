//! Options and reports of import and export.

use std::time::Duration;

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

/// How to read a file; the default finds out by itself.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format; by the file's name and first bytes when `None`.
    pub format: Option<FileFormat>,
    /// CSV: whether the first line names the columns; found out when `None`.
    pub header: Option<bool>,
    /// CSV: the byte between fields; found out when `None`.
    pub delimiter: Option<u8>,
    /// CSV: the text that stands for NULL; the empty unquoted field when `None`.
    pub null: Option<String>,
}

/// What an import did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportReport {
    /// Rows appended.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time it took.
    pub duration: Duration,
}

/// How to write a file; the default goes by the file's name.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The format; by the file's name when `None`.
    pub format: Option<FileFormat>,
    /// CSV: whether to write the columns' names first; yes when `None`.
    pub header: Option<bool>,
    /// CSV: the byte between fields; a comma when `None`.
    pub delimiter: Option<u8>,
    /// Compression: "none", "snappy", "zstd", "gzip", "lz4"; the format's usual one when `None`.
    pub compression: Option<String>,
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
