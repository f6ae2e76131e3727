//! Results as text: one module a shape, and the printer that chooses.
//!
//! All shapes but the table stream: a result of any size passes through. The table needs to know
//! its widths, so it keeps a bounded number of rows (see [`pretty`]).

pub mod cells;
mod delimited;
mod insert;
mod json;
mod lines;
mod markdown;
mod pager;
pub mod plan;
mod pretty;

use crate::failure::{Failure, Outcome};
use crate::{progress, units};
use cells::NULL;
use pager::Paged;
use pretty::Look;
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
    /// Values separated by tabs, with a header
    #[value(alias = "tabs")]
    Tsv,
    /// INSERT statements
    Insert,
}

impl Mode {
    /// The mode of a name, also of one that DuckDB's and SQLite's shells have for it.
    pub fn parse(text: &str) -> Option<Mode> {
        match text.to_ascii_lowercase().as_str() {
            "box" | "duckbox" => Some(Mode::Table),
            "jsonlines" | "ndjson" => Some(Mode::Jsonl),
            "tabs" => Some(Mode::Tsv),
            name => <Mode as clap::ValueEnum>::from_str(name, true).ok(),
        }
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
            Mode::Tsv => "tsv",
            Mode::Insert => "insert",
        }
    }

    pub const NAMES: [&'static str; 8] =
        ["table", "csv", "json", "jsonl", "markdown", "line", "tsv", "insert"];
}

/// Where results go, and how.
pub struct Printer {
    pub mode: Mode,
    /// Most rows of a table; 0 is all.
    pub max_rows: usize,
    pub timer: bool,
    /// Also tell what statements without rows did.
    pub talkative: bool,
    /// The text for NULL, if not that of the mode.
    pub null: Option<String>,
    /// The table that INSERT statements name.
    pub insert_into: String,
    /// What does not fit on the terminal goes through a pager.
    pub pager: bool,
    /// The output is a terminal.
    on_terminal: bool,
    /// The file is for one result only.
    pub once: bool,
    sink: Box<dyn Write + Send>,
}

impl Printer {
    /// To the standard output.
    pub fn stdout(mode: Mode, max_rows: usize, timer: bool, talkative: bool) -> Self {
        let mut printer = Printer {
            mode,
            max_rows,
            timer,
            talkative,
            null: None,
            insert_into: "\"table\"".to_string(),
            pager: talkative,
            on_terminal: false,
            once: false,
            sink: Box::new(io::sink()),
        };
        printer.use_stdout();
        printer
    }

    /// Sends what follows to the standard output.
    pub fn use_stdout(&mut self) {
        self.on_terminal = io::stdout().is_terminal();
        self.once = false;
        self.sink = Box::new(BufWriter::new(progress::Output::new()));
    }

    /// Sends what follows to a new file; with `once` only the next result.
    pub fn use_file(&mut self, path: &Path, once: bool) -> Outcome {
        let file = File::create(path)
            .map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
        self.on_terminal = false;
        self.once = once;
        self.sink = Box::new(BufWriter::new(file));
        Ok(())
    }

    /// Prints all rows of a result.
    pub fn result(&mut self, result: QueryResult) -> Outcome {
        let outcome = self.print(result);
        if self.once {
            self.use_stdout();
        }
        outcome
    }

    fn print(&mut self, result: QueryResult) -> Outcome {
        if result.has_rows() {
            // Asked each time: windows change their size.
            let (height, width) = console::Term::stdout().size();
            let shape = Shape {
                mode: self.mode,
                max_rows: self.max_rows,
                terminal: self.on_terminal.then_some(usize::from(width)),
                null: self.null.as_deref(),
                table: &self.insert_into,
            };
            let for_people = matches!(self.mode, Mode::Table | Mode::Line);
            if self.on_terminal && self.pager && for_people {
                let mut paged = Paged::new(&mut self.sink, usize::from(height));
                match shape.print(&mut paged, result) {
                    // The reader has seen enough.
                    Err(Failure::Closed) => {}
                    outcome => outcome?,
                }
                paged.finish()?;
            } else {
                shape.print(&mut self.sink, result)?;
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

/// How one result is written.
struct Shape<'a> {
    mode: Mode,
    max_rows: usize,
    /// Columns of the terminal.
    terminal: Option<usize>,
    null: Option<&'a str>,
    /// The table of INSERT statements.
    table: &'a str,
}

impl Shape<'_> {
    fn print(&self, sink: &mut impl Write, result: QueryResult) -> Outcome {
        let null = self.null.unwrap_or(NULL);
        match self.mode {
            Mode::Table | Mode::Line if result.tag() == "EXPLAIN" => lines::plan(sink, result),
            Mode::Table => {
                let look = Look { max_rows: self.max_rows, terminal: self.terminal, null };
                pretty::print(sink, result, look)
            }
            Mode::Csv => delimited::print(sink, result, ',', self.null),
            Mode::Tsv => delimited::print(sink, result, '\t', self.null),
            Mode::Json => json::print_array(sink, result),
            Mode::Jsonl => json::print_lines(sink, result),
            Mode::Markdown => markdown::print(sink, result, null),
            Mode::Line => lines::print(sink, result, null),
            Mode::Insert => insert::print(sink, result, self.table),
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
