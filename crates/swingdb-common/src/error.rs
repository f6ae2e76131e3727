//! The one error type of the public interface.
//!
//! Every operation of the database ends in [`Error`]: structured, so that a caller (the Python
//! package, the shell) can act on the kind and the fields without reading the text. The text is one
//! sentence that says what happened and, where something can be done about it, what.
//!
//! Errors of Arrow and DataFusion are translated when they cross into this crate ([`From`] below):
//! an [`Error`] of ours that travelled through a query plan as an external error comes out
//! unchanged.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;

use crate::engine_words::{of_conversions, of_plans, of_values};

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing a name was looked up as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A database or shared snapshot in a namespace.
    Database,
    /// A schema of a database.
    Schema,
    /// A table.
    Table,
    /// A view.
    View,
    /// A macro that stands for an expression.
    Macro,
    /// A macro that stands for a query.
    TableMacro,
    /// A sequence of numbers.
    Sequence,
    /// A type that a statement has named.
    Type,
    /// An index of a table.
    Index,
    /// A column of a table.
    Column,
    /// A function of the SQL language.
    Function,
    /// A file outside the database.
    File,
    /// A setting.
    Setting,
    /// A CHECK constraint.
    Constraint,
    /// A prepared statement.
    Statement,
    /// A savepoint, parameter or another named thing of a session.
    Other,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database => "database",
            Self::Schema => "schema",
            Self::Table => "table",
            Self::View => "view",
            Self::Macro => "macro",
            Self::TableMacro => "table macro",
            Self::Sequence => "sequence",
            Self::Type => "type",
            Self::Index => "index",
            Self::Column => "column",
            Self::Function => "function",
            Self::File => "file",
            Self::Setting => "setting",
            Self::Constraint => "constraint",
            Self::Statement => "prepared statement",
            Self::Other => "object",
        })
    }
}

/// Which rule of a table a change violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConstraintKind {
    /// A NULL in a column declared NOT NULL.
    NotNull,
    /// A second row with the same primary key.
    PrimaryKey,
    /// A second row with the same value of a UNIQUE constraint.
    Unique,
    /// A row for which the condition of a CHECK constraint is false.
    Check,
    /// A key that the table of a FOREIGN KEY does not have, or that rows still refer to.
    ForeignKey,
}

impl fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNull => "NOT NULL",
            Self::PrimaryKey => "PRIMARY KEY",
            Self::Unique => "UNIQUE",
            Self::Check => "CHECK",
            Self::ForeignKey => "FOREIGN KEY",
        })
    }
}

/// What is wrong with the store of a database on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreProblem {
    /// Another process, or another handle of this one, has it open.
    InUse,
    /// The disk is full, or a limit of the user's is reached.
    Full,
    /// The file system is read-only, or the directory is not this user's.
    ReadOnly,
    /// A file of the store is missing.
    Missing,
    /// Bytes of the store are not what was written.
    Damaged,
    /// Another version of this program wrote it.
    Version,
    /// The directory holds something else.
    NotAStore,
    /// The database in memory and the one in the store do not belong together.
    Mismatch,
    /// A commit failed half way: it may be on the disk or not. The store takes no more until it is
    /// opened again, and then says which.
    Unknown,
    /// Another failure of the device or the operating system.
    Io,
}

impl fmt::Display for StoreProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "in use",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::Version => "version",
            Self::NotAStore => "not a store",
            Self::Mismatch => "mismatch",
            Self::Unknown => "unknown",
            Self::Io => "io",
        })
    }
}

/// Why an operation of the database failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The SQL text is not a statement. Line and column (from 1) where the parser stopped, when it
    /// says so.
    #[error("{}{message}", position(*.line, *.column))]
    Parse {
        /// What the parser expected and found.
        message: String,
        /// Line from 1.
        line: Option<u64>,
        /// Column from 1.
        column: Option<u64>,
    },
    /// The statement is well-formed but means nothing here: types that do not fit, wrong number of
    /// columns ...
    #[error("{message}")]
    Plan {
        /// What is wrong with it.
        message: String,
    },
    /// A name that does not exist.
    #[error("{kind} {name:?} does not exist{}", did_you_mean(.suggestion))]
    NotFound {
        /// What was looked for.
        kind: ObjectKind,
        /// The name as given.
        name: String,
        /// The nearest existing name, when one is near.
        suggestion: Option<String>,
    },
    /// A snapshot of a database that exists, but of which nothing was shared yet.
    #[error("database {name:?} has not been shared yet: its writer has to share it first")]
    NotShared {
        /// Its name.
        name: String,
    },
    /// A name that is taken.
    #[error("{kind} {name:?} already exists")]
    AlreadyExists {
        /// What has the name.
        kind: ObjectKind,
        /// The name.
        name: String,
    },
    /// The change violates a constraint of the table; nothing of it was applied.
    #[error("{kind} constraint of table {table:?} on ({}) violated: {detail}", .columns.join(", "))]
    Constraint {
        /// The table.
        table: String,
        /// The rule.
        kind: ConstraintKind,
        /// The columns of the constraint.
        columns: Vec<String>,
        /// The offending value.
        detail: String,
    },
    /// A value that cannot be converted to the type it has to have.
    #[error("{}{message}", in_column(.column))]
    Conversion {
        /// What could not be converted, and why.
        message: String,
        /// The column of the target table, when known.
        column: Option<String>,
    },
    /// A file could not be imported (or a line of it not be understood); the table is as it was.
    #[error("{}{}: {message}", .path.display(), at_line(*.line))]
    Import {
        /// The file.
        path: PathBuf,
        /// Line from 1, for text formats.
        line: Option<u64>,
        /// What is wrong.
        message: String,
    },
    /// The memory-backed file system is full, or a limit of memory is reached; the statement was
    /// rolled back.
    #[error("out of memory: {needed} bytes needed, {free} free{}", place(.file_system))]
    OutOfMemory {
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes that were free when asked.
        free: u64,
        /// The file system that is full; `None` when it was a limit of the query engine.
        file_system: Option<PathBuf>,
    },
    /// What does not fit into memory, or is read more than once, could not be kept in a temporary
    /// file.
    #[error("{}{message}", of_file(.folder))]
    TemporaryFile {
        /// The folder for temporary files; `None`: there is none.
        folder: Option<PathBuf>,
        /// Whether the folder's file system is full, or a limit is reached.
        is_full: bool,
        /// The operating system's number of the error, if the error is one of its own.
        errno: Option<i32>,
        /// What failed, and what to do.
        message: String,
    },
    /// Somebody else is writing: another process (named) or another transaction of this process.
    #[error("{}", busy(.name, *.pid, .command))]
    Busy {
        /// The database.
        name: String,
        /// The process that holds it; `None`: another transaction of this process.
        pid: Option<u32>,
        /// Its command line, when readable.
        command: Option<String>,
    },
    /// The owner of a database refuses snapshots at the moment, or none could be had of it in time.
    #[error("{message}; try again later")]
    Refused {
        /// The database.
        name: String,
        /// Why.
        message: String,
    },
    /// The statement does not fit the state of the transaction.
    #[error("{message}")]
    Transaction {
        /// What does not fit.
        message: String,
    },
    /// An operation of the operating system failed.
    #[error("{}{source}", of_file(.path))]
    Io {
        /// The file, when one is concerned.
        path: Option<PathBuf>,
        /// The operating system's error.
        source: Arc<std::io::Error>,
    },
    /// The store of a database on a disk could not be opened, read or written. What is in memory,
    /// and what was on the disk before, is as it was, unless the problem is
    /// [`StoreProblem::Unknown`].
    #[error("store {}: {message}", .path.display())]
    Store {
        /// Its directory.
        path: PathBuf,
        /// What kind of problem.
        problem: StoreProblem,
        /// What failed where, and what to do.
        message: String,
    },
    /// Bytes of a database that are not what this program writes: damaged, or made by somebody
    /// else.
    #[error("database {name:?} is damaged: {message}")]
    Corrupt {
        /// The database (or area).
        name: String,
        /// What was found where.
        message: String,
    },
    /// The memory of a database went with the last process that held it: it was no file but a
    /// memfd. What was in it cannot be had any more.
    #[error(
        "the memory of database {name:?} went with the last process that held it: it was a memfd, \
         not a file in {}; drop the database or make it anew, and keep a process open that writes \
         or reads it, or give that file system more room (swingdb doctor says how)",
        folder.display()
    )]
    MemoryGone {
        /// The database (or the one that it depends on).
        name: String,
        /// The folder of its area.
        folder: PathBuf,
    },
    /// The statement was interrupted by the caller; nothing of it was applied.
    #[error("interrupted")]
    Interrupted,
    /// The statement took longer than `statement_timeout` allows; nothing of it was applied.
    #[error("the statement took longer than statement_timeout allows: {limit_ms} ms")]
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// A result is larger than the session's settings allow.
    #[error("the result is larger than {setting} allows: {limit}")]
    LimitReached {
        /// The setting: `max_result_rows` or `max_result_bytes`.
        setting: &'static str,
        /// Its value.
        limit: u64,
    },
    /// The session is confined, and may not do this.
    #[error("not allowed: {message}")]
    NotAllowed {
        /// What may not be done, and which setting says so.
        message: String,
    },
    /// The handle was opened before a `fork` and used for writing in the child.
    #[error(
        "this database was opened before a fork; open one or take a snapshot in the child process"
    )]
    Forked,
    /// The handle was closed.
    #[error("the {what} is closed")]
    Closed {
        /// What was closed.
        what: &'static str,
    },
    /// Valid SQL or a valid request that this version cannot carry out.
    #[error("not supported: {message}")]
    Unsupported {
        /// What is not supported, and what can be done instead.
        message: String,
    },
    /// A failure while a query ran (division by zero, overflow ...).
    #[error("{message}")]
    Execution {
        /// What failed.
        message: String,
    },
    /// A statement of a text with several of them failed; parse errors have a line of their own.
    #[error("line {line}: {error}")]
    InStatement {
        /// The line of the text, from 1, in which the statement begins.
        line: u64,
        /// What failed.
        error: Box<Error>,
    },
    /// A defect of this program.
    #[error("internal error (please report it): {message}")]
    Internal {
        /// What did not hold.
        message: String,
    },
}

fn position(line: Option<u64>, column: Option<u64>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: "),
        (Some(line), None) => format!("line {line}: "),
        _ => String::new(),
    }
}

fn in_column(column: &Option<String>) -> String {
    column.as_ref().map(|c| format!("column {c:?}: ")).unwrap_or_default()
}

fn at_line(line: Option<u64>) -> String {
    line.map(|l| format!(", line {l}")).unwrap_or_default()
}

fn of_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|p| format!("{}: ", p.display())).unwrap_or_default()
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|s| format!("; did you mean {s:?}?")).unwrap_or_default()
}

fn place(file_system: &Option<PathBuf>) -> String {
    match file_system {
        Some(path) => format!(
            " in {}: drop what is not needed, or enlarge its file system \
             (mount -o remount,size=..., docker run --shm-size=...)",
            path.display()
        ),
        None => " of what memory_limit allows; raise it (SET memory_limit), or let the statement \
                 hold less at a time"
            .to_string(),
    }
}

fn busy(name: &str, pid: Option<u32>, command: &Option<String>) -> String {
    match pid {
        Some(0) => format!(
            "database {name:?} is open for writing in a process that cannot be seen from here, as \
             of another pid namespace; take a snapshot of it instead"
        ),
        Some(pid) => {
            let command = command.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
            format!(
                "database {name:?} is open for writing in process {pid}{command}; \
                 take a snapshot of it instead: a snapshot can be read and written independently"
            )
        }
        None => format!("another transaction of this process is writing to database {name:?}"),
    }
}

impl Error {
    /// The error of a statement that begins in a line of a text with several statements. What ends
    /// a statement from outside stays as it is, and so does what has a line already.
    pub fn in_statement(self, line: u64) -> Self {
        match self {
            Self::Interrupted
            | Self::TimedOut { .. }
            | Self::Closed { .. }
            | Self::Forked
            | Self::InStatement { .. }
            | Self::Parse { line: Some(_), .. } => self,
            error => Self::InStatement { line, error: Box::new(error) },
        }
    }

    /// The error itself, without the line of its statement.
    pub fn without_line(&self) -> &Self {
        match self {
            Self::InStatement { error, .. } => error,
            error => error,
        }
    }

    /// A defect of this program, with what did not hold.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into() }
    }

    /// A statement that means nothing here.
    pub fn plan(message: impl Into<String>) -> Self {
        Self::Plan { message: message.into() }
    }

    /// A request this version cannot carry out.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into() }
    }

    /// A statement that does not fit the state of the transaction.
    pub fn transaction(message: impl Into<String>) -> Self {
        Self::Transaction { message: message.into() }
    }

    /// A failed operation of the operating system on `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: Some(path.into()), source: Arc::new(source) }
    }

    /// A missing `kind` called `name`; the nearest of `existing` is suggested when it is near
    /// enough.
    pub fn not_found<S: AsRef<str>>(
        kind: ObjectKind,
        name: impl Into<String>,
        existing: impl IntoIterator<Item = S>,
    ) -> Self {
        let name = name.into();
        let suggestion = nearest(&name, existing);
        Self::NotFound { kind, name, suggestion }
    }
}

/// Names longer than this get no suggestion: the comparison is quadratic.
const MAX_SUGGESTION_CHARS: usize = 64;

/// The existing name with the smallest edit distance, when that is at most a third of the name's
/// length (at least 1).
fn nearest<S: AsRef<str>>(given: &str, existing: impl IntoIterator<Item = S>) -> Option<String> {
    let name: Vec<char> = given.to_lowercase().chars().collect();
    if name.len() > MAX_SUGGESTION_CHARS {
        return None;
    }
    let limit = (name.len() / 3).max(1);
    let mut best: Option<(usize, String)> = None;
    for candidate in existing {
        let candidate = candidate.as_ref();
        if candidate == given {
            continue;
        }
        let chars: Vec<char> = candidate.to_lowercase().chars().collect();
        if chars.len().abs_diff(name.len()) > limit {
            continue;
        }
        let distance = edit_distance(&name, &chars);
        if distance <= limit && best.as_ref().is_none_or(|(d, _)| distance < *d) {
            best = Some((distance, candidate.to_owned()));
        }
    }
    best.map(|(_, name)| name)
}

/// Levenshtein's distance with one row of state.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        match source.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => Self::Io { path: None, source: Arc::new(source) },
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(inner) => from_boxed(inner),
            ArrowError::IoError(_, source) => source.into(),
            other => from_arrow(&other),
        }
    }
}

/// An error of Arrow that holds no other one.
fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::CsvError(message)
        | ArrowError::JsonError(message) => {
            Error::Conversion { message: of_conversions(message), column: None }
        }
        ArrowError::SchemaError(message) => Error::Plan { message: of_plans(message) },
        ArrowError::NotYetImplemented(message) => Error::Unsupported { message: of_plans(message) },
        ArrowError::MemoryError(message) => Error::Execution { message: message.clone() },
        other => Error::Execution { message: of_values(&other.to_string()) },
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => from_boxed(inner),
            DataFusionError::ArrowError(inner, _) => (*inner).into(),
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
                (*inner).into()
            }
            DataFusionError::Shared(inner) => from_shared(&inner),
            DataFusionError::Collection(mut all) if !all.is_empty() => all.swap_remove(0).into(),
            DataFusionError::SQL(parser, _) => parse_error(&parser.to_string()),
            DataFusionError::Plan(message) => plan_error(message),
            DataFusionError::SchemaError(inner, _) => from_schema_error(*inner),
            DataFusionError::NotImplemented(message) => {
                Self::Unsupported { message: unsupported(message) }
            }
            DataFusionError::Execution(message) => Self::Execution { message: of_values(&message) },
            DataFusionError::IoError(source) => source.into(),
            DataFusionError::Internal(message) if is_of_types(&message) => plan_error(message),
            DataFusionError::Internal(message) => Self::Internal { message },
            DataFusionError::ResourcesExhausted(message) => exhausted(&message),
            DataFusionError::ExecutionJoin(error) => panicked(error.to_string()),
            other => Self::Execution { message: of_values(&other.strip_backtrace()) },
        }
    }
}

/// A shared error cannot be taken apart; ours inside is cloned, everything else keeps its text.
fn from_shared(error: &Arc<DataFusionError>) -> Error {
    let ours = |inner: &(dyn std::error::Error + 'static)| match inner.downcast_ref::<Error>() {
        Some(ours) => ours.clone(),
        None => Error::Execution { message: inner.to_string() },
    };
    let in_io = |source: &std::io::Error| match source.get_ref() {
        Some(inner) if inner.is::<Error>() => ours(inner),
        _ => Error::Execution { message: of_values(&error.strip_backtrace()) },
    };
    match error.find_root() {
        DataFusionError::External(inner) => ours(inner.as_ref()),
        DataFusionError::IoError(source) => in_io(source),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => ours(inner.as_ref()),
            ArrowError::IoError(_, source) => in_io(source),
            other => from_arrow(other),
        },
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::Plan(message) => plan_error(message.clone()),
        other => Error::Execution { message: of_values(&other.strip_backtrace()) },
    }
}

/// What is not implemented, in the words that go on after "not supported".
fn unsupported(message: String) -> String {
    let message = of_plans(&tidy(message));
    match message.strip_prefix("Unsupported ") {
        Some(rest) if rest.starts_with("CAST ") => rest.to_owned(),
        _ => message,
    }
}

/// Takes the sizes out of the memory pool's "Failed to allocate additional 1.5 MB for ... - 200.0
/// KB remain available ...", and of a merge's "a single record batch of 1500 bytes exceeds ...".
fn exhausted(message: &str) -> Error {
    let size = |words: &[&str]| -> Option<u64> {
        let [number, unit, ..] = words else { return None };
        let shift = match unit.trim_end_matches(|c: char| !c.is_ascii_alphabetic()) {
            "B" => 0,
            "KB" => 10,
            "MB" => 20,
            "GB" => 30,
            "TB" => 40,
            _ => return None,
        };
        Some((number.parse::<f64>().ok()? * (1u64 << shift) as f64) as u64)
    };
    let words: Vec<&str> = message.split_whitespace().collect();
    let at = |word: &str| words.iter().rposition(|w| *w == word);
    let of_batch = || {
        let i = at("bytes")?;
        words[i.checked_sub(1)?].parse().ok()
    };
    let needed = at("additional").and_then(|i| size(&words[i + 1..])).or_else(of_batch);
    let free = at("remain").and_then(|i| size(&words[i.checked_sub(2)?..]));
    Error::OutOfMemory { needed: needed.unwrap_or(0), free: free.unwrap_or(0), file_system: None }
}

/// What a panic said.
pub(crate) fn panic_text(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "of unknown cause".to_string()))
}

/// A panic in a task of a query. One is no defect: arrays of texts and lists panic when they would
/// hold more than their offsets of 32 bits can tell apart.
pub fn panicked(text: String) -> Error {
    if text.contains("offset overflow") {
        let message = "more than 2 GiB of text, or 2147483647 elements of lists, in one batch of \
                       rows or one result"
            .to_owned();
        return Error::Execution { message };
    }
    Error::Internal { message: text }
}

/// A message of the engine without syntax trees.
fn tidy(message: String) -> String {
    const CORRELATED: [&str; 3] =
        ["OuterReferenceColumn(", "expression ScalarSubquery(", "expression InSubquery("];
    if CORRELATED.iter().any(|node| message.contains(node)) {
        return "this subquery (or LATERAL) that refers to the rows outside it: columns of both are \
                to be compared with =, and the rest be free of them; or write a join"
            .to_owned();
    }
    match message.find("Ident {").or_else(|| message.find("span: Span(")) {
        Some(tree) => {
            let begin = message[..tree].find(['(', '{']).unwrap_or(tree);
            let begin = message[..begin].rfind(' ').filter(|_| begin < tree).unwrap_or(begin);
            message[..begin].trim_end_matches([' ', ':']).to_owned()
        }
        None => message,
    }
}

fn from_schema_error(error: SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // The column may exist, only not in a table of that name.
            let qualified = field.relation.as_ref().filter(|wanted| {
                let known = |f: &Column| f.relation.as_ref().is_some_and(|r| r.resolved_eq(wanted));
                !valid_fields.iter().any(known)
            });
            match qualified {
                Some(table) => Error::not_found(
                    ObjectKind::Table,
                    table.table().to_owned(),
                    valid_fields.iter().filter_map(|f| f.relation.as_ref()).map(|r| r.table()),
                ),
                None => Error::not_found(
                    ObjectKind::Column,
                    field.name.clone(),
                    valid_fields.iter().map(|f| f.name.as_str()),
                ),
            }
        }
        other => Error::Plan { message: other.to_string() },
    }
}

/// A call with arguments of the wrong types lists every signature that was tried and calls itself
/// an internal error; the part for people comes last. What the engine says of an aggregate in WHERE
/// does not help where that is in a subquery.
fn plan_error(message: String) -> Error {
    if message.contains("Aggregate functions are not allowed in the WHERE clause") {
        let message = "an aggregate in WHERE; HAVING has conditions on aggregates, and one of the \
                       rows outside a subquery is computed beside it, such as in a query of WITH"
            .to_owned();
        return Error::Plan { message };
    }
    let message = if message.contains("span: Span(") { tidy(message) } else { message };
    match message.find("No function matches") {
        Some(at) => Error::Plan { message: of_plans(&message[at..]) },
        None => Error::Plan { message: of_plans(&message) },
    }
}

/// Whether what the engine calls an internal error is about the types of operands.
fn is_of_types(message: &str) -> bool {
    message.contains("failed to match any signature")
        || message.starts_with("Failed to coerce types")
}

/// Takes line and column out of the parser's "... at Line: 1, Column: 8".
fn parse_error(text: &str) -> Error {
    let number_after = |label: &str| -> Option<u64> {
        let rest = &text[text.rfind(label)? + label.len()..];
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let (line, column) = (number_after("Line:"), number_after("Column:"));
    let message = text.strip_prefix("sql parser error: ").unwrap_or(text);
    let message = match message.rfind(" at Line:") {
        Some(at) if line.is_some() => &message[..at],
        _ => message,
    };
    Error::Parse { message: message.to_owned(), line, column }
}

fn from_boxed(inner: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let inner = match inner.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(other) => other,
    };
    let inner = match inner.downcast::<DataFusionError>() {
        Ok(error) => return (*error).into(),
        Err(other) => other,
    };
    match inner.downcast::<ArrowError>() {
        Ok(error) => (*error).into(),
        Err(other) => Error::Execution { message: other.to_string() },
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        let error = Error::not_found(ObjectKind::Table, "tripz", ["zones", "trips"]);
        assert_eq!(error.to_string(), "table \"tripz\" does not exist; did you mean \"trips\"?");
        let error = Error::not_found(ObjectKind::Table, "abc", ["zones", "trips"]);
        assert_eq!(error.to_string(), "table \"abc\" does not exist");
    }

    #[test]
    fn our_errors_survive_the_query_engine() {
        let there: DataFusionError = Error::Interrupted.into();
        let there = DataFusionError::Context("scan".into(), Box::new(there));
        assert!(matches!(Error::from(there), Error::Interrupted));
        let there = DataFusionError::ArrowError(Box::new(ArrowError::from(Error::Forked)), None);
        assert!(matches!(Error::from(DataFusionError::Shared(Arc::new(there))), Error::Forked));
        // Through a writer.
        let written = || ArrowError::from(std::io::Error::from(Error::Interrupted));
        assert!(matches!(Error::from(written()), Error::Interrupted));
        let shared = Arc::new(DataFusionError::ArrowError(Box::new(written()), None));
        assert!(matches!(Error::from(DataFusionError::Shared(shared)), Error::Interrupted));
        let shared = Arc::new(DataFusionError::IoError(Error::Interrupted.into()));
        assert!(matches!(Error::from(DataFusionError::Shared(shared)), Error::Interrupted));
    }

    #[test]
    fn syntax_trees_stay_out_of_messages() {
        let unsupported = |message: &str| -> String {
            Error::from(DataFusionError::NotImplemented(message.to_owned())).to_string()
        };
        let dots =
            "Dot access not supported for non-string expr: Identifier(Ident { value: \"a\" })";
        assert_eq!(
            unsupported(dots),
            "not supported: Dot access not supported for non-string expr"
        );
        let node =
            "Unsupported ast node Pivot { table: Table { name: ObjectName([Identifier(Ident {";
        assert_eq!(unsupported(node), "not supported: Unsupported ast node Pivot");
        assert!(unsupported("... expression ScalarSubquery(<subquery>)").contains("a join"));
        assert_eq!(unsupported("window (frames)"), "not supported: window (frames)");
    }

    #[test]
    fn the_wrong_table_is_told_from_the_wrong_column() {
        let missing = |table: &str, name: &str| -> Error {
            let valid_fields = vec![Column::new(Some("trips"), "id")];
            let field = Box::new(Column::new(Some(table), name));
            from_schema_error(SchemaError::FieldNotFound { field, valid_fields })
        };
        assert_eq!(missing("t", "id").to_string(), "table \"t\" does not exist");
        assert_eq!(
            missing("trips", "ids").to_string(),
            "column \"ids\" does not exist; did you mean \"id\"?"
        );
    }

    #[test]
    fn a_call_that_fits_no_signature_is_no_internal_error() {
        let text = "Internal error: Function 'sum' failed to match. No function matches sum(x)";
        assert_eq!(plan_error(text.into()).to_string(), "No function matches sum(x)");
        assert_eq!(plan_error("plain".into()).to_string(), "plain");
        let tree = "Substring is not valid Substring { expr: Value(Value { span: Span(1..2) }) }";
        assert_eq!(plan_error(tree.into()).to_string(), "Substring is not valid Substring");
        for text in ["Function 'f' failed to match any signature, errors", "Failed to coerce types"]
        {
            let error = Error::from(DataFusionError::Internal(text.into()));
            assert!(matches!(error, Error::Plan { .. }), "{error:?}");
        }
    }

    #[test]
    fn exhausted_memory_keeps_its_sizes() {
        let text = "Failed to allocate additional 1.5 MB for HashJoin with 2.0 KB already \
            allocated \
            for this reservation - 200.0 KB remain available for the total memory pool: fair";
        let error = Error::from(DataFusionError::ResourcesExhausted(text.into()));
        let Error::OutOfMemory { needed, free, .. } = error else { panic!("{error:?}") };
        assert_eq!((needed, free), (3 << 19, 200 << 10));
        let text = "Cannot merge sorted runs: a single record batch of 70000 bytes exceeds the \
            available merge memory and cannot be split further";
        let error = Error::from(DataFusionError::ResourcesExhausted(text.into()));
        let Error::OutOfMemory { needed, .. } = error else { panic!("{error:?}") };
        assert_eq!(needed, 70_000);
        assert!(error.to_string().contains("raise it (SET memory_limit)"), "{error}");
    }

    #[test]
    fn parser_positions_are_taken_apart() {
        let error = parse_error("sql parser error: Expected: x, found: y at Line: 2, Column: 8");
        let Error::Parse { message, line, column } = error else { panic!("{error:?}") };
        assert_eq!((message.as_str(), line, column), ("Expected: x, found: y", Some(2), Some(8)));
    }

    #[test]
    fn a_busy_database_names_its_owner() {
        let error =
            Error::Busy { name: "taxi".into(), pid: Some(7), command: Some("loader".into()) };
        assert!(error.to_string().contains("process 7 (loader); take a snapshot"));
    }
}
