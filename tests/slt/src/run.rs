//! Runs one file: its steps, one process for its database, and what came of each record.

use crate::compare::{self, Dialect, Expected};
use crate::dialect::{self, Letter, Run, Step};
use crate::known::Known;
use crate::session::{Answer, Session, SessionError};
use sqllogictest::{
    DB, DBOutput, ExpectedError, QueryExpect, Record, Runner, StatementExpect, TestError,
    TestErrorKind,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all files of a run have in common.
pub struct Settings {
    /// The command of the session's process.
    pub command: Vec<String>,
    pub timeout: Duration,
    /// The folder that the names of files in statements are relative to.
    pub folder: PathBuf,
    /// Names for `skipif` and `onlyif`.
    pub labels: Vec<String>,
    /// What errors say is not compared.
    pub any_error: bool,
    /// Rows are in any order where a statement says none.
    pub any_order: bool,
    pub known: Known,
    /// Files that are known as a whole are run: what fails in them is known.
    pub runs_known_files: bool,
}

/// What came of one record or file.
pub enum Verdict {
    Passed,
    /// Another answer than expected.
    Failed(String),
    /// The same, but listed, and why.
    Known(String),
    /// A failure behind a statement that failed: most likely because of that.
    Followed(String),
    /// Not run, and why.
    Skipped(String),
}

/// One record and what came of it.
pub struct Told {
    pub line: usize,
    pub sql: String,
    pub verdict: Verdict,
}

/// A connection of the crate's runner: one session of the process.
struct Connection {
    process: Arc<Mutex<Session>>,
    number: usize,
    engine: String,
}

fn locked(process: &Mutex<Session>) -> MutexGuard<'_, Session> {
    // One thread runs a file; a panic in it ends the run of all.
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DB for Connection {
    type Error = SessionError;
    type ColumnType = Letter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, SessionError> {
        match locked(&self.process).run(self.number, sql)? {
            Answer::Count(count) if compare::wants_count() => {
                let rows = compare::texts("I", vec![vec![Some(count.to_string())]]);
                Ok(DBOutput::Rows { types: vec![Letter('I')], rows })
            }
            Answer::Count(count) => Ok(DBOutput::StatementComplete(count)),
            Answer::Rows { types, rows } => {
                let rows = compare::texts(&types, rows);
                Ok(DBOutput::Rows { types: types.chars().map(Letter).collect(), rows })
            }
        }
    }

    fn engine_name(&self) -> &str {
        &self.engine
    }
}

/// Whether the type letters of a result are those of the file. DuckDB's and SQLite's files only
/// give the number of columns. `?` is any type, and that of a column of NULLs.
#[expect(clippy::ptr_arg, reason = "the crate asks for functions of this type")]
fn same_types(actual: &Vec<Letter>, expected: &Vec<Letter>) -> bool {
    let one = |a: &Letter, e: &Letter| a == e || a.0 == '?' || e.0 == '?';
    actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, e)| one(a, e))
}

#[expect(clippy::ptr_arg, reason = "the crate asks for functions of this type")]
fn same_count(actual: &Vec<Letter>, expected: &Vec<Letter>) -> bool {
    actual.len() == expected.len()
}

/// A database: its process and the crate's runner on it.
struct Database {
    process: Arc<Mutex<Session>>,
    run: Box<dyn FnMut(Record<Letter>) -> Result<(), TestError>>,
}

impl Database {
    fn start(settings: &Settings, dialect: Dialect) -> Result<Database, String> {
        let session = Session::start(&settings.command, &settings.folder, settings.timeout);
        let process = Arc::new(Mutex::new(session.map_err(|error| error.to_string())?));
        let engine = settings.labels.first().cloned().unwrap_or_default();
        let (shared, mut made) = (process.clone(), 0);
        let mut runner = Runner::new(move || {
            let connection =
                Connection { process: shared.clone(), number: made, engine: engine.clone() };
            made += 1;
            async move { Ok(connection) }
        });
        for label in settings.labels.iter().skip(1) {
            runner.add_label(label);
        }
        runner.with_validator(|_, actual, lines| compare::is_same(actual, lines));
        let own = dialect == Dialect::Own;
        runner.with_column_validator(if own { same_types } else { same_count });
        let run = Box::new(move |record| runner.run(record).map(drop));
        Ok(Database { process, run })
    }

    fn gone(&self) -> Option<String> {
        locked(&self.process).gone().map(str::to_string)
    }
}

/// What went wrong in the database so far.
#[derive(Default)]
struct State {
    /// A statement failed that later ones may rely on.
    broken: bool,
    /// The file asks for another order of NULL than SwingDB's.
    null_order: bool,
}

/// Runs a file, and tells each record to `tell`.
pub fn file(settings: &Settings, path: &Path, name: &str, tell: &mut dyn FnMut(Told)) {
    let mut say = |line, verdict| tell(Told { line, sql: String::new(), verdict });
    let known = || settings.known.file(name);
    if let Some(reason) = if settings.runs_known_files { None } else { known() } {
        return say(0, Verdict::Skipped(format!("known: {reason}")));
    }
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return say(0, Verdict::Failed(error.to_string())),
    };
    let temporary = match tempfile::tempdir() {
        Ok(temporary) => temporary,
        Err(error) => return say(0, Verdict::Failed(error.to_string())),
    };
    let dialect = dialect::of_file(name, &text);
    let steps = dialect::steps(dialect, name, &text, &temporary.path().to_string_lossy());
    compare::forget_labels();
    let mut database = match Database::start(settings, dialect) {
        Ok(database) => database,
        Err(error) => return say(0, Verdict::Failed(error)),
    };
    let mut state = State::default();
    for step in steps {
        match step {
            Step::Skip { line, reason } => {
                let sql = String::new();
                tell(Told { line, sql, verdict: Verdict::Skipped(reason) });
            }
            Step::Stop { line, reason } => {
                let (sql, verdict) = (String::new(), stopped(dialect, reason));
                return tell(Told { line, sql, verdict });
            }
            Step::Fresh => match Database::start(settings, dialect) {
                Ok(fresh) => (database, state) = (fresh, State::default()),
                Err(error) => {
                    let sql = String::new();
                    return tell(Told { line: 0, sql, verdict: Verdict::Failed(error) });
                }
            },
            Step::Reconnect => {
                // A session that cannot be had shows at the next statement.
                let _ = locked(&database.process).reconnect(0);
            }
            Step::Run(run) => {
                let Some(told) = record(settings, name, dialect, &mut database, *run, &mut state)
                else {
                    continue;
                };
                tell(told);
                if database.gone().is_some() {
                    let verdict = Verdict::Skipped("the process is gone".to_string());
                    return tell(Told { line: 0, sql: String::new(), verdict });
                }
            }
        }
    }
}

/// A file of ours runs to its end; others are skipped from where they cannot be followed.
fn stopped(dialect: Dialect, reason: String) -> Verdict {
    match dialect {
        Dialect::Own => Verdict::Failed(reason),
        Dialect::DuckDb | Dialect::Sqlite => Verdict::Skipped(format!("rest of file: {reason}")),
    }
}

/// Runs a record; `None` for what is no statement.
fn record(
    settings: &Settings,
    name: &str,
    dialect: Dialect,
    database: &mut Database,
    mut run: Run,
    state: &mut State,
) -> Option<Told> {
    let (sql, types, must_succeed) = described(&run.record);
    if let Some(label) = left_out(&run.record, &settings.labels) {
        let verdict = Verdict::Skipped(format!("for other engines: {label}"));
        return Some(Told { line: run.line, sql, verdict });
    }
    let any_order = settings.any_order && !compare::is_ordered(&sql);
    let expected = Expected { dialect, types, order: run.order, label: run.label, any_order };
    compare::expect(expected);
    if settings.any_error
        && let Record::Statement { expected: StatementExpect::Error(error), .. } = &mut run.record
    {
        *error = ExpectedError::Empty;
    }
    let is_statement = matches!(run.record, Record::Statement { .. } | Record::Query { .. });
    let outcome = (database.run)(run.record);
    if !is_statement && outcome.is_ok() {
        return None;
    }
    let verdict = match outcome {
        Ok(()) => Verdict::Passed,
        Err(_) if run.maybe && database.gone().is_none() => Verdict::Passed,
        Err(error) => {
            let kind = error.kind();
            let answer = answer(&kind, state.null_order);
            let detail = kind.to_string();
            let known = settings.known.failure(name, run.line, &sql, &answer);
            match known {
                Some(reason) => Verdict::Known(reason.to_string()),
                None if state.broken => Verdict::Followed(detail),
                None => Verdict::Failed(detail),
            }
        }
    };
    let failed = !matches!(verdict, Verdict::Passed);
    // A statement of ours fails by a mistake alone, or as the list says.
    let goes_on = dialect != Dialect::Own || matches!(verdict, Verdict::Known(_));
    state.broken |= goes_on && failed && must_succeed;
    state.null_order |= failed && sql.to_ascii_lowercase().contains("default_null_order");
    Some(Told { line: run.line, sql, verdict })
}

/// The SQL of a record, its type letters, and whether later records rely on its success.
fn described(record: &Record<Letter>) -> (String, String, bool) {
    match record {
        Record::Statement { sql, expected, .. } => {
            let fails = matches!(expected, StatementExpect::Error(_));
            (sql.clone(), String::new(), !fails && changes_tables(sql))
        }
        Record::Query { sql, expected, .. } => {
            let types = match expected {
                QueryExpect::Results { types, .. } => types.iter().map(|letter| letter.0).collect(),
                QueryExpect::Error(_) => String::new(),
            };
            (sql.clone(), types, false)
        }
        Record::Let { sql, .. } => (sql.clone(), String::new(), true),
        _ => (String::new(), String::new(), false),
    }
}

/// Whether later records may rely on a statement. On settings of another engine and on indexes they
/// do not: these change no answer.
fn changes_tables(sql: &str) -> bool {
    let word = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    const OTHERS: [&str; 8] =
        ["SET", "RESET", "PRAGMA", "LOAD", "INSTALL", "SELECT", "EXPLAIN", "CHECKPOINT"];
    let second =
        sql.split_whitespace().skip(1).take(2).any(|word| word.eq_ignore_ascii_case("INDEX"));
    !OTHERS.contains(&word.trim_end_matches(';')) && !second
}

/// The condition that keeps a record from these engines.
fn left_out(record: &Record<Letter>, labels: &[String]) -> Option<String> {
    use sqllogictest::Condition::{OnlyIf, SkipIf};
    let (Record::Statement { conditions, .. } | Record::Query { conditions, .. }) = record else {
        return None;
    };
    conditions.iter().find_map(|condition| match condition {
        SkipIf { label } if labels.contains(label) => Some(format!("skipif {label}")),
        OnlyIf { label } if !labels.contains(label) => Some(format!("onlyif {label}")),
        _ => None,
    })
}

/// What the list of known differences is asked with: the error's text, or what else differs.
fn answer(kind: &TestErrorKind, null_order: bool) -> String {
    match kind {
        TestErrorKind::QueryResultMismatch { expected, actual, .. }
            if null_order && compare::is_other_order(actual, expected) =>
        {
            "null order".to_string()
        }
        TestErrorKind::Fail { err, .. } | TestErrorKind::ErrorMismatch { err, .. } => {
            err.to_string()
        }
        TestErrorKind::Ok { .. } => "no error".to_string(),
        TestErrorKind::QueryResultColumnsMismatch { .. } => "columns".to_string(),
        TestErrorKind::StatementResultMismatch { .. } => "count".to_string(),
        _ => "rows".to_string(),
    }
}
