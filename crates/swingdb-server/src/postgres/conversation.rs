//! One session and its statements: [`Conversation`].
//!
//! An error in a transaction leaves the transaction failed: until ROLLBACK nothing else is carried
//! out, as clients of PostgreSQL expect. COMMIT of a failed transaction rolls it back.

use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::{Authentication, BackendKeyData, ParameterStatus, SecretKey};
use swingdb::cutter::{first_words, split};
use swingdb::{QueryResult, Value};

use crate::postgres::copy_out::CopyOut;
use crate::postgres::cursors;
use crate::postgres::cursors::Cursors;
use crate::postgres::failure::Failure;
use crate::postgres::portals::Extended;
use crate::postgres::rows::Rows;
use crate::postgres::settings::{About, REPORTED, Settings};
use crate::postgres::sqlstate::Refusal;
use crate::postgres::wire::{End, Wire};
use crate::registry::Registration;
use crate::session::Session;

/// The outcome of a statement, before its rows.
pub enum Outcome {
    /// The engine's result.
    Result(QueryResult),
    /// It is done; its tag.
    Done(String),
    /// Rows that are copied to the client.
    Copy(CopyOut, QueryResult),
    /// The next rows of a cursor: how many at most, and its name.
    Fetch(u64, String),
    /// One setting: its name and value.
    Shown(String, String),
}

/// See the [module documentation](self).
pub struct Conversation {
    pub(super) wire: Wire,
    pub(super) session: Session,
    settings: Settings,
    pub(super) extended: Extended,
    pub(super) cursors: Cursors,
    /// Whether the open transaction has failed.
    failed: bool,
    /// The zone that the client was told last.
    zone: String,
}

impl Conversation {
    /// A conversation with a client that has been let in.
    pub fn new(wire: Wire, session: Session, settings: Settings) -> Self {
        // Every session begins with it.
        let zone = "UTC".to_string();
        let (extended, cursors) = (Extended::default(), Cursors::default());
        Self { wire, session, settings, extended, cursors, failed: false, zone }
    }

    /// Ends the conversation.
    pub fn close(self) {
        self.wire.close();
    }

    pub(super) fn greet(&mut self, place: &Registration) -> Result<(), Failure> {
        let is_usual = self.settings.for_engine.is_empty();
        for statement in std::mem::take(&mut self.settings.for_engine) {
            self.session.run(&statement, &[])?;
        }
        self.wire.send(&Authentication::Ok)?;
        for (name, key) in REPORTED {
            let value = self.settings.get(key).unwrap_or_default().to_string();
            self.wire.send(&ParameterStatus::new(name.to_string(), value))?;
        }
        self.wire.send(&ParameterStatus::new("TimeZone".to_string(), self.zone.clone()))?;
        if !is_usual {
            self.report_zone()?;
        }
        self.wire.send(&BackendKeyData::new(place.number, SecretKey::I32(place.secret)))?;
        Ok(self.ready()?)
    }

    /// Tells the client the zone by which points in time are shown, when it has changed.
    fn report_zone(&mut self) -> Result<(), Failure> {
        let zone = self.session.setting("timezone")?;
        if zone != self.zone {
            self.wire.send(&ParameterStatus::new("TimeZone".to_string(), zone.clone()))?;
            self.zone = zone;
        }
        Ok(())
    }

    pub(super) fn ready(&mut self) -> Result<(), End> {
        let status = match (self.session.in_transaction(), self.failed) {
            (false, _) => TransactionStatus::Idle,
            (true, false) => TransactionStatus::Transaction,
            (true, true) => TransactionStatus::Error,
        };
        self.wire.send(&ReadyForQuery::new(status))
    }

    /// Sends the error of a message, if it has one.
    pub(super) fn settle(&mut self, outcome: Result<(), Failure>) -> Result<(), End> {
        match outcome {
            Ok(()) => Ok(()),
            Err(Failure::Ended(end)) => Err(end),
            Err(Failure::Refused(refusal)) => {
                self.failed = self.session.in_transaction();
                self.wire.send(&refusal.response())
            }
        }
    }

    /// All statements of a query message see the same state.
    pub(super) fn query(&mut self, text: &str) -> Result<(), Failure> {
        let statements = split(text).all();
        if statements.is_empty() {
            return Ok(self.wire.send(&EmptyQueryResponse::new())?);
        }
        self.session.refresh()?;
        for statement in statements {
            let outcome = self.carry_out(statement, &[])?;
            self.answer_statement(outcome)?;
        }
        Ok(())
    }

    fn answer_statement(&mut self, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Done(tag) => self.complete(tag),
            Outcome::Copy(copy, result) => {
                let rows = Rows::new(result, &copy.formats())?;
                let tag = copy.send(rows, &mut self.wire)?;
                self.complete(tag)
            }
            Outcome::Fetch(count, name) => {
                self.answer_rows(self.cursors.fetch(count, &name, &[])?)
            }
            Outcome::Shown(name, value) => self.answer_rows(Rows::of_text(&name, &value, &[])?),
            Outcome::Result(result) if result.has_rows() => {
                self.answer_rows(Rows::new(result, &[])?)
            }
            Outcome::Result(result) => {
                let tag = change_tag(&result);
                result.collect()?;
                self.complete(tag)
            }
        }
    }

    fn answer_rows(&mut self, mut rows: Rows) -> Result<(), Failure> {
        self.wire.send(&rows.description()?)?;
        rows.send(&mut self.wire, u64::MAX)?;
        self.complete(row_tag(&rows))
    }

    pub(super) fn complete(&mut self, tag: String) -> Result<(), Failure> {
        if tag.starts_with("SET") || tag.starts_with("RESET") {
            self.report_zone()?;
        }
        Ok(self.wire.send(&CommandComplete::new(tag))?)
    }

    /// Carries out one statement, up to its rows.
    pub(super) fn carry_out(
        &mut self,
        statement: &str,
        values: &[Value],
    ) -> Result<Outcome, Failure> {
        let words = first_words(statement, 3);
        let words = words.iter().map(String::as_str).collect::<Vec<_>>();
        if self.failed && self.session.in_transaction() {
            match words[..] {
                ["rollback" | "abort", ..] => {}
                ["commit" | "end", ..] => {
                    self.session.run("ROLLBACK", &[])?;
                    self.failed = false;
                    self.cursors.end_transaction(true);
                    return Ok(Outcome::Done("ROLLBACK".to_string()));
                }
                _ => {
                    let message = "the transaction has failed: nothing is carried out until \
                        ROLLBACK";
                    return Err(Refusal::new("25P02", message).into());
                }
            }
        }
        match self.settings.carry_out(statement)? {
            About::Done(tag) => return Ok(Outcome::Done(tag.to_string())),
            About::Shown(name, value) => return Ok(Outcome::Shown(name, value)),
            About::Engine => {}
        }
        if matches!(words[..], ["deallocate", ..]) && self.extended.deallocate(statement) {
            return Ok(Outcome::Done("DEALLOCATE".to_string()));
        }
        if let Some(about) = cursors::About::of(statement)? {
            return self.carry_out_cursor(about, values);
        }
        if let Some(copy) = CopyOut::of(statement)? {
            let result = self.session.run(&copy.query, values)?;
            return Ok(Outcome::Copy(copy, result));
        }
        let result = self.session.run(statement, values)?;
        if let (["show", name], "SHOW") = (&words[..], result.tag())
            && result.schema().fields().iter().map(|field| field.name()).eq(["name", "value"])
            && *name != "all"
        {
            // PostgreSQL shows a setting as a column of its name.
            return Ok(Outcome::Shown(name.to_string(), self.session.setting(name)?));
        }
        if !self.session.in_transaction() || words.first() == Some(&"rollback") {
            self.failed = false;
        }
        if !self.session.in_transaction() {
            self.cursors.end_transaction(matches!(words[..], ["rollback" | "abort", ..]));
        }
        Ok(Outcome::Result(result))
    }

    fn carry_out_cursor(
        &mut self,
        about: cursors::About<'_>,
        values: &[Value],
    ) -> Result<Outcome, Failure> {
        use cursors::About::{Close, Declare, Fetch, Move};
        Ok(match about {
            Declare { name, is_binary, is_held, query } => {
                let in_transaction = self.session.in_transaction();
                self.cursors.check(&name, is_held, in_transaction)?;
                let result = self.session.run(query, values)?;
                self.cursors.declare(name, result, is_binary, is_held, in_transaction);
                Outcome::Done("DECLARE CURSOR".to_string())
            }
            Fetch(count, name) => Outcome::Fetch(count, name),
            Move(count, name) => {
                Outcome::Done(format!("MOVE {}", self.cursors.skip(count, &name)?))
            }
            Close(None) => {
                self.cursors.close_all();
                Outcome::Done("CLOSE CURSOR ALL".to_string())
            }
            Close(Some(name)) if self.cursors.close(&name) => {
                Outcome::Done("CLOSE CURSOR".to_string())
            }
            Close(Some(name)) => {
                let message = format!("cursor {name:?} does not exist");
                return Err(Refusal::new("34000", message).into());
            }
        })
    }
}

/// The tag of a statement whose rows have been sent.
pub fn row_tag(rows: &Rows) -> String {
    match rows.tag() {
        tag @ ("SHOW" | "EXPLAIN" | "DESCRIBE") => tag.to_string(),
        "INSERT" => format!("INSERT 0 {}", rows.sent),
        "FETCH" => format!("FETCH {}", rows.sent),
        _ => format!("SELECT {}", rows.sent),
    }
}

/// The tag of a statement without rows.
pub fn change_tag(result: &QueryResult) -> String {
    match (result.tag(), result.rows_changed()) {
        ("INSERT", Some(rows)) => format!("INSERT 0 {rows}"),
        ("CREATE TABLE", Some(rows)) => format!("SELECT {rows}"),
        (tag @ ("UPDATE" | "DELETE" | "MERGE" | "COPY"), Some(rows)) => format!("{tag} {rows}"),
        (tag, _) => tag.to_string(),
    }
}
