//! Files in and out: Parquet, CSV, JSON lines and Arrow IPC.
//!
//! Reading: [`input_file`] finds files and formats, [`file_scan`] reads any of them as one table on
//! several threads ([`csv`], [`parquet`], [`json`], [`ipc`]), and [`table`] lets a query read files
//! in place; what comes through a pipe is a [`stream`]. Writing: [`write`] encodes on several
//! threads into an [`output_file`] that is complete or not there. An [`output_folder`] is one of
//! many files, complete or not there.
//!
//! Nothing here knows SQL text, a session or a table of the database. A new format is a folder with
//! a scan, a line in [`file_scan`], and a writer in [`write`].

#![deny(unsafe_code)]

mod csv;
mod decoder;
mod encoding;
mod file_columns;
pub mod file_scan;
pub mod input_file;
mod ipc;
mod json;
mod listing;
mod match_columns;
pub mod options;
mod output_file;
pub mod output_folder;
mod parquet;
mod partitioned;
mod stream;
pub mod table;
mod types;
mod united;
pub mod write;

pub use csv::values::DateStyle;
pub use ipc::check::check_columns;
pub use options::{
    Delimiter, Existing, ExportOptions, ExportReport, FileFormat, ForceQuote, ImportOptions,
    ImportReport, OptionValue, WriteFormat,
};
