//! Messages about prepared statements and portals: the extended query protocol.
//!
//! A portal runs when it is described or executed first, whichever comes first. Everything up to a
//! Sync sees one state, unless a transaction is open. After an error messages are skipped up to the
//! next Sync.

use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended, TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;
use swingdb::cutter::{first_words, split};
use swingdb::{ScalarValue, Value};

use crate::postgres::conversation::{Conversation, Outcome, change_tag, row_tag};
use crate::postgres::copy_out::CopyOut;
use crate::postgres::cursors::About;
use crate::postgres::failure::Failure;
use crate::postgres::parameters::{MAX_PARAMETERS, count, decode};
use crate::postgres::portals::{MAX_NAMES, Portal, Prepared, Run};
use crate::postgres::rows::{Rows, formats};
use crate::postgres::sqlstate::Refusal;
use crate::postgres::types::PgType;
use crate::postgres::values::Format;

impl Conversation {
    /// Answers a message of the extended protocol.
    pub(super) fn extended_message(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Parse(parse) => self.parse(parse),
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(describe) => self.describe(&describe),
            Message::Execute(execute) => self.execute_portal(&execute),
            Message::Close(close) => self.close_name(&close),
            _ => Err(Refusal::protocol("this message does not belong here").into()),
        }
    }

    /// Moves to the newest state before the first statement of a group.
    fn settle_state(&mut self) -> Result<(), Failure> {
        if !self.extended.is_fresh {
            self.session.refresh()?;
            self.extended.is_fresh = true;
        }
        Ok(())
    }

    fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        let statements = split(&parse.query).all();
        if statements.len() > 1 {
            let message = "a prepared statement is one statement, and this text has several";
            return Err(Refusal::new("42601", message).into());
        }
        let sql = statements.first().map_or("", |statement| statement).to_string();
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() && self.extended.statements.contains_key(&name) {
            let message = format!("prepared statement {name:?} exists already");
            return Err(Refusal::new("42P05", message).into());
        }
        if self.extended.statements.len() >= MAX_NAMES {
            let message = format!("a session has at most {MAX_NAMES} prepared statements");
            return Err(Refusal::new("54000", message).into());
        }
        if parse.type_oids.len() > MAX_PARAMETERS {
            return Err(Refusal::new("54023", "too many parameters").into());
        }
        let inferred = self.infer(&sql, &parse.type_oids)?;
        let prepared = Prepared { sql, declared: parse.type_oids, inferred, told: None };
        self.extended.statements.insert(name, prepared);
        Ok(self.wire.send(&ParseComplete::new())?)
    }

    /// The types of a statement's parameters, from where they stand.
    fn infer(&mut self, sql: &str, declared: &[u32]) -> Result<Vec<Option<PgType>>, Failure> {
        let wanted = count(sql);
        let known = (0..wanted).all(|at| declared.get(at).is_some_and(|oid| *oid != 0));
        if wanted == 0 || known {
            return Ok(vec![None; wanted]);
        }
        self.settle_state()?;
        // Parameters of a cursor and of a copy are those of its query.
        let query = match (About::of(sql), CopyOut::of(sql)) {
            (Ok(Some(About::Declare { query, .. })), _) => query.to_string(),
            (_, Ok(Some(copy))) => copy.query,
            _ => sql.to_string(),
        };
        let types = self.session.connection().parameter_types(&query);
        // An error of the statement is reported when it runs, with its values.
        let types = types.unwrap_or_default();
        let field = |at: usize| types.get(at).cloned().flatten();
        Ok((0..wanted).map(|at| field(at).map(|field| PgType::of(&field))).collect())
    }

    fn prepared(&self, name: &str) -> Result<&Prepared, Failure> {
        self.extended.statements.get(name).ok_or_else(|| {
            Refusal::new("26000", format!("prepared statement {name:?} does not exist")).into()
        })
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let prepared = self.prepared(bind.statement_name.as_deref().unwrap_or_default())?.clone();
        let name = bind.portal_name.unwrap_or_default();
        if !name.is_empty() && self.extended.portals.contains_key(&name) {
            let message = format!("portal {name:?} exists already");
            return Err(Refusal::new("42P03", message).into());
        }
        if self.extended.portals.len() >= MAX_NAMES {
            let message = format!("a session has at most {MAX_NAMES} portals");
            return Err(Refusal::new("54000", message).into());
        }
        let formats = formats(&bind.parameter_format_codes, bind.parameters.len())?;
        let values = bind.parameters.iter().zip(formats).enumerate();
        let values = values.map(|(at, (bytes, format)): (usize, (_, Format))| {
            let oid = prepared.declared.get(at).copied().unwrap_or(0);
            let inferred = prepared.inferred.get(at).and_then(Option::as_ref);
            decode(oid, format, bytes.as_deref(), inferred)
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let formats = bind.result_column_format_codes;
        let Prepared { sql, told, .. } = prepared;
        let portal = Portal { sql, values, formats, told, run: Run::Waiting };
        self.extended.portals.insert(name, portal);
        Ok(self.wire.send(&BindComplete::new())?)
    }

    /// Begins a portal that waits.
    fn begin(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        if !matches!(portal.run, Run::Waiting) || portal.sql.is_empty() {
            return Ok(());
        }
        self.settle_state()?;
        let result = match self.carry_out(&portal.sql, &portal.values)? {
            Outcome::Done(tag) => {
                portal.run = Run::Changed(tag);
                return Ok(());
            }
            Outcome::Copy(copy, result) => {
                let rows = Rows::new(result, &copy.formats())?;
                portal.run = Run::Copy(Box::new((copy, rows)));
                return Ok(());
            }
            Outcome::Fetch(count, name) => {
                let rows = self.cursors.fetch(count, &name, &portal.formats)?;
                portal.run = Run::Rows(Box::new(rows));
                return Ok(());
            }
            Outcome::Shown(name, value) => {
                let rows = Rows::of_text(&name, &value, &portal.formats)?;
                portal.run = Run::Rows(Box::new(rows));
                return Ok(());
            }
            Outcome::Result(result) => result,
        };
        portal.run = match result.has_rows() {
            true => {
                let rows = Rows::new(result, &portal.formats)?;
                if portal.told.as_ref().is_some_and(|told| *told != rows.types()) {
                    // The table has other columns in a newer state, and the client would read
                    // bytes of one type as another.
                    let message = "the columns of the prepared statement have changed their \
                        types since it was described: prepare it again";
                    return Err(Refusal::new("0A000", message).into());
                }
                Run::Rows(Box::new(rows))
            }
            false => {
                let tag = change_tag(&result);
                result.collect()?;
                Run::Changed(tag)
            }
        };
        Ok(())
    }

    fn take_portal(&mut self, name: &str) -> Result<Portal, Failure> {
        self.extended
            .portals
            .remove(name)
            .ok_or_else(|| Refusal::new("34000", format!("portal {name:?} does not exist")).into())
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref().unwrap_or_default();
        match describe.target_type {
            TARGET_TYPE_BYTE_STATEMENT => self.describe_statement(name),
            // A cursor is a portal that a statement has made.
            TARGET_TYPE_BYTE_PORTAL
                if !self.extended.portals.contains_key(name) && self.cursors.contains(name) =>
            {
                let description = self.cursors.fetch(1, name, &[])?.description()?;
                Ok(self.wire.send(&description)?)
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let mut portal = self.take_portal(name)?;
                self.begin(&mut portal)?;
                match &portal.run {
                    Run::Rows(rows) => {
                        let description = rows.description()?;
                        self.wire.send(&description)?;
                    }
                    _ => self.wire.send(&NoData::new())?,
                }
                self.extended.portals.insert(name.to_string(), portal);
                Ok(())
            }
            _ => Err(Refusal::protocol("neither a statement nor a portal is described").into()),
        }
    }

    /// The types of parameters and columns, without values.
    fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.prepared(name)?.clone();
        let count = prepared.inferred.len().max(prepared.declared.len());
        let of = |at: usize| {
            let declared = prepared.declared.get(at).copied().filter(|oid| *oid != 0);
            let inferred = prepared.inferred.get(at).and_then(Option::as_ref);
            (declared, inferred)
        };
        let types = (0..count).map(|at| match of(at) {
            (Some(oid), _) => oid,
            (None, inferred) => inferred.unwrap_or(&PgType::Text).oid(),
        });
        let types = ParameterDescription::new(types.collect());
        let values = (0..count).map(|at| {
            let (declared, inferred) = of(at);
            let pg = declared.and_then(PgType::of_oid).or(inferred.cloned());
            let null = pg.map(|pg| ScalarValue::try_from(&pg.arrow()));
            match null {
                Some(Ok(null)) => Value::Scalar(null),
                _ => Value::Null,
            }
        });
        let values = values.collect::<Vec<_>>();
        let columns = self.columns(&prepared.sql, &values)?;
        self.wire.send(&types)?;
        if let Some(prepared) = self.extended.statements.get_mut(name) {
            prepared.told = columns
                .as_ref()
                .map(|columns| columns.fields.iter().map(|field| field.type_id).collect());
        }
        match columns {
            Some(description) => self.wire.send(&description)?,
            None => self.wire.send(&NoData::new())?,
        }
        Ok(())
    }

    /// The columns of a query, which is planned with NULLs and not read.
    fn columns(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Option<pgwire::messages::data::RowDescription>, Failure> {
        let words = first_words(sql, 1);
        let reads = match words.first().map(String::as_str) {
            Some(word) => matches!(
                word,
                "select"
                    | "with"
                    | "values"
                    | "from"
                    | "table"
                    | "show"
                    | "describe"
                    | "explain"
                    | "summarize"
                    | "pivot"
                    | "unpivot"
                    | "fetch"
            ),
            None => sql.starts_with('('),
        };
        if !reads {
            return Ok(None);
        }
        self.settle_state()?;
        let rows = match self.carry_out(sql, values)? {
            Outcome::Done(_) | Outcome::Copy(..) => return Ok(None),
            // Its rows are taken when it is executed.
            Outcome::Fetch(count, name) => self.cursors.fetch(count, &name, &[])?,
            Outcome::Shown(name, value) => Rows::of_text(&name, &value, &[])?,
            Outcome::Result(result) => Rows::new(result, &[])?,
        };
        Ok(Some(rows.description()?))
    }

    fn execute_portal(&mut self, execute: &Execute) -> Result<(), Failure> {
        let name = execute.name.as_deref().unwrap_or_default();
        let mut portal = self.take_portal(name)?;
        if portal.sql.is_empty() {
            self.extended.portals.insert(name.to_string(), portal);
            return Ok(self.wire.send(&EmptyQueryResponse::new())?);
        }
        self.begin(&mut portal)?;
        let most = u64::try_from(execute.max_rows).ok().filter(|most| *most > 0);
        match &mut portal.run {
            Run::Rows(rows) => {
                let before = rows.sent;
                match rows.send(&mut self.wire, most.unwrap_or(u64::MAX))? {
                    true => {
                        let tag = row_tag(rows);
                        self.complete(tag.clone())?;
                        portal.run = Run::Done(tag);
                    }
                    false => {
                        debug_assert!(rows.sent > before);
                        self.wire.send(&PortalSuspended::new())?;
                    }
                }
            }
            Run::Copy(_) => {
                let done = Run::Done("COPY".to_string());
                if let Run::Copy(copied) = std::mem::replace(&mut portal.run, done) {
                    let (copy, rows) = *copied;
                    let tag = copy.send(rows, &mut self.wire)?;
                    self.complete(tag.clone())?;
                    portal.run = Run::Done(tag);
                }
            }
            Run::Changed(tag) | Run::Done(tag) => {
                let tag = tag.clone();
                self.complete(tag.clone())?;
                portal.run = Run::Done(tag);
            }
            Run::Waiting => {}
        }
        self.extended.portals.insert(name.to_string(), portal);
        Ok(())
    }

    fn close_name(&mut self, close: &Close) -> Result<(), Failure> {
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => drop(self.extended.statements.remove(name)),
            TARGET_TYPE_BYTE_PORTAL => match self.extended.portals.remove(name) {
                Some(_) => {}
                None => drop(self.cursors.close(name)),
            },
            _ => {
                return Err(Refusal::protocol("neither a statement nor a portal is closed").into());
            }
        }
        Ok(self.wire.send(&CloseComplete::new())?)
    }
}
