//! What the scans of all formats share: the circumstances of a [`Run`], the columns of the table
//! that files are read into ([`match_columns`]), and those that files have by where they lie
//! ([`file_columns`]).

pub(crate) mod file_columns;
pub(crate) mod match_columns;
mod run;

pub(crate) use run::{FileSink, Sink};
pub use run::{Run, Target};
