//! One client's snapshot, and which state each of its statements sees: [`Session`].
//!
//! Outside of a transaction a session moves to the newest shared state before each group of
//! statements (a query message, or what an extended client sends up to its Sync). From BEGIN to
//! COMMIT it stays at one state. A result that is being read keeps the state that it started from.
//!
//! Sessions read. Changes of the database are refused, since no other process would see a change
//! of a snapshot. Temporary tables can be made, and end with the session.
//!
//! The lease on the state is the snapshot's. It ends when the session is dropped, or with the
//! process, however that dies.

use std::path::PathBuf;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use swingdb::{
    Connection, Database, Error, InterruptHandle, Interruptible, QueryResult, Result, Value,
};

use crate::limits::Limits;

/// Why writes are refused.
const WHY: &str = "this server serves snapshots of the database, which only its writer changes; \
    open the database in the program that writes it";

/// What `version()` is: drivers read the version of PostgreSQL out of it.
const VERSION: &str = concat!("PostgreSQL 14.0 (SwingDB ", env!("CARGO_PKG_VERSION"), ")");

/// Which database is served, and how.
#[derive(Clone, Debug)]
pub struct Source {
    /// The directory of its namespace; `None`: the default one.
    pub home: Option<PathBuf>,
    /// Its name.
    pub name: String,
    /// The limits of a session.
    pub limits: Limits,
}

impl Source {
    /// A snapshot of the newest shared state.
    pub fn snapshot(&self) -> Result<Database> {
        match &self.home {
            Some(home) => Database::snapshot_in(home, &self.name),
            None => Database::snapshot(&self.name),
        }
    }

    /// The same source with the limit of memory in bytes, so that sessions need not look at the
    /// machine; an error where no session can begin.
    pub fn resolved(mut self) -> Result<Self> {
        self.limits.memory = self.session()?.setting("memory_limit")?;
        Ok(self)
    }

    /// A new session on the newest shared state.
    pub fn session(&self) -> Result<Session> {
        let database = self.snapshot()?;
        let connection = database.connect();
        connection.set_read_only(WHY);
        connection.set_version(VERSION)?;
        for setting in self.limits.settings() {
            connection.query(&setting)?;
        }
        Ok(Session { limits: self.limits.clone(), database, connection })
    }
}

/// See the [module documentation](self).
pub struct Session {
    limits: Limits,
    database: Database,
    connection: Connection,
}

impl Session {
    /// Moves to the newest shared state, unless a transaction is open.
    pub fn refresh(&self) -> Result<()> {
        if !self.connection.in_transaction() {
            self.database.refresh()?;
        }
        Ok(())
    }

    /// Runs one statement in the state that the session is at.
    pub fn run(&self, sql: &str, values: &[Value]) -> Result<QueryResult> {
        let result = self.connection.execute(sql, values)?;
        // These are the tags of all statements that change settings.
        if matches!(result.tag(), "SET" | "RESET" | "PRAGMA") {
            // A request to cancel must not leave a limit as the statement has set it.
            Interruptible::outside(|| self.keep_limits())?;
        }
        Ok(result)
    }

    /// Puts limits back that a statement has raised, and returns an error then.
    fn keep_limits(&self) -> Result<()> {
        if shown(&self.connection, "memory_limit")? != self.limits.memory {
            let memory = self.limits.memory.replace('\'', "''");
            self.connection.query(&format!("SET memory_limit = '{memory}'"))?;
            return Err(not_allowed("memory_limit", "--memory"));
        }
        let Some(most) = self.limits.statement_timeout else { return Ok(()) };
        let now = timeout(&self.connection)?;
        if now.is_none_or(|now| now > most) {
            if let Some(setting) = self.limits.timeout_setting() {
                self.connection.query(&setting)?;
            }
            return Err(not_allowed("a longer statement_timeout", "--statement-timeout"));
        }
        Ok(())
    }

    /// The connection to the snapshot.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        shown(&self.connection, name)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.connection.in_transaction()
    }

    /// With which another thread ends all that the session does.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.connection.interrupt_handle()
    }
}

fn not_allowed(what: &str, option: &str) -> Error {
    let message = format!("{what} is the server's to set, by its option {option}");
    Error::NotAllowed { message }
}

/// The value of a setting.
fn shown(connection: &Connection, name: &str) -> Result<String> {
    let mut value = String::new();
    for batch in connection.query(&format!("SHOW {name}"))? {
        let batch = batch?;
        let last = batch.columns().last().filter(|column| !column.is_empty());
        let text =
            last.map(|column| arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8));
        if let Some(text) = text.transpose()? {
            value = text.as_string::<i32>().value(0).to_string();
        }
    }
    Ok(value)
}

/// How long a statement may take.
fn timeout(connection: &Connection) -> Result<Option<Duration>> {
    let text = shown(connection, "statement_timeout")?;
    // SHOW says it in milliseconds, "0" for none.
    let millis = text.trim_end_matches("ms").parse::<f64>().unwrap_or(0.0);
    Ok(Duration::try_from_secs_f64(millis / 1000.0).ok().filter(|limit| !limit.is_zero()))
}
