//! IMPORT DATABASE.
//!
//! The scripts may come from elsewhere, so only statements that make and fill a database are run:
//! none can end the transaction, change what was there, or reach files beside the folder's. Data
//! files are looked for in the folder, whatever path COPY names, so that an export can be moved.
//!
//! **Cycle.** It runs the statements of scripts.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::hidden;
use swingdb_sql::bind::sequences;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::parser;
use swingdb_sql::text::statement::{CopyStatement, Own, Parsed, What};

use crate::execute::atomic::all_or_nothing;
use crate::execute::backup::{LOAD, OWN, SCHEMA};
use crate::execute::statement;
use crate::session::result::QueryResult;
use crate::session::{Session, text_memory};

/// Most bytes of a script.
const MAX_SCRIPT_BYTES: u64 = 1 << 30;
/// A name that no statement writes.
const SAVEPOINT: &str = hidden!("import database");

/// Runs an IMPORT DATABASE.
pub(crate) fn import(session: &Arc<Session>, folder: &str) -> Result<QueryResult> {
    session.limits().external("IMPORT DATABASE")?;
    let folder = Path::new(folder.strip_prefix("file://").unwrap_or(folder));
    let files = [(SCHEMA, true), (OWN, false), (LOAD, true)];
    let mut scripts = Vec::new();
    for (name, is_needed) in files {
        let path = folder.join(name);
        let text = match read(&path) {
            Err(Error::NotFound { .. }) if !is_needed => continue,
            other => other?,
        };
        let memory = text_memory::for_text(&text, session)?;
        let statements = Script::parse(path, &text)?;
        scripts.push((statements, memory));
    }
    let rows = session.alone(|session| {
        all_or_nothing(session, SAVEPOINT, || {
            let mut rows = 0;
            for (script, _memory) in scripts {
                rows += script.run(session, folder)?;
            }
            Ok(rows)
        })
    })?;
    Ok(QueryResult::changed(Some(rows), "IMPORT"))
}

/// The text of a script.
fn read(path: &Path) -> Result<String> {
    let fail = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(ObjectKind::File, path.to_string_lossy(), [""; 0])
        }
        std::io::ErrorKind::InvalidData => broken(path, None, "is no UTF-8 text"),
        _ => Error::io(path, error),
    };
    let facts = std::fs::metadata(path).map_err(fail)?;
    if !facts.is_file() {
        return Err(broken(path, None, "is not a regular file"));
    }
    if facts.len() > MAX_SCRIPT_BYTES {
        return Err(broken(path, None, "is larger than 1 GiB"));
    }
    std::fs::read_to_string(path).map_err(fail)
}

fn broken(path: &Path, line: Option<u64>, message: impl Into<String>) -> Error {
    Error::Import { path: path.to_path_buf(), line, message: message.into() }
}

/// The statements of a file.
struct Script {
    path: PathBuf,
    /// With their lines.
    statements: VecDeque<(u64, Parsed)>,
}

impl Script {
    fn parse(path: PathBuf, text: &str) -> Result<Self> {
        let parsed = parser::parse_lines(text).map_err(|error| match error {
            Error::Parse { message, line, .. } => broken(&path, line, message),
            Error::Unsupported { message } => broken(&path, None, message),
            other => other,
        })?;
        for (line, statement) in &parsed {
            if !may_run(statement) {
                let message = "IMPORT DATABASE runs only statements that make schemas, tables, \
                               views, macros, sequences, types, indexes and comments, and COPY ... \
                               FROM; run other scripts by themselves";
                return Err(broken(&path, Some(*line), message));
            }
        }
        Ok(Self { path, statements: parsed })
    }

    /// Runs all statements; how many rows they have loaded. Views and macros whose names mean
    /// nothing yet are made again behind the others: not everybody writes them in order.
    fn run(self, session: &Arc<Session>, folder: &Path) -> Result<u64> {
        let Self { path, mut statements } = self;
        let mut rows = 0;
        loop {
            let before = statements.len();
            let (mut later, mut first_error) = (VecDeque::new(), None);
            for (line, parsed) in statements {
                session.cancel_token().check()?;
                let again = may_wait(&parsed).then(|| parsed.clone());
                match run(session, folder, parsed) {
                    Ok(loaded) => rows += loaded,
                    Err(error) => {
                        let error = placed(error, &path, line);
                        let Some(again) = again else { return Err(error) };
                        later.push_back((line, again));
                        first_error.get_or_insert(error);
                    }
                }
            }
            match first_error {
                None => return Ok(rows),
                Some(error) if later.len() == before => return Err(error),
                Some(_) => statements = later,
            }
        }
    }
}

/// Whether a statement makes or fills something, and does nothing else.
fn may_run(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Sql(statement) => match statement.as_ref() {
            Statement::CreateTable(create) => !create.temporary,
            Statement::CreateView(create) => !create.temporary,
            Statement::CreateSchema { .. }
            | Statement::CreateIndex(_)
            | Statement::Comment { .. }
            | Statement::AlterTable(_)
            | Statement::Insert(_) => true,
            Statement::Query(_) => sequences::are_used(&mut statement.as_ref().clone()),
            _ => false,
        },
        Parsed::Copy(copy) => matches!(copy.what, What::From { .. }),
        Parsed::Own(Own::CreateMacro(create)) => !create.temporary,
        Parsed::Own(
            Own::CreateSequence(_) | Own::AlterSequence(_) | Own::CreateType(_) | Own::ForceView(_),
        ) => true,
        _ => false,
    }
}

/// Whether a statement may be run behind those that follow it.
fn may_wait(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Sql(statement) => matches!(statement.as_ref(), Statement::CreateView(_)),
        Parsed::Own(own) => matches!(own, Own::CreateMacro(_)),
        _ => false,
    }
}

fn run(session: &Arc<Session>, folder: &Path, parsed: Parsed) -> Result<u64> {
    let parsed = match parsed {
        Parsed::Copy(copy) => Parsed::Copy(Box::new(here(*copy, folder)?)),
        other => other,
    };
    let loads = matches!(parsed, Parsed::Copy(_));
    let result = statement::execute(session, parsed, &Params::default())?;
    let rows = result.rows_changed().filter(|_| loads).unwrap_or_default();
    result.collect()?;
    Ok(rows)
}

/// The statement, with the file of the folder.
fn here(mut copy: CopyStatement, folder: &Path) -> Result<CopyStatement> {
    let Some(name) = Path::new(&copy.path).file_name() else {
        return Err(Error::plan(format!("COPY from {:?}, which names no file", copy.path)));
    };
    let path = folder.join(name);
    if !path.exists() {
        return Err(Error::not_found(ObjectKind::File, path.to_string_lossy(), [""; 0]));
    }
    // Names come from SQL, so they are UTF-8.
    copy.path = path.to_string_lossy().into_owned();
    copy.of_export();
    Ok(copy)
}

/// The error with the place of the statement, where it is about what the statement says.
fn placed(error: Error, path: &Path, line: u64) -> Error {
    match error {
        Error::Plan { .. } | Error::Parse { .. } | Error::NotFound { .. } => {
            broken(path, Some(line), error.to_string())
        }
        Error::Unsupported { message } => {
            broken(path, Some(line), format!("not supported: {message}"))
        }
        other => other,
    }
}
