//! One conversation with a cluster: [`Session`].
//!
//! A session is a session of a private database of the coordinator's, in which the tables of the
//! cluster are readable. It reads one state of all nodes, also over several statements, until
//! [`Session::refresh`] or a change of its own. The nodes keep that state as long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::{Result as EngineResult, Statistics};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use swingdb::cutter::{first_words, split, words};
use swingdb::{Connection, Database, QueryResult};

use crate::changes::coordinator::run as run_change;
use crate::changes::statement::Change;
use crate::client::{Kept, url_of};
use crate::cluster::Cluster;
use crate::cut::Cut;
use crate::error::{Error, Result};
use crate::planner::{carry_settings, configure};
use crate::scan::{Shard, ShardedTable};
use crate::wire::{HeldTable, schema_of, statistics_of};

/// How long a node may take to say that it is there, when something failed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// See the [module documentation](self).
pub struct Session {
    cluster: Cluster,
    connection: Connection,
    state: Mutex<Arc<State>>,
}

/// What a session reads.
pub(crate) struct State {
    pub(crate) holds: Vec<Kept>,
    pub(crate) tables: BTreeMap<String, Known>,
    /// Tables that are not the same at all nodes, and why.
    torn: BTreeMap<String, String>,
}

/// A table of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) schema: SchemaRef,
    pub(crate) cut: Cut,
    /// Rows of each node.
    pub(crate) rows: Vec<usize>,
}

impl State {
    /// Refuses a statement that names a table which is not the same at all nodes.
    pub(crate) fn check(&self, sql: &str) -> Result<()> {
        if self.torn.is_empty() {
            return Ok(());
        }
        for word in words(sql) {
            let name = word.text.trim_matches('"');
            let torn = self.torn.iter().find(|(table, _)| table.eq_ignore_ascii_case(name));
            if let Some((table, message)) = torn {
                return Err(Error::Table { table: table.clone(), message: message.clone() });
            }
        }
        Ok(())
    }
}

impl Session {
    pub(crate) fn new(cluster: Cluster, holds: Vec<Kept>) -> Result<Self> {
        let connection = Database::private()?.connect();
        connection.set_read_only("this is a session on a cluster");
        let inner = &cluster.inner;
        let urls = inner.places.iter().map(|place| url_of(&place.node));
        let urls = urls.collect::<Result<Vec<_>>>()?;
        let token = inner.token.as_deref();
        connection.configure_engine(|state| Ok(configure(state, urls, &inner.client, token)?))?;
        let empty = State { holds: Vec::new(), tables: BTreeMap::new(), torn: BTreeMap::new() };
        let session = Self { cluster, connection, state: Mutex::new(Arc::new(empty)) };
        session.see(holds)?;
        Ok(session)
    }

    /// Moves to the newest state of all nodes.
    pub fn refresh(&self) -> Result<()> {
        let cluster = self.cluster.clone();
        let holds = self.cluster.wait(async move { cluster.hold().await })?;
        self.see(holds)
    }

    fn see(&self, holds: Vec<Kept>) -> Result<()> {
        let (mut tables, mut torn) = (BTreeMap::new(), BTreeMap::new());
        let mut providers = Vec::<(String, Arc<dyn TableProvider>)>::new();
        let names = holds.iter().flat_map(|kept| &kept.held.tables).map(|table| &table.name);
        let names = names.collect::<std::collections::BTreeSet<_>>();
        for name in names {
            match self.joined(name, &holds) {
                Ok((known, provider)) => {
                    tables.insert(name.clone(), known);
                    providers.push((name.clone(), Arc::new(provider)));
                }
                Err(error) => {
                    // Only who asks for this table is told.
                    let message = match error {
                        Error::Table { message, .. } => message,
                        other => other.to_string(),
                    };
                    torn.insert(name.clone(), message.clone());
                    let provider = Torn { table: name.clone(), message };
                    providers.push((name.clone(), Arc::new(provider)));
                }
            }
        }
        let before = Arc::clone(&self.state.lock());
        for name in before.tables.keys().chain(before.torn.keys()) {
            self.connection.deregister(name);
        }
        for (name, provider) in providers {
            self.connection.register_provider(&name, provider);
        }
        *self.state.lock() = Arc::new(State { holds, tables, torn });
        self.take_definitions()
    }

    /// Makes the views, macros and types of the first node known here.
    fn take_definitions(&self) -> Result<()> {
        let state = self.state();
        let Some(first) = state.holds.first() else { return Ok(()) };
        if first.held.definitions.is_empty() {
            return Ok(());
        }
        let writer = self.connection.database().connect();
        for (name, schema) in state.tables.iter().map(|(name, known)| (name, &known.schema)) {
            writer.register(name, Arc::clone(schema), Vec::new())?;
        }
        for statement in &first.held.definitions {
            // One that cannot be made here is not found by who asks for it.
            let _ = writer.query(&or_replace(statement));
        }
        Ok(())
    }

    /// The table of a name at all nodes as one.
    fn joined(&self, name: &str, holds: &[Kept]) -> Result<(Known, ShardedTable)> {
        let wrong = |message: String| Error::Table { table: name.to_string(), message };
        let mut found = Vec::<(&HeldTable, SchemaRef, Statistics)>::new();
        let mut shards = Vec::new();
        for (kept, place) in holds.iter().zip(self.cluster.places()) {
            let node = &place.node;
            let table = kept.held.tables.iter().find(|table| table.name == *name);
            let table = table.ok_or_else(|| wrong(format!("node {node} does not have it")))?;
            let schema =
                schema_of(&table.schema).map_err(|e| wrong(format!("node {node}: {e}")))?;
            if let Some((first, known, _)) = found.first()
                && (*known != schema || first.cut != table.cut)
            {
                let first = &self.cluster.places()[0].node;
                let message = format!("nodes {first} and {node} differ in its columns or its cut");
                return Err(wrong(message));
            }
            let statistics = statistics_of(&table.statistics);
            let statistics = statistics.map_err(|e| wrong(format!("node {node}: {e}")))?;
            shards.push(Shard {
                node: node.clone(),
                process: kept.held.process.clone(),
                hold: kept.held.hold,
            });
            found.push((table, schema, statistics));
        }
        let Some((first, schema, _)) = found.first() else {
            return Err(wrong("there are no nodes".to_string()));
        };
        let count = |one: &Statistics| one.num_rows.get_value().copied().unwrap_or(0);
        let rows = found.iter().map(|(_, _, one)| count(one)).collect::<Vec<_>>();
        let is_key_whole = match &first.cut {
            Cut::Replicated => true,
            Cut::AsItLies => holds.len() == 1,
            Cut::Hash { column } | Cut::Range { column, .. } => {
                let mut key = first.primary_key.iter().map(|column| schema.field(*column));
                key.any(|field| field.name() == column && is_equal_by_bytes(field))
            }
        };
        // Elsewhere a key is one of each node's rows only.
        let key = if is_key_whole { &first.primary_key[..] } else { &[] };
        let constraints = ShardedTable::key(key);
        let statistics = match first.cut {
            Cut::Replicated => {
                if let Some(other) = rows.iter().position(|count| *count != rows[0]) {
                    let node = &self.cluster.places()[other].node;
                    let message = format!("node {node} has other rows of it than the first node");
                    return Err(wrong(message));
                }
                shards.truncate(1);
                found[0].2.clone()
            }
            _ => Statistics::try_merge_iter(found.iter().map(|(_, _, one)| one), schema)?,
        };
        let schema = Arc::clone(schema);
        let known = Known { schema: Arc::clone(&schema), cut: first.cut.clone(), rows };
        let provider =
            ShardedTable { name: name.to_string(), schema, shards, statistics, constraints };
        Ok((known, provider))
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock())
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The session of the coordinator's own database.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The epoch of each node's database that this session reads.
    pub fn epochs(&self) -> Vec<u64> {
        self.state().holds.iter().map(|kept| kept.held.epoch).collect()
    }

    /// The last change of the cluster that this session sees.
    pub fn change(&self) -> u64 {
        self.state().holds.first().map_or(0, |kept| kept.held.change)
    }

    /// How a table is cut.
    pub fn cut(&self, table: &str) -> Option<Cut> {
        self.state().tables.get(table).map(|known| known.cut.clone())
    }

    /// Runs statements and returns the result of the last.
    pub fn query(&self, sql: &str) -> Result<Rows> {
        self.execute(sql, &Cut::AsItLies)
    }

    /// Runs statements; a table that they make is cut by `cut`.
    pub fn execute(&self, sql: &str, cut: &Cut) -> Result<Rows> {
        let mut last = None;
        for statement in split(sql).all() {
            last = Some(self.run(statement, cut)?);
        }
        last.ok_or_else(|| Error::Unsupported("a text without a statement".to_string()))
    }

    fn run(&self, sql: &str, cut: &Cut) -> Result<Rows> {
        if let Some(change) = Change::of(sql, cut)? {
            let changed = run_change(self, &change)?;
            self.refresh()?;
            let result = Answer::Changed(changed);
            return Ok(Rows { result, cluster: self.cluster.clone(), _state: self.state() });
        }
        self.state().check(sql)?;
        self.connection.configure_engine(|state| {
            carry_settings(state);
            Ok(())
        })?;
        let result = self.connection.query(sql);
        let result = result.map_err(|error| diagnosed(&self.cluster, error))?;
        let result = Answer::Rows(result);
        Ok(Rows { result, cluster: self.cluster.clone(), _state: self.state() })
    }
}

/// Whether equal values are on the same node: 0.0 and -0.0 need not be, nor texts with a meaning.
fn is_equal_by_bytes(field: &arrow::datatypes::Field) -> bool {
    let data_type = field.data_type();
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    data_type.is_integer()
        || data_type.is_decimal()
        || matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
        || is_text && field.metadata().is_empty()
}

/// `CREATE OR REPLACE` for `CREATE`.
fn or_replace(statement: &str) -> String {
    match first_words(statement, 3).as_slice() {
        [create, kind, ..] if create == "create" && kind == "type" => {
            let rest = statement.trim_start().get(6..).unwrap_or("");
            format!("DROP TYPE IF EXISTS {}; CREATE{rest}", type_name(rest))
        }
        [create, or, ..] if create == "create" && or != "or" => {
            let rest = statement.trim_start().get(6..).unwrap_or("");
            format!("CREATE OR REPLACE{rest}")
        }
        _ => statement.to_string(),
    }
}

/// The name behind `TYPE`.
fn type_name(rest: &str) -> &str {
    let mut words = swingdb::cutter::words(rest);
    words.nth(1).map_or("", |word| word.text)
}

/// Tells a node that is gone from an error of the statement.
fn diagnosed(cluster: &Cluster, error: swingdb::Error) -> Error {
    let places = cluster.places().to_vec();
    let client = cluster.inner.client.clone();
    let message = error.to_string();
    let checked = cluster.wait(async move {
        let pings = places
            .iter()
            .map(|place| client.act_within::<_, usize>(&place.node, "ping", &(), SIGN_OF_LIFE));
        let answers = futures::future::join_all(pings).await;
        let silent = places.iter().zip(answers).filter_map(|(place, answer)| match answer {
            Err(error @ (Error::NodeLost { .. } | Error::NodeSlow { .. })) => Some((place, error)),
            _ => None,
        });
        // One that is gone for sure, before one that may only be busy.
        let first = silent.min_by_key(|(_, error)| matches!(error, Error::NodeSlow { .. }));
        Ok(first.map(|(place, error)| Error::NodeLost {
            node: place.node.clone(),
            message: format!("{error}; the statement: {message}"),
        }))
    });
    match checked {
        Ok(Some(lost)) => lost,
        _ => Error::Database(error),
    }
}

/// The rows of a statement. The state that they are from stays until they are dropped.
pub struct Rows {
    result: Answer,
    cluster: Cluster,
    _state: Arc<State>,
}

enum Answer {
    Rows(QueryResult),
    Changed(u64),
}

impl Rows {
    /// The columns; `None` for a change.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.result {
            Answer::Rows(rows) => Some(rows.schema()),
            Answer::Changed(_) => None,
        }
    }

    /// The number of rows that were changed.
    pub fn rows_changed(&self) -> Option<u64> {
        match &self.result {
            Answer::Rows(_) => None,
            Answer::Changed(count) => Some(*count),
        }
    }

    /// All rows.
    pub fn collect(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let Answer::Rows(rows) = &mut self.result else { return None };
        let batch = rows.next()?;
        Some(batch.map_err(|error| diagnosed(&self.cluster, error)))
    }
}

/// A table that is not the same at all nodes.
#[derive(Debug)]
struct Torn {
    table: String,
    message: String,
}

#[async_trait]
impl TableProvider for Torn {
    fn schema(&self) -> SchemaRef {
        Arc::new(arrow::datatypes::Schema::empty())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn EngineSession,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let (table, message) = (self.table.clone(), self.message.clone());
        Err(Error::Table { table, message }.into())
    }
}
