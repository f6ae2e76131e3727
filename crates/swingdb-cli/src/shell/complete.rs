//! What the editor asks while somebody types: is the statement finished, and how may this word go
//! on? Names are looked up when Tab is pressed for the first time after a statement.

use super::dot;
use crate::output::Mode;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Highlighter, Hinter, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use swingdb::{Connection, cutter};

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

/// Words behind which a table stands.
const BEFORE_TABLES: [&str; 9] =
    ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "SUMMARIZE", "CLONE", "PIVOT"];

/// The editor's helper.
#[derive(Helper, Highlighter, Hinter)]
pub struct Assistant {
    connection: Connection,
    files: FilenameCompleter,
    names: RefCell<Option<Names>>,
    /// The lines of the statement before the one that is typed.
    before: String,
}

/// Names of the database, looked up once a statement.
#[derive(Debug, Default)]
struct Names {
    /// Tables and views, and the columns of each.
    tables: BTreeMap<String, Vec<String>>,
    functions: Vec<String>,
    /// Functions that stand where a table does.
    table_functions: Vec<String>,
}

impl Assistant {
    pub fn new(connection: Connection) -> Self {
        let (files, names) = (FilenameCompleter::new(), RefCell::new(None));
        Assistant { connection, files, names, before: String::new() }
    }

    /// A statement may have changed the names, or the database.
    pub fn forget(&mut self, connection: &Connection) {
        self.connection = connection.clone();
        self.names.replace(None);
    }

    /// What is typed next goes on from this text.
    pub fn stands_behind(&mut self, text: &str) {
        text.clone_into(&mut self.before);
    }

    fn names(&self) -> std::cell::Ref<'_, Names> {
        if self.names.borrow().is_none() {
            self.names.replace(Some(look_up(&self.connection)));
        }
        std::cell::Ref::map(self.names.borrow(), |names| {
            static NONE: Names = Names {
                tables: BTreeMap::new(),
                functions: Vec::new(),
                table_functions: Vec::new(),
            };
            names.as_ref().unwrap_or(&NONE)
        })
    }
}

/// Errors mean no proposals: completion is a comfort.
fn look_up(connection: &Connection) -> Names {
    let of = |table: &String| connection.columns(table).unwrap_or_default();
    let mut tables = BTreeMap::new();
    for (index, table) in connection.tables().unwrap_or_default().into_iter().enumerate() {
        let columns = if index < MAX_TABLES { of(&table) } else { Vec::new() };
        tables.insert(table, columns);
    }
    let named = |sql: &str| first_column(connection, sql).unwrap_or_default();
    let functions = named("SHOW FUNCTIONS");
    let of_tables = "SELECT function_name FROM duckdb_functions() WHERE function_type = 'table'";
    Names { tables, functions, table_functions: named(of_tables) }
}

/// The words of a query's first column, each once.
fn first_column(connection: &Connection, sql: &str) -> swingdb::Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for batch in connection.query(sql)? {
        let texts = cast(batch?.column(0), &DataType::Utf8).map_err(swingdb::Error::from)?;
        names.extend(texts.as_string::<i32>().iter().flatten().map(str::to_string));
    }
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
    Ok(names.into_iter().collect())
}

impl Names {
    /// Proposals for a word of SQL, the likely ones first; `typed` is all of the statement before.
    fn proposals(&self, typed: &str, word: &str) -> Vec<Pair> {
        let before = &typed[..typed.len() - word.len()];
        if let Some(part) = word.strip_prefix('"') {
            return self.quoted(typed, before, part);
        }
        if let Some((table, part)) = word.rsplit_once('.')
            && let Some(columns) = self.columns_of(typed, table)
        {
            let columns = columns.iter().map(String::as_str);
            let qualified = |pair: Pair| Pair {
                replacement: format!("{table}.{}", pair.replacement),
                display: pair.display,
            };
            return proposals(part, columns, quoting).into_iter().map(qualified).collect();
        }
        let tables = || self.tables.keys().map(String::as_str);
        if let Some(last) = table_word(before) {
            let mut pairs = proposals(word, tables(), quoting);
            if !word.is_empty() && ["FROM", "JOIN"].contains(&last) {
                let functions = self.table_functions.iter().map(String::as_str);
                pairs.extend(proposals(word, functions, calling));
            }
            return pairs;
        }
        if word.is_empty() {
            return Vec::new();
        }
        let mut pairs = proposals(word, self.columns(typed).into_iter(), quoting);
        pairs.extend(proposals(word, tables(), quoting));
        pairs.extend(proposals(word, KEYWORDS.iter().copied(), as_typed));
        pairs.extend(proposals(word, self.functions.iter().map(String::as_str), calling));
        pairs
    }

    /// Proposals for a name in double quotes, of which `part` is typed.
    fn quoted(&self, typed: &str, before: &str, part: &str) -> Vec<Pair> {
        let table = before.strip_suffix('.').map(|before| &before[word_start(before)..]);
        if let Some(columns) = table.and_then(|table| self.columns_of(typed, table)) {
            return proposals(part, columns.iter().map(String::as_str), in_quotes);
        }
        let tables = self.tables.keys().map(String::as_str);
        if table_word(before).is_some() {
            return proposals(part, tables, in_quotes);
        }
        let mut pairs = proposals(part, self.columns(typed).into_iter(), in_quotes);
        pairs.extend(proposals(part, tables, in_quotes));
        pairs
    }

    /// Columns of the tables that the statement names, then all others.
    fn columns(&self, typed: &str) -> Vec<&str> {
        let text = words_of(typed);
        let (named, other): (Vec<_>, Vec<_>) =
            self.tables.iter().partition(|(table, _)| text.contains(&table.to_lowercase()));
        let mut seen = BTreeSet::new();
        let columns = named.into_iter().chain(other).flat_map(|(_, columns)| columns);
        columns.map(String::as_str).filter(|column| seen.insert(*column)).collect()
    }

    /// The columns of a table, or of the table that has this alias in the statement.
    fn columns_of(&self, typed: &str, name: &str) -> Option<&Vec<String>> {
        let find = |name: &str| {
            let (_, columns) =
                self.tables.iter().find(|(table, _)| table.eq_ignore_ascii_case(name))?;
            Some(columns)
        };
        find(name).or_else(|| {
            let words = words_of(typed);
            let place = |(i, word): (usize, &String)| word.eq_ignore_ascii_case(name).then_some(i);
            let places = words.iter().enumerate().filter_map(place);
            places.filter(|i| *i > 0).find_map(|i| match words[i - 1].as_str() {
                "as" => find(words.get(i.checked_sub(2)?)?),
                table => find(table),
            })
        })
    }
}

/// The words of a text, in lower case.
fn words_of(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let words = text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The word behind which a table comes next, such as FROM.
fn table_word(before: &str) -> Option<&'static str> {
    let is_behind = before.ends_with(|c: char| c.is_whitespace());
    let last = before.split_whitespace().next_back().filter(|_| is_behind)?;
    BEFORE_TABLES.into_iter().find(|word| word.eq_ignore_ascii_case(last))
}

/// Each line is taken as it is: the shell asks for more while the statement is not finished.
impl Validator for Assistant {}

/// True if what was typed can be run: a dot command, nothing, or statements with their semicolons.
pub fn is_finished(text: &str) -> bool {
    if text.trim_start().starts_with('.') {
        return true;
    }
    let parts = cutter::split(text);
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
        let typed = format!("{}{typed}", self.before);
        let mut pairs = self.names().proposals(&typed, word);
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
            "timer" | "pager" => proposals(word, ["on", "off"].into_iter(), unchanged),
            "schema" | "import" | "dump" => {
                proposals(word, names.tables.keys().map(String::as_str), unchanged)
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

/// A function's name, and the parenthesis of the call.
fn calling(_: &str) -> fn(&str) -> String {
    |name| format!("{name}(")
}

fn quoting(_: &str) -> fn(&str) -> String {
    quote
}

/// A name in the double quotes of which the first is typed already.
fn in_quotes(_: &str) -> fn(&str) -> String {
    |name| format!("\"{}\"", name.trim_matches('"'))
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

/// Where the word begins that is typed; a name in double quotes begins with the quote.
fn word_start(typed: &str) -> usize {
    let mut quotes = typed.char_indices().filter(|(_, c)| *c == '"').map(|(at, _)| at);
    let count = quotes.clone().count();
    if count % 2 == 1
        && let Some(open) = quotes.nth(count - 1)
    {
        return open;
    }
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
    [".read ", ".output ", ".once ", ".cd ", ".import "].iter().any(|command| {
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
    fn what_is_likely_is_proposed() {
        let tables = [("trips", &["fare", "Zone"][..]), ("zones", &["id", "fare_kind"])];
        let columns = |of: &[&str]| of.iter().map(|name| name.to_string()).collect();
        let tables = tables.map(|(table, of)| (table.to_string(), columns(of)));
        let functions = vec!["fabs".to_string(), "floor".to_string()];
        let table_functions = vec!["zip".to_string(), "range".to_string()];
        let names = Names { tables: BTreeMap::from(tables), functions, table_functions };
        let proposed = |typed: &str| -> Vec<String> {
            let pairs = names.proposals(typed, &typed[word_start(typed)..]);
            pairs.into_iter().map(|pair| pair.replacement).collect()
        };
        assert_eq!(proposed("SELECT 1 FROM "), ["trips", "zones"]);
        assert_eq!(proposed("insert into z"), ["zones"]);
        assert_eq!(proposed("SELECT 1 FROM z"), ["zones", "zip("]);
        assert_eq!(proposed("SELECT \"Zo"), ["\"Zone\"", "\"zones\""]);
        assert_eq!(proposed("SELECT 1 FROM trips AS t WHERE t.\"zo"), ["\"Zone\""]);
        assert_eq!(proposed("SELECT 1 FROM \"t"), ["\"trips\""]);
        assert_eq!(proposed("SELECT \"Zone\", fl"), ["floor("]);
        assert_eq!(proposed("SELECT trips."), ["trips.fare", "trips.\"Zone\""]);
        assert_eq!(proposed("SELECT 1\nFROM trips AS t JOIN zones z ON z.i"), ["z.id"]);
        assert_eq!(proposed("SELECT 1 FROM trips AS t WHERE t.f"), ["t.fare"]);
        assert_eq!(proposed("FROM zones SELECT far"), ["fare_kind", "fare"]);
        assert_eq!(proposed("SELECT fl"), ["floor("]);
        assert_eq!(proposed("SELECT "), Vec::<String>::new());
        assert_eq!(proposed("SELECT nosuch.f"), Vec::<String>::new());
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
