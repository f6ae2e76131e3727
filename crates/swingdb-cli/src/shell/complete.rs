//! What the editor asks while somebody types: is the statement finished, and how may this word go
//! on? Names are looked up when Tab is pressed for the first time after a statement.

use super::dot;
use crate::output::Mode;
use crate::sql_text;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use swingdb::Connection;

/// Most proposals for one word.
const MAX_PROPOSALS: usize = 200;
/// Most tables whose columns are proposed.
const MAX_TABLES: usize = 500;

const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "ATTACH",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CLONE",
    "COLUMN",
    "COMMIT",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXPORT",
    "EXTERNAL",
    "FALSE",
    "FIRST",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "IMPORT",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MACRO",
    "MERGE",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRIMARY",
    "REFRESH",
    "RENAME",
    "REPLACE",
    "RIGHT",
    "ROLLBACK",
    "SCHEMA",
    "SELECT",
    "SEQUENCE",
    "SET",
    "SHARE",
    "SHOW",
    "SNAPSHOTS",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "TO",
    "TRUE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// The editor's helper.
#[derive(Helper, Highlighter, Hinter)]
pub struct Assistant {
    connection: Connection,
    files: FilenameCompleter,
    names: RefCell<Option<Names>>,
}

/// Names of the database, looked up once a statement.
#[derive(Debug, Default)]
struct Names {
    tables: Vec<String>,
    columns: BTreeSet<String>,
}

impl Assistant {
    pub fn new(connection: Connection) -> Self {
        Assistant { connection, files: FilenameCompleter::new(), names: RefCell::new(None) }
    }

    /// A statement may have changed the names.
    pub fn forget(&mut self) {
        self.names.replace(None);
    }

    fn names(&self) -> std::cell::Ref<'_, Names> {
        if self.names.borrow().is_none() {
            self.names.replace(Some(look_up(&self.connection)));
        }
        std::cell::Ref::map(self.names.borrow(), |names| {
            static NONE: Names = Names { tables: Vec::new(), columns: BTreeSet::new() };
            names.as_ref().unwrap_or(&NONE)
        })
    }
}

/// Errors mean no proposals: completion is a comfort.
fn look_up(connection: &Connection) -> Names {
    let tables = connection.tables().unwrap_or_default();
    let mut columns = BTreeSet::new();
    for table in tables.iter().take(MAX_TABLES) {
        columns.extend(connection.columns(table).unwrap_or_default());
    }
    Names { tables, columns }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        Ok(if is_finished(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// True if what was typed can be run: a dot command, nothing, or statements with their semicolons.
pub fn is_finished(text: &str) -> bool {
    if text.trim_start().starts_with('.') {
        return true;
    }
    let parts = sql_text::split(text);
    !parts.open && parts.rest.is_empty()
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        if in_string(typed) || is_file_argument(typed) {
            return self.files.complete(line, at, context);
        }
        let start = word_start(typed);
        let word = &typed[start..];
        if let Some(command) = typed.trim_start().strip_prefix('.') {
            return Ok(self.complete_dot(typed, start, word, command));
        }
        if word.is_empty() {
            return Ok((start, Vec::new()));
        }
        let names = self.names();
        let mut pairs = proposals(word, names.tables.iter().map(String::as_str), quoting);
        pairs.extend(proposals(word, names.columns.iter().map(String::as_str), quoting));
        pairs.extend(proposals(word, KEYWORDS.iter().copied(), as_typed));
        pairs.truncate(MAX_PROPOSALS);
        Ok((start, pairs))
    }
}

impl Assistant {
    fn complete_dot(
        &self,
        typed: &str,
        start: usize,
        word: &str,
        command: &str,
    ) -> (usize, Vec<Pair>) {
        let Some((command, _)) = command.split_once(char::is_whitespace) else {
            let at = typed.len() - command.len();
            return (at, proposals(command, dot::NAMES.iter().copied(), unchanged));
        };
        let names = self.names();
        let pairs = match command {
            "mode" => proposals(word, Mode::NAMES.into_iter(), unchanged),
            "timer" => proposals(word, ["on", "off"].into_iter(), unchanged),
            "schema" | "import" => {
                proposals(word, names.tables.iter().map(String::as_str), unchanged)
            }
            _ => Vec::new(),
        };
        (start, pairs)
    }
}

/// The candidates that begin with `word`, whatever its case, each in the form that `form` chooses.
fn proposals<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
    form: impl Fn(&str) -> fn(&str) -> String,
) -> Vec<Pair> {
    let lower = word.to_lowercase();
    let matching = candidates.filter(|name| name.to_lowercase().starts_with(&lower));
    let pair = |name: &str| Pair { display: name.to_string(), replacement: form(word)(name) };
    matching.map(pair).collect()
}

/// A keyword in the case in which the user began it.
fn as_typed(word: &str) -> fn(&str) -> String {
    if word.chars().any(char::is_lowercase) { str::to_lowercase } else { str::to_uppercase }
}

fn unchanged(_: &str) -> fn(&str) -> String {
    str::to_string
}

fn quoting(_: &str) -> fn(&str) -> String {
    quote
}

/// A name as SQL needs it: in double quotes unless it is a plain lower-case word (or several).
fn quote(name: &str) -> String {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if name.split('.').all(plain) || name.contains('"') {
        name.to_string()
    } else {
        format!("\"{name}\"")
    }
}

fn word_start(typed: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    typed
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_word(*c))
        .last()
        .map_or(typed.len(), |(i, _)| i)
}

/// True inside an open single-quoted string: a file name, most likely.
fn in_string(typed: &str) -> bool {
    typed.bytes().filter(|byte| *byte == b'\'').count() % 2 == 1
}

fn is_file_argument(typed: &str) -> bool {
    [".read ", ".output ", ".import "].iter().any(|command| {
        let argument = typed.trim_start().strip_prefix(command);
        argument.is_some_and(|text| !text.trim_start().contains(' '))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_with_a_semicolon() {
        for finished in ["", " ", ".tables", "SELECT 1;", "SELECT 1; SELECT 2; -- done", ";"] {
            assert!(is_finished(finished), "{finished:?}");
        }
        for open in ["SELECT 1", "SELECT 1; SELECT", "SELECT ';", "/* a;", "SELECT 1 -- ;"] {
            assert!(!is_finished(open), "{open:?}");
        }
    }

    #[test]
    fn words_are_found_and_completed_in_their_case() {
        assert_eq!(word_start("SELECT tri"), 7);
        assert_eq!(word_start("SELECT a.tri"), 7);
        assert_eq!(word_start("SELECT "), 7);
        let forms = |word| -> Vec<String> {
            let pairs = proposals(word, ["SELECT", "SET"].into_iter(), as_typed);
            pairs.into_iter().map(|pair| pair.replacement).collect()
        };
        assert_eq!(forms("sel"), ["select"]);
        assert_eq!(forms("SE"), ["SELECT", "SET"]);
        assert!(forms("x").is_empty());
    }

    #[test]
    fn names_are_quoted_when_sql_needs_it() {
        assert_eq!(quote("trips"), "trips");
        assert_eq!(quote("other.trips_2"), "other.trips_2");
        assert_eq!(quote("Trips"), "\"Trips\"");
        assert_eq!(quote("two words"), "\"two words\"");
        assert_eq!(quote("\"Trips\""), "\"Trips\"");
    }

    #[test]
    fn files_are_completed_where_files_stand() {
        assert!(in_string("SELECT * FROM 'tr") && !in_string("SELECT 'a' FROM tr"));
        assert!(is_file_argument(".read re") && !is_file_argument(".import a.csv tr"));
    }

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }
}
