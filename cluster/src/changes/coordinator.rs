//! The coordinator's side of changes; see the [module documentation](super) for the protocol.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use futures::future::{join_all, try_join_all};
use serde::Serialize;
use serde::de::DeserializeOwned;
use swingdb::field_type;

use crate::changes::log::quoted;
use crate::changes::statement::Change;
use crate::changes::{Begin, Next, Standing, Step, Which};
use crate::cluster::{Cluster, Place};
use crate::cut::{Cut, deal};
use crate::error::{Error, Result};
use crate::session::{Known, Session};

/// How long a step may take: it reads or writes rows.
const STEP: Duration = Duration::from_secs(3600);
/// How often the decider is asked again when its answer was lost.
const DECIDER_TRIES: usize = 3;
/// Rows that are sent together.
const ROWS_AT_ONCE: usize = 1 << 18;

/// Carries a change out; the number of rows.
pub(crate) fn run(session: &Session, change: &Change) -> Result<u64> {
    check(session, change)?;
    let open = Transaction::begin(session.cluster())?;
    let done = open.steps(session, change);
    match done {
        Ok(rows) => open.commit().map(|()| rows),
        Err(error) => {
            open.abort();
            Err(error)
        }
    }
}

fn known(session: &Session, table: &str) -> Result<(String, Known)> {
    let state = session.state();
    state.check(table)?;
    let found = state.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
    let message = || "the cluster has no such table".to_string();
    let missing = || Error::Table { table: table.to_string(), message: message() };
    found.map(|(name, known)| (name.clone(), known.clone())).ok_or_else(missing)
}

/// Refuses what would put rows on nodes where nobody looks for them.
fn check(session: &Session, change: &Change) -> Result<()> {
    match change {
        Change::Rows { table, assigned, .. } => {
            let (_, known) = known(session, table)?;
            match known.cut.column() {
                Some(column) if assigned.iter().any(|name| name.eq_ignore_ascii_case(column)) => {
                    Err(Error::Unsupported(format!(
                        "UPDATE of {column}, by which {table} is cut: rows would have to move"
                    )))
                }
                _ => Ok(()),
            }
        }
        Change::Create { table, replace: false, .. } => match known(session, table) {
            Ok(_) => Err(Error::Table {
                table: table.clone(),
                message: "there is such a table already".to_string(),
            }),
            Err(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A change that is open on all nodes.
struct Transaction {
    cluster: Cluster,
    number: u64,
}

impl Transaction {
    fn begin(cluster: &Cluster) -> Result<Self> {
        let standings = cluster.standings()?;
        settle(cluster, &standings, false)?;
        let standings = cluster.standings()?;
        let number = standings.iter().map(|standing| standing.last).max().unwrap_or(0) + 1;
        let decider = cluster.places()[0].clone();
        let begun = cluster.ask_all("begin", |nth, place| Begin {
            database: place.database.clone(),
            number,
            decider: decider.node.clone(),
            decider_database: decider.database.clone(),
            decides: nth == 0,
        });
        let open = Self { cluster: cluster.clone(), number };
        match begun {
            Ok(all) => {
                let _: Vec<()> = all;
                Ok(open)
            }
            Err(error) => {
                open.abort();
                Err(error)
            }
        }
    }

    fn which(&self, place: &Place) -> Which {
        Which { database: place.database.clone(), number: self.number }
    }

    fn abort(&self) {
        // A node that is not reached drops the change when somebody recovers.
        let _ = self.cluster.ask_each::<_, ()>("abort", |_, place| self.which(place));
    }

    fn commit(&self) -> Result<()> {
        if let Err(error) = self.cluster.ask_all::<_, ()>("prepare", |_, p| self.which(p)) {
            self.abort();
            return Err(error);
        }
        self.decide()?;
        deliver(&self.cluster, self.number)
    }

    /// The first node commits: that is the decision.
    fn decide(&self) -> Result<()> {
        let place = &self.cluster.places()[0];
        let mut last = None;
        for _ in 0..DECIDER_TRIES {
            let done: Result<()> = self.cluster.ask(place, "commit", self.which(place));
            match done {
                Ok(()) => return Ok(()),
                // It answers, and has not committed.
                Err(error @ (Error::NodeFailed { .. } | Error::NodeVersion { .. })) => {
                    self.abort();
                    return Err(error);
                }
                Err(error) => last = Some(error),
            }
        }
        let message = last.map_or_else(String::new, |error| error.to_string());
        let (change, node) = (self.number.to_string(), place.node.clone());
        Err(Error::InDoubt { change, node, message })
    }

    fn steps(&self, session: &Session, change: &Change) -> Result<u64> {
        match change {
            Change::Define { sql } => self.everywhere(&Step::Statement { sql: sql.clone() }),
            Change::Drop { table, sql } => {
                let name = known(session, table).map_or_else(|_| table.clone(), |(name, _)| name);
                self.everywhere(&Step::Cut { table: name, cut: None })?;
                self.everywhere(&Step::Statement { sql: sql.clone() })?;
                Ok(0)
            }
            Change::Rows { table, sql, .. } => {
                let (_, known) = known(session, table)?;
                let counts = self.counts(&Step::Statement { sql: sql.clone() })?;
                Ok(total(&counts, &known.cut))
            }
            Change::Insert { table, columns, query } => {
                let (name, known) = known(session, table)?;
                self.insert(session, &name, &known, columns, query)
            }
            Change::Create { table, sql, query, cut, replace } => {
                self.create(session, table, sql.as_deref(), query.as_deref(), cut, *replace)
            }
        }
    }

    fn create(
        &self,
        session: &Session,
        table: &str,
        sql: Option<&str>,
        query: Option<&str>,
        cut: &Cut,
        replace: bool,
    ) -> Result<u64> {
        let rows = query.map(|query| session.query(&format!("SELECT * FROM ({query})")));
        let rows = rows.transpose()?;
        let schema = rows.as_ref().and_then(|rows| rows.schema());
        let made = match (sql, &schema) {
            (Some(sql), _) => sql.to_string(),
            (None, Some(schema)) => {
                let columns = schema.fields().iter();
                let columns =
                    columns.map(|field| format!("{} {}", quoted(field.name()), field_type(field)));
                let columns = columns.collect::<Vec<_>>().join(", ");
                let or = if replace { "OR REPLACE " } else { "" };
                format!("CREATE {or}TABLE {} ({columns})", quoted(table))
            }
            (None, None) => return Err(Error::Unsupported("a table of nothing".to_string())),
        };
        self.everywhere(&Step::Statement { sql: made })?;
        let said = serde_json::to_string(cut).map_err(|e| Error::Unsupported(e.to_string()))?;
        self.everywhere(&Step::Cut { table: table.to_string(), cut: Some(said) })?;
        self.check_cut(session, table, cut, sql.is_some())?;
        let (Some(rows), Some(schema)) = (rows, schema) else { return Ok(0) };
        if let Some(column) = cut.column()
            && schema.index_of(column).is_err()
        {
            let message = format!("the query has no column {column}, by which it is cut");
            return Err(Error::Table { table: table.to_string(), message });
        }
        let known = Known { schema: Arc::clone(&schema), cut: cut.clone(), rows: Vec::new() };
        self.deal_out(session, table, &known, schema, rows)
    }

    /// Whether nodes can carry the cut out: its column is there and no rounding decides.
    fn check_cut(&self, session: &Session, table: &str, cut: &Cut, asks: bool) -> Result<()> {
        if let Cut::Range { bounds, .. } = cut
            && bounds.len() + 1 != session.cluster().places().len()
        {
            let nodes = session.cluster().places().len();
            let message = format!("{nodes} nodes need {} bounds", nodes - 1);
            return Err(Error::Table { table: table.to_string(), message });
        }
        if let (Some(column), true) = (cut.column(), asks) {
            // Fails on each node if there is no such column.
            let (column, table) = (quoted(column), quoted(table));
            let sql = format!("DELETE FROM {table} WHERE {column} IS NULL AND false");
            self.everywhere(&Step::Statement { sql })?;
        }
        Ok(())
    }

    fn insert(
        &self,
        session: &Session,
        table: &str,
        known: &Known,
        columns: &[String],
        query: &str,
    ) -> Result<u64> {
        let all = known.schema.fields();
        let mut wanted = Vec::new();
        for column in columns {
            let field = all.iter().find(|field| field.name().eq_ignore_ascii_case(column));
            let message = format!("it has no column {column}");
            let missing = || Error::Table { table: table.to_string(), message };
            wanted.push(Arc::clone(field.ok_or_else(missing)?));
        }
        if columns.is_empty() {
            wanted = all.iter().cloned().collect();
        }
        if let Some(column) = known.cut.column()
            && !wanted.iter().any(|field| field.name() == column)
        {
            return Err(Error::Unsupported(format!(
                "INSERT without a value for {column}, by which {table} is cut"
            )));
        }
        // The values have the column's type already when they decide about the node.
        let names = (0..wanted.len()).map(|nth| format!("c{nth}")).collect::<Vec<_>>();
        let casts = wanted.iter().zip(&names).map(|(field, name)| {
            format!("CAST({name} AS {}) AS {}", field_type(field), quoted(field.name()))
        });
        let casts = casts.collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {casts} FROM ({query}) AS q({})", names.join(", "));
        let rows = session.query(&sql)?;
        let schema = rows.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        self.deal_out(session, table, known, schema, rows)
    }

    fn deal_out(
        &self,
        session: &Session,
        table: &str,
        known: &Known,
        schema: SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        let nodes = self.cluster.places().len();
        let bounds = bounds(session, known)?;
        let columns = schema.fields().iter().map(|field| field.name().clone());
        let step = Step::Rows { table: table.to_string(), columns: columns.collect() };
        // Rows that may be anywhere go to the node with the fewest.
        let fewest = known.rows.iter().enumerate().min_by_key(|(_, rows)| **rows);
        let mut first = fewest.map_or(0, |(nth, _)| nth);
        let mut waiting = vec![Vec::new(); nodes];
        let (mut count, mut total_rows) = (0, 0);
        let send = |waiting: &mut Vec<Vec<RecordBatch>>| -> Result<u64> {
            let all = std::mem::replace(waiting, vec![Vec::new(); nodes]);
            let counts = self.put(&step, &schema, all)?;
            Ok(total(&counts, &known.cut))
        };
        for batch in rows {
            let batch = batch?;
            count += batch.num_rows();
            let parts = deal(&batch, &known.cut, &bounds, nodes, first)?;
            for (place, part) in waiting.iter_mut().zip(parts) {
                if part.num_rows() > 0 {
                    place.push(part);
                }
            }
            if count >= ROWS_AT_ONCE {
                total_rows += send(&mut waiting)?;
                (count, first) = (0, first + 1);
            }
        }
        total_rows += send(&mut waiting)?;
        Ok(total_rows)
    }

    fn put(
        &self,
        step: &Step,
        schema: &SchemaRef,
        batches: Vec<Vec<RecordBatch>>,
    ) -> Result<Vec<u64>> {
        let cluster = self.cluster.clone();
        let (step, schema, number) = (step.clone(), Arc::clone(schema), self.number);
        self.cluster.wait(async move {
            let client = &cluster.inner.client;
            let sent = cluster.places().iter().zip(batches).map(|(place, batches)| {
                let (step, schema) = (step.clone(), Arc::clone(&schema));
                let next = Next { database: place.database.clone(), number, step };
                async move {
                    match batches.is_empty() {
                        true => Ok(0),
                        false => client.put(&place.node, &next, schema, batches).await,
                    }
                }
            });
            try_join_all(sent).await
        })
    }

    fn counts(&self, step: &Step) -> Result<Vec<u64>> {
        self.cluster.ask_all("step", |_, place| Next {
            database: place.database.clone(),
            number: self.number,
            step: step.clone(),
        })
    }

    fn everywhere(&self, step: &Step) -> Result<u64> {
        Ok(self.counts(step)?.into_iter().max().unwrap_or(0))
    }
}

/// Rows of the table as one: a replicated one has them on each node.
fn total(counts: &[u64], cut: &Cut) -> u64 {
    match cut {
        Cut::Replicated => counts.iter().copied().max().unwrap_or(0),
        _ => counts.iter().sum(),
    }
}

/// The values of a cut's bounds.
fn bounds(session: &Session, known: &Known) -> Result<Vec<ScalarValue>> {
    let Cut::Range { column, bounds } = &known.cut else { return Ok(Vec::new()) };
    let field = known.schema.field_with_name(column)?;
    let mut values = Vec::new();
    for bound in bounds {
        let sql = format!("SELECT CAST({bound} AS {})", field_type(field));
        let rows = session.query(&sql)?.collect()?;
        let first = rows.iter().find(|batch| batch.num_rows() > 0);
        let first = first.ok_or_else(|| Error::Unsupported(format!("the bound {bound}")))?;
        values.push(ScalarValue::try_from_array(first.column(0), 0)?);
    }
    Ok(values)
}

/// Tells all nodes a decision; each that does not answer is told later.
fn deliver(cluster: &Cluster, number: u64) -> Result<()> {
    let which = |place: &Place| Which { database: place.database.clone(), number };
    let told = cluster.ask_each::<_, ()>("commit", |_, place| which(place))?;
    for (place, answer) in cluster.places().iter().zip(told) {
        if let Err(error) = answer {
            let (change, node) = (number.to_string(), place.node.clone());
            return Err(Error::Undelivered { change, node, message: error.to_string() });
        }
    }
    // Nodes keep an old state for longer if they do not hear this.
    let _ = cluster.ask_each::<_, ()>("finish", |_, place| which(place));
    Ok(())
}

/// Delivers what is decided; drops what is not, where `drop` says so.
fn settle(cluster: &Cluster, standings: &[Standing], drop: bool) -> Result<()> {
    let open = standings.iter().filter_map(|standing| standing.open.clone());
    let Some(open) = open.max_by_key(|open| open.number) else { return Ok(()) };
    let number = open.number;
    let decider = cluster
        .places()
        .iter()
        .position(|place| place.node == open.decider && place.database == open.decider_database);
    let Some(decider) = decider else {
        return Err(Error::Unsupported(format!(
            "this order of nodes: change {number} is decided by {}/{}, which is none of them",
            open.decider, open.decider_database
        )));
    };
    if standings[decider].last >= number {
        return deliver(cluster, number);
    }
    if !drop {
        return Err(Error::Unsupported(format!(
            "two changes at a time: change {number} is open; if its coordinator is gone, \
             Cluster::recover drops it"
        )));
    }
    let which = |place: &Place| Which { database: place.database.clone(), number };
    // First the decider: from then on the change cannot be decided.
    let place = &cluster.places()[decider];
    let () = cluster.ask(place, "abort", which(place))?;
    let _: Vec<()> = cluster.ask_all("abort", |_, place| which(place))?;
    Ok(())
}

impl Cluster {
    /// Settles the change that a dead coordinator, or a lost connection, has left: it is carried
    /// out on all nodes if it was decided, and dropped otherwise. All nodes have to be there.
    ///
    /// A change of a coordinator that lives is dropped too, unless it is decided already; that
    /// coordinator gets an error.
    pub fn recover(&self) -> Result<()> {
        settle(self, &self.standings()?, true)
    }

    fn standings(&self) -> Result<Vec<Standing>> {
        self.ask_all("standing", |_, place| place.database.clone())
    }

    fn ask<Q, A>(&self, place: &Place, kind: &'static str, question: Q) -> Result<A>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        let (cluster, place) = (self.clone(), place.clone());
        self.wait(async move {
            cluster
                .inner
                .client
                .act_within(&place.node, kind, &question, limit(&cluster, kind))
                .await
        })
    }

    /// Asks all nodes at the same time.
    fn ask_each<Q, A>(
        &self,
        kind: &'static str,
        question: impl Fn(usize, &Place) -> Q,
    ) -> Result<Vec<Result<A>>>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        let places = self.places().iter().enumerate();
        let questions = places.map(|(nth, place)| question(nth, place)).collect::<Vec<_>>();
        let cluster = self.clone();
        self.wait(async move {
            let asked = cluster.places().iter().zip(&questions).map(|(place, question)| {
                let limit = limit(&cluster, kind);
                cluster.inner.client.act_within(&place.node, kind, question, limit)
            });
            Ok(join_all(asked).await)
        })
    }

    /// Asks all nodes at the same time; the first error if one of them fails.
    fn ask_all<Q, A>(
        &self,
        kind: &'static str,
        question: impl Fn(usize, &Place) -> Q,
    ) -> Result<Vec<A>>
    where
        Q: Serialize + Send + Sync + 'static,
        A: DeserializeOwned + Send + 'static,
    {
        self.ask_each(kind, question)?.into_iter().collect()
    }
}

fn limit(cluster: &Cluster, kind: &str) -> Duration {
    match kind {
        "step" => STEP,
        _ => cluster.inner.client.limits().answer,
    }
}
