//! One session: text in (SQL and dot commands), results out. The same for the interactive shell,
//! for `-c`, and for SQL from a file or pipe.

use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::interrupt;
use crate::output::Printer;
use crate::progress;
use std::time::Instant;
use swingdb::{Connection, Database, Error, cutter, place_of};

/// How deep `.read` may nest.
const MAX_READ_DEPTH: usize = 16;

/// A session and where its results go.
pub struct Runner<'a> {
    pub home: &'a Home,
    pub database: Database,
    pub connection: Connection,
    pub printer: Printer,
    /// Ends the shell.
    pub quit: bool,
    /// Carries out dot commands; without it they are not understood.
    pub dots: Option<DotCommand>,
    depth: usize,
}

/// Carries out a dot command: all of them are the shell's.
pub type DotCommand = fn(&mut Runner<'_>, &str) -> Outcome;

impl<'a> Runner<'a> {
    pub fn new(home: &'a Home, database: Database, printer: Printer) -> Outcome<Self> {
        let connection = database.connect();
        progress::enable(&connection)?;
        Ok(Runner { home, database, connection, printer, quit: false, dots: None, depth: 0 })
    }

    /// Goes on with another database.
    pub fn move_to(&mut self, database: Database) -> Outcome {
        let connection = database.connect();
        progress::enable(&connection)?;
        self.connection = connection;
        self.database = database;
        match self.printer.talkative {
            true => interrupt::attach(&self.connection),
            false => interrupt::attach_once(&self.connection),
        }
        Ok(())
    }

    /// Runs a whole text; ends at the first error.
    pub fn text(&mut self, text: &str) -> Outcome {
        let mut rest = text;
        while !self.quit {
            if let Some(carry_out) = self.dots
                && let Some((line, after)) = dot_line(rest)
            {
                carry_out(self, line)?;
                rest = after;
                continue;
            }
            let Some((sql, after)) = next_statement(rest, self.dots.is_some()) else { break };
            self.statement(sql).map_err(|failure| {
                let place = Position::of(text, sql);
                place.located(failure, text, sql, after).0
            })?;
            rest = after;
        }
        Ok(())
    }

    /// Runs one statement.
    pub fn statement(&mut self, sql: &str) -> Outcome {
        let start = Instant::now();
        let bar = progress::Statement::begin(&self.connection);
        let result = self.connection.query(sql)?;
        self.printer.result(result)?;
        drop(bar);
        self.printer.time(start.elapsed());
        Ok(())
    }

    /// Runs a file of SQL and dot commands.
    pub fn file(&mut self, path: &str) -> Outcome {
        if self.depth >= MAX_READ_DEPTH {
            let text = format!(".read: files read each other more than {MAX_READ_DEPTH} deep");
            return Err(Failure::message(text));
        }
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::message(format!("{path}: {error}")))?;
        self.depth += 1;
        let outcome = self.text(&text);
        self.depth -= 1;
        outcome
    }
}

/// Where a statement begins in its text, counted from 1.
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl Position {
    /// The place of `part`, which is a part of `text`.
    pub fn of(text: &str, part: &str) -> Self {
        let begin = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
        let before = text.get(..begin).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1;
        let of_line = before.rsplit('\n').next().unwrap_or_default();
        Self { line, column: of_line.chars().count() as u64 + 1 }
    }

    /// A failure of `sql`, the statement that begins here and that `after` follows, as people read
    /// it: with its place in the whole text, which is also returned.
    pub fn located(
        &self,
        failure: Failure,
        text: &str,
        sql: &str,
        after: &str,
    ) -> (Failure, Option<(u64, u64)>) {
        let alone = self.line == 1 && cutter::split(after).is_empty();
        let cause = self.cause(&failure, sql);
        (self.named(failure, alone).pointing(text, cause), cause)
    }

    /// The line and column in the whole text of what a failure of `sql`, the statement that begins
    /// here, is about.
    fn cause(&self, failure: &Failure, sql: &str) -> Option<(u64, u64)> {
        let Failure::Database(error) = failure else { return None };
        let (line, column) = place_of(error, sql)?;
        let column = if line == 1 { column + self.column - 1 } else { column };
        Some((line + self.line - 1, column))
    }

    /// A failure of the statement that begins here, with its place in the whole text. One that is
    /// alone in its text needs none, unless the parser names one.
    fn named(&self, failure: Failure, alone: bool) -> Failure {
        match failure {
            Failure::Database(Error::Parse { message, line: Some(line), column }) => {
                let column = match line {
                    1 => column.map(|column| column + self.column - 1),
                    _ => column,
                };
                let line = Some(line + self.line - 1);
                Failure::Database(Error::Parse { message, line, column })
            }
            Failure::Database(error) if !alone => {
                Failure::message(format!("line {}: {error}", self.line))
            }
            other => other,
        }
    }
}

/// A dot command at the start of `text`: its line, and what follows it.
fn dot_line(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    text.starts_with('.').then(|| text.split_once('\n').unwrap_or((text, "")))
}

/// The first statement of `text` and what follows it. A line that begins with a dot after a
/// finished statement belongs to the next.
pub fn next_statement(text: &str, dots: bool) -> Option<(&str, &str)> {
    let parts = cutter::split(text);
    let first = *parts.complete.first().unwrap_or(&parts.rest);
    if first.is_empty() {
        return None;
    }
    let end = first.as_ptr().addr() - text.as_ptr().addr() + first.len();
    let after = text[end..].trim_start();
    let after = after.strip_prefix(';').unwrap_or(after);
    // A statement without a semicolon that runs into a dot command on a line of its own.
    if dots && let Some(at) = first.find("\n.") {
        return Some((&first[..at], &text[end - first.len() + at + 1..]));
    }
    Some((first, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(mut text: &str) -> Vec<String> {
        let mut parts = Vec::new();
        loop {
            if let Some((line, after)) = dot_line(text) {
                parts.push(line.trim().to_string());
                text = after;
            } else if let Some((sql, after)) = next_statement(text, true) {
                parts.push(sql.to_string());
                text = after;
            } else {
                return parts;
            }
        }
    }

    #[test]
    fn failures_name_their_line() {
        let text = "SELECT 1;\n\n  SELECT *\n FRM t; SELECT 3";
        let (_, rest) = next_statement(text, true).unwrap();
        let (second, rest) = next_statement(rest, true).unwrap();
        let place = Position::of(text, second);
        assert_eq!((place.line, place.column), (3, 3));
        let wrong = |line| Error::Parse { message: "no".into(), line: Some(line), column: Some(4) };
        let named = |line| place.named(Failure::Database(wrong(line)), false).text();
        assert_eq!(named(1), "line 3, column 6: no");
        assert_eq!(named(2), "line 4, column 4: no");
        let missing = Failure::Database(Error::plan("Invalid function 'frm'"));
        assert_eq!(place.cause(&missing, second), Some((4, 2)));
        let missing = Failure::Database(Error::plan("Invalid function 'select'"));
        assert_eq!(place.cause(&missing, second), Some((3, 3)));
        assert_eq!(place.cause(&Failure::Closed, second), None);
        let (third, _) = next_statement(rest, true).unwrap();
        let place = Position::of(text, third);
        let failed = || Failure::Database(Error::Interrupted);
        assert_eq!(place.named(failed(), false).text(), "line 4: interrupted");
        assert_eq!(place.named(failed(), true).text(), "interrupted");
    }

    #[test]
    fn statements_and_dot_commands_may_be_mixed() {
        let text = ".mode csv\nSELECT 1;\n\n.timer on\n SELECT\n 'a;b' ; SELECT 3\n";
        assert_eq!(cut(text), [".mode csv", "SELECT 1", ".timer on", "SELECT\n 'a;b'", "SELECT 3"]);
        assert_eq!(cut("SELECT 1; .tables"), ["SELECT 1", ".tables"]);
        assert_eq!(cut("SELECT 1\n.tables"), ["SELECT 1", ".tables"]);
        assert_eq!(cut(" -- nothing\n;"), Vec::<String>::new());
        assert_eq!(cut("SELECT .5;SELECT 2"), ["SELECT .5", "SELECT 2"]);
    }
}
