//! One session: text in (SQL and dot commands), results out. The same for the interactive shell,
//! for `-c`, and for SQL from a file or pipe.

use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::output::Printer;
use crate::shell::dot;
use crate::sql_text;
use std::time::Instant;
use swingdb::{Connection, Database};

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
    /// Dot commands are understood.
    pub dots: bool,
    depth: usize,
}

impl<'a> Runner<'a> {
    pub fn new(home: &'a Home, database: Database, printer: Printer) -> Self {
        let connection = database.connect();
        Runner { home, database, connection, printer, quit: false, dots: true, depth: 0 }
    }

    /// Runs a whole text; ends at the first error.
    pub fn text(&mut self, text: &str) -> Outcome {
        let mut rest = text;
        while !self.quit {
            if self.dots
                && let Some((line, after)) = dot_line(rest)
            {
                dot::run(self, line)?;
                rest = after;
                continue;
            }
            let Some((sql, after)) = next_statement(rest, self.dots) else { break };
            self.statement(sql)?;
            rest = after;
        }
        Ok(())
    }

    /// Runs one statement.
    pub fn statement(&mut self, sql: &str) -> Outcome {
        let start = Instant::now();
        let result = self.connection.query(sql)?;
        self.printer.result(result)?;
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

/// A dot command at the start of `text`: its line, and what follows it.
fn dot_line(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    text.starts_with('.').then(|| text.split_once('\n').unwrap_or((text, "")))
}

/// The first statement of `text` and what follows it. A line that begins with a dot after a
/// finished statement belongs to the next.
fn next_statement(text: &str, dots: bool) -> Option<(&str, &str)> {
    let parts = sql_text::split(text);
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
    fn statements_and_dot_commands_may_be_mixed() {
        let text = ".mode csv\nSELECT 1;\n\n.timer on\n SELECT\n 'a;b' ; SELECT 3\n";
        assert_eq!(cut(text), [".mode csv", "SELECT 1", ".timer on", "SELECT\n 'a;b'", "SELECT 3"]);
        assert_eq!(cut("SELECT 1; .tables"), ["SELECT 1", ".tables"]);
        assert_eq!(cut("SELECT 1\n.tables"), ["SELECT 1", ".tables"]);
        assert_eq!(cut(" -- nothing\n;"), Vec::<String>::new());
        assert_eq!(cut("SELECT .5;SELECT 2"), ["SELECT .5", "SELECT 2"]);
    }
}
