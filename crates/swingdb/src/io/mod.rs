//! Files in and out: Parquet, CSV, JSON lines and Arrow IPC, by API, by `COPY` and in `FROM
//! 'file'`.
//!
//! Reading: [`source`] finds files and formats, [`scan`] reads any of them as one table on several
//! threads ([`csv`], [`parquet`], [`json`], [`ipc`]), [`import`] appends to a table of the
//! database, and [`external`] lets a query read files in place. Writing: [`export`] encodes on
//! several threads into an [`output`] file that is complete or not there. [`copy`] is the SQL of
//! all that. An [`output_folder`] is one of many files, complete or not there.

mod copy;
mod csv;
mod export;
mod external;
mod file_columns;
mod import;
mod ipc;
mod ipc_check;
mod ipc_lengths;
mod json;
mod matching;
mod meter;
mod options;
mod output;
mod output_folder;
mod parallel;
mod parquet;
mod parquet_chunks;
mod parquet_footer;
mod parquet_intervals;
mod parquet_table;
mod parquet_widths;
mod scan;
mod source;
mod types;
mod united;
mod write;

pub use ipc_check::check_columns;
pub use options::{
    DateStyle, ExportOptions, ExportReport, FileFormat, ImportOptions, ImportReport, OptionValue,
};

pub(crate) use copy::{
    CopyStatement, What as CopyWhat, create_external_table, execute as execute_copy,
    parse as parse_copy, parse_options,
};
pub(crate) use export::{export_file, reporting};
pub(crate) use external::{file_table, functions, is_file_function};
pub(crate) use import::{import_file, parse_name};
pub(crate) use meter::Meter;
pub(crate) use output_folder::OutputFolder;
pub(crate) use parallel::in_parallel;
pub(crate) use write::write as write_rows;
