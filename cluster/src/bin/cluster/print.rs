//! Results as text: [`Printer`]. All shapes but the table stream.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::{JsonArray, LineDelimited};
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use clap::ValueEnum;
use swingdb_cluster::session::Rows;

use crate::shell::Failure;

/// The shape of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A table for people; long results are shortened
    Table,
    /// Comma-separated values with a header
    Csv,
    /// Values separated by tabs, with a header
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Jsonl,
}

/// Where results go, and how.
pub struct Printer {
    pub mode: Mode,
    /// Most rows of a table; 0 is all.
    pub max_rows: usize,
    pub timer: bool,
}

impl Printer {
    pub fn new(mode: Mode, max_rows: usize, timer: bool) -> Self {
        Self { mode, max_rows, timer }
    }

    /// Prints a line of the shell itself.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(std::io::stdout().lock(), "{text}")?)
    }

    /// Prints how long something took, if that is wanted; not where data are.
    pub fn time(&self, taken: Duration) {
        if self.timer {
            eprintln!("time: {:.3} s", taken.as_secs_f64());
        }
    }

    /// Prints all rows of a result.
    pub fn result(&self, rows: Rows) -> Result<(), Failure> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let (schema, changed) = (rows.schema(), rows.rows_changed());
        let Some(schema) = schema.filter(|schema| !schema.fields().is_empty()) else {
            if let (Mode::Table, Some(count)) = (self.mode, changed) {
                writeln!(out, "{count} rows")?;
            }
            // A statement without rows may still have to be driven to its end.
            rows.collect()?;
            return Ok(out.flush()?);
        };
        match self.mode {
            Mode::Table => self.table(rows, &schema, &mut out)?,
            Mode::Csv => delimited(rows, &schema, b',', &mut out)?,
            Mode::Tsv => delimited(rows, &schema, b'\t', &mut out)?,
            Mode::Json => {
                let mut writer = json().build::<_, JsonArray>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(of_writer)?;
                }
                writer.finish().map_err(of_writer)?;
                writeln!(out)?;
            }
            Mode::Jsonl => {
                let mut writer = json().build::<_, LineDelimited>(&mut out);
                for batch in rows {
                    writer.write(&batch?).map_err(of_writer)?;
                }
                writer.finish().map_err(of_writer)?;
            }
        }
        Ok(out.flush()?)
    }

    /// The first rows as a table, and how many there are.
    fn table(&self, rows: Rows, schema: &SchemaRef, out: &mut impl Write) -> Result<(), Failure> {
        let most = if self.max_rows == 0 { usize::MAX } else { self.max_rows };
        let (mut shown, mut count, mut kept) = (Vec::<RecordBatch>::new(), 0_usize, 0_usize);
        for batch in rows {
            let batch = batch?;
            count += batch.num_rows();
            let part = batch.num_rows().min(most - kept);
            if part > 0 {
                shown.push(batch.slice(0, part));
                kept += part;
            }
        }
        if shown.is_empty() {
            shown.push(RecordBatch::new_empty(Arc::clone(schema)));
        }
        let options = FormatOptions::default().with_null("NULL");
        let table = pretty_format_batches_with_options(&shown, &options).map_err(of_writer)?;
        writeln!(out, "{table}")?;
        if kept < count {
            writeln!(out, "{kept} of {count} rows; --max-rows 0 shows all")?;
        }
        Ok(())
    }
}

/// All objects of a result have the same members.
fn json() -> JsonBuilder {
    JsonBuilder::new().with_explicit_nulls(true)
}

fn delimited(
    rows: Rows,
    schema: &SchemaRef,
    delimiter: u8,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut writer = WriterBuilder::new().with_header(true).with_delimiter(delimiter).build(out);
    // The header, where there are no rows.
    writer.write(&RecordBatch::new_empty(Arc::clone(schema))).map_err(of_writer)?;
    for batch in rows {
        writer.write(&batch?).map_err(of_writer)?;
    }
    Ok(())
}

/// An error of a writer: that of the output, or a type that the shape does not have.
fn of_writer(error: arrow::error::ArrowError) -> Failure {
    match error {
        arrow::error::ArrowError::IoError(_, error) => Failure::Output(error),
        other => Failure::message(other),
    }
}
