//! Files in and out: Parquet, CSV, JSON lines and Arrow IPC.
//!
//! Reading: [`input`] finds files and formats, [`file_scan`] reads any of them as one table on
//! several threads ([`csv`], [`parquet`], [`json`], [`ipc`]), and [`table`] lets a query read files
//! in place. What comes through a pipe is an [`input::stream`]; what is in an object store is
//! fetched first. [`options`] has what the user says about files, [`reading`] what all scans share,
//! and [`text`] makes values of what CSV and JSON files say.
//!
//! Writing: [`write`] encodes on several threads into an [`output_file`] that is complete or not
//! there. An [`output_folder`] is one of many files, complete or not there.
//!
//! Nothing here knows SQL text, a session or a table of the database. A new format is a folder with
//! a scan, a line in [`file_scan`], and a writer in [`write_one`].

#![deny(unsafe_code)]

mod csv;
mod delta;
pub mod file_scan;
pub mod input;
mod ipc;
mod json;
pub mod options;
mod output_file;
pub mod output_folder;
mod parquet;
mod partitioned;
pub mod reading;
pub mod table;
mod text;
pub mod write;
mod write_one;

pub use ipc::check::check_columns;
pub use options::{
    Delimiter, Existing, ExportOptions, ExportReport, FileFormat, ForceQuote, ImportOptions,
    ImportReport, OptionValue, WriteFormat,
};
pub use text::json_writer::builder as json_builder;
pub use text::values::DateStyle;
