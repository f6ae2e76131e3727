//! Results as text: one module a shape, and the printer that chooses.
//!
//! All shapes but the table stream: a result of any size passes through. The table needs to know
//! its widths, so it keeps a bounded number of rows (see [`pretty`]).

mod cells;
mod delimited;
mod json;
mod lines;
mod markdown;
mod pretty;

use crate::failure::Outcome;
use crate::units;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;
use swingdb::QueryResult;

pub use pretty::fixed_table;

/// The shape of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A table for people; long results are shortened
    #[value(alias = "pretty", alias = "box")]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    #[value(alias = "ndjson")]
    Jsonl,
    /// A Markdown table
    #[value(alias = "md")]
    Markdown,
    /// One value a line
    #[value(alias = "lines")]
    Line,
}

impl Mode {
    pub fn parse(text: &str) -> Option<Mode> {
        <Mode as clap::ValueEnum>::from_str(text, true).ok()
    }

    /// Its name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Table => "table",
            Mode::Csv => "csv",
            Mode::Json => "json",
            Mode::Jsonl => "jsonl",
            Mode::Markdown => "markdown",
            Mode::Line => "line",
        }
    }

    pub const NAMES: [&'static str; 6] = ["table", "csv", "json", "jsonl", "markdown", "line"];
}

/// Where results go, and how.
pub struct Printer {
    pub mode: Mode,
    /// Most rows of a table; 0 is all.
    pub max_rows: usize,
    pub timer: bool,
    /// Also tell what statements without rows did.
    pub talkative: bool,
    /// Columns of the terminal; `None` if the output is none.
    width: Option<usize>,
    sink: Box<dyn Write + Send>,
}

impl Printer {
    /// To the standard output.
    pub fn stdout(mode: Mode, max_rows: usize, timer: bool, talkative: bool) -> Self {
        let mut printer =
            Printer { mode, max_rows, timer, talkative, width: None, sink: Box::new(io::sink()) };
        printer.use_stdout();
        printer
    }

    /// Sends what follows to the standard output.
    pub fn use_stdout(&mut self) {
        let terminal = io::stdout().is_terminal();
        self.width = terminal.then(|| usize::from(console::Term::stdout().size().1));
        self.sink = Box::new(BufWriter::new(io::stdout()));
    }

    /// Sends what follows to a new file.
    pub fn use_file(&mut self, path: &Path) -> Outcome {
        let file = File::create(path).map_err(|error| {
            crate::failure::Failure::message(format!("{}: {error}", path.display()))
        })?;
        self.width = None;
        self.sink = Box::new(BufWriter::new(file));
        Ok(())
    }

    /// Prints all rows of a result.
    pub fn result(&mut self, result: QueryResult) -> Outcome {
        if result.has_rows() {
            let sink = &mut self.sink;
            match self.mode {
                Mode::Table | Mode::Line if result.tag() == "EXPLAIN" => {
                    lines::plan(sink, result)?;
                }
                Mode::Table => pretty::print(sink, result, self.max_rows, self.width)?,
                Mode::Csv => delimited::print(sink, result)?,
                Mode::Json => json::print_array(sink, result)?,
                Mode::Jsonl => json::print_lines(sink, result)?,
                Mode::Markdown => markdown::print(sink, result)?,
                Mode::Line => lines::print(sink, result)?,
            }
        } else {
            // A statement without rows may still have to be driven to its end.
            let (tag, changed) = (result.tag(), result.rows_changed());
            result.collect()?;
            if self.talkative {
                match changed {
                    Some(rows) => writeln!(self.sink, "{tag}: {}", units::rows(rows))?,
                    None => writeln!(self.sink, "{tag}")?,
                }
            }
        }
        self.sink.flush()?;
        Ok(())
    }

    /// Prints a line of the shell itself.
    pub fn line(&mut self, text: &str) -> Outcome {
        writeln!(self.sink, "{text}")?;
        self.sink.flush()?;
        Ok(())
    }

    /// Prints how long something took, if that is wanted. To the standard error, so that it never
    /// stands in data.
    pub fn time(&mut self, taken: Duration) {
        if self.timer {
            eprintln!("time: {}", units::duration(taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modes_agree() {
        for name in Mode::NAMES {
            assert_eq!(Mode::parse(name).map(Mode::name), Some(name));
        }
        assert_eq!(Mode::parse("PRETTY"), Some(Mode::Table));
        assert_eq!(Mode::parse("md"), Some(Mode::Markdown));
        assert_eq!(Mode::parse("xml"), None);
    }
}
