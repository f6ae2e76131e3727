//! One conversation with a cluster: [`Session`].
//!
//! A session is a session of a private database of the coordinator's, in which the tables of the
//! cluster are readable. It reads one state of all nodes, also over several statements, until
//! [`Session::refresh`] or a change of its own. The nodes keep that state as long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::{Result as EngineResult, ScalarValue, Statistics};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use swingdb::cutter::{Kind, Piece, first_words, words};
use swingdb::{Connection, Database, QueryResult, Value, field_type};

use crate::blame::blamed;
use crate::block::{Block, transaction};
use crate::changes::statement::{Change, target};
use crate::changes::steps::Changed;
use crate::client::{Kept, Told, ToldTable, lost, url_of};
use crate::cluster::Cluster;
use crate::cut::Cut;
use crate::error::{Error, Result, in_any_order, refusal_in, refused};
use crate::listings::{Listing, is_listing};
use crate::names::{is_same, name_of, quoted};
use crate::parameters::{Given, statements};
use crate::planner::{Nodes, budget, carry_settings, configure};
use crate::prune::{Placing, is_equal_by_bytes};
use crate::scan::{Shard, ShardedTable};
use crate::wire::Budget;

/// How long a node may take to say that it is there, when something failed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// See the [module documentation](self).
pub struct Session {
    cluster: Cluster,
    /// Identifies it to all nodes.
    name: String,
    connection: Connection,
    state: Mutex<Arc<State>>,
    /// The values of bounds of cuts, by the queries that compute them.
    literals: Mutex<BTreeMap<String, ScalarValue>>,
    pub(crate) block: Mutex<Block>,
    /// What the planner takes for the nodes.
    nodes: Nodes,
    /// Whose views, macros and types are made here.
    defined: Mutex<Option<Arc<Told>>>,
    /// What lists definitions.
    listing: Mutex<Option<Listing>>,
    /// Whether it may have temporary tables.
    has_temporary: AtomicBool,
}

/// What a session reads.
pub(crate) struct State {
    /// For each shard, the snapshot that is read.
    pub(crate) holds: Vec<Arc<Kept>>,
    /// For each shard, the snapshots of all copies that answered: of the same state.
    pub(crate) copies: Vec<Vec<Arc<Kept>>>,
    pub(crate) tables: BTreeMap<String, Known>,
    /// Tables that are not the same at all nodes, and why.
    pub(crate) torn: BTreeMap<String, String>,
}

/// A table of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) schema: SchemaRef,
    pub(crate) cut: Cut,
    /// Rows of each node.
    pub(crate) rows: Vec<usize>,
    /// Whether it has a primary key whose equal values are on one node.
    pub(crate) is_key_whole: bool,
    /// The columns of such a key.
    pub(crate) key: Vec<String>,
}

impl Known {
    /// A table without rows and keys.
    pub(crate) fn empty(schema: SchemaRef, cut: Cut) -> Self {
        Self { schema, cut, rows: Vec::new(), is_key_whole: false, key: Vec::new() }
    }
}

impl State {
    /// Refuses a statement that names a table which is not the same at all nodes.
    pub(crate) fn check(&self, sql: &str) -> Result<()> {
        if self.torn.is_empty() {
            return Ok(());
        }
        words(sql).filter_map(|word| name_of(&word)).try_for_each(|name| self.check_table(&name))
    }

    /// Refuses a table that is not the same at all nodes.
    pub(crate) fn check_table(&self, name: &str) -> Result<()> {
        match self.torn.iter().find(|(table, _)| is_same(table, name)) {
            Some((table, message)) => {
                Err(Error::Table { table: table.clone(), message: message.clone() })
            }
            None => Ok(()),
        }
    }

    /// Refuses a join that goes by the order of rows, which several nodes do not have together. The
    /// planner does so too where a view hides the tables.
    fn check_order(&self, sql: &str) -> Result<()> {
        let all = words(sql).collect::<Vec<_>>();
        let is = |word: &Piece<'_>, text: &str| word.text.eq_ignore_ascii_case(text);
        let has_join =
            all.windows(2).any(|pair| is(&pair[0], "positional") && is(&pair[1], "join"));
        if !has_join || self.holds.len() == 1 {
            return Ok(());
        }
        let known = |name: String| self.table(&name).map(|(table, known)| (table, &known.cut));
        let mut cut = all.iter().filter_map(name_of).filter_map(known);
        if let Some((table, _)) = cut.find(|(_, cut)| **cut != Cut::Replicated) {
            return Err(in_any_order(table));
        }
        // Of a view, nodes would be lent the rows in any order.
        let at_nodes = ["update", "delete", "merge"];
        let first = all.first().filter(|word| at_nodes.iter().any(|one| is(word, one)));
        match first {
            Some(first) => refused(format!("POSITIONAL JOIN in {}", first.text.to_uppercase())),
            None => Ok(()),
        }
    }

    /// Whether a view, a macro or a type has a name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        let definitions = self.holds.first().map(|kept| &kept.contents.definitions);
        let mut drops = definitions.into_iter().flatten().filter_map(|one| dropping(one));
        drops.any(|drop| {
            let last = words(&drop).last().as_ref().and_then(name_of);
            last.is_some_and(|last| is_same(&last, name))
        })
    }

    /// The table of a name, as it is written where it was made.
    pub(crate) fn table(&self, name: &str) -> Option<(&String, &Known)> {
        let alike = || self.tables.iter().find(|(table, _)| is_same(table, name));
        self.tables.get_key_value(name).or_else(alike)
    }
}

impl Session {
    pub(crate) fn new(cluster: Cluster, copies: Vec<Vec<Arc<Kept>>>) -> Result<Self> {
        let connection = Database::private()?.connect();
        connection.set_read_only("this is a session on a cluster");
        connection.find_registered_in_main();
        let inner = &cluster.inner;
        let (token, nodes) = (inner.token.as_deref(), Nodes::default());
        let known = nodes.clone();
        let ask_keys_from = inner.ask_keys_from as f64;
        connection.configure_engine(|state| {
            Ok(configure(state, known, &inner.client, token, ask_keys_from)?)
        })?;
        let (holds, tables, torn) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let empty = State { holds, copies: Vec::new(), tables, torn };
        let state = Mutex::new(Arc::new(empty));
        let (literals, block) = (Mutex::default(), Mutex::default());
        let (defined, has_temporary) = (Mutex::default(), AtomicBool::default());
        let listing = Mutex::default();
        let name = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let session = Self {
            cluster,
            name,
            connection,
            state,
            literals,
            block,
            nodes,
            defined,
            listing,
            has_temporary,
        };
        session.see(copies)?;
        Ok(session)
    }

    /// Moves to the newest state of all nodes.
    pub fn refresh(&self) -> Result<()> {
        if !matches!(*self.block.lock(), Block::None) {
            return Err(transaction("a refresh inside of a transaction"));
        }
        self.move_on()
    }

    /// Moves to the nodes that the rows have moved to, by [`Cluster::resize`]. Settings and
    /// temporary tables stay.
    pub fn move_to(&mut self, cluster: Cluster) -> Result<()> {
        let to = cluster.clone();
        let copies = cluster.wait(async move { to.hold().await })?;
        self.leave_block(Block::None)?;
        self.cluster = cluster;
        self.see(copies)
    }

    /// As [`refresh`](Self::refresh), also inside of a transaction.
    pub(crate) fn move_on(&self) -> Result<()> {
        let cluster = self.cluster.clone();
        let copies = self.cluster.wait(async move { cluster.hold().await })?;
        self.see(copies)
    }

    /// Goes on with other copies of the same state, where nodes have gone.
    fn leave_lost(&self) -> Result<()> {
        let state = self.state();
        if !state.copies.iter().flatten().any(|kept| kept.is_lost()) {
            return Ok(());
        }
        let left = |copies: &Vec<Arc<Kept>>| {
            copies.iter().filter(|kept| !kept.is_lost()).cloned().collect::<Vec<_>>()
        };
        let left = state.copies.iter().map(left).collect::<Vec<_>>();
        match left.iter().any(Vec::is_empty) {
            // The statement fails with the node's name.
            true => Ok(()),
            false => self.see(left),
        }
    }

    pub(crate) fn see(&self, copies: Vec<Vec<Arc<Kept>>>) -> Result<()> {
        let holds = copies.iter().filter_map(|some| some.first().cloned()).collect::<Vec<_>>();
        let urls = holds.iter().map(|kept| url_of(&kept.node));
        let memory = holds.iter().filter_map(|kept| kept.held.memory).min();
        self.nodes.set(urls.collect::<Result<Vec<_>>>()?, memory);
        let (mut tables, mut torn) = (BTreeMap::new(), BTreeMap::new());
        let mut providers = Vec::<(String, Arc<dyn TableProvider>)>::new();
        let names = holds.iter().flat_map(|kept| kept.contents.tables.keys());
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
        *self.state.lock() = Arc::new(State { holds, copies, tables, torn });
        self.take_definitions()
    }

    /// The result of a change.
    pub(crate) fn changed(&self, changed: Changed) -> Rows {
        let result = match changed.returned {
            Some((schema, batches)) => Answer::Returned(schema, changed.rows, batches.into_iter()),
            None => Answer::Changed(changed.rows),
        };
        Rows { result, cluster: self.cluster.clone(), state: self.state() }
    }

    /// The rows of a statement that lists definitions; `None` of others. A session with temporary
    /// tables lists what it has itself.
    fn listed(&self, sql: &str, parameters: &[Value]) -> Result<Option<Rows>> {
        let state = self.state();
        let Some(first) = state.holds.first() else { return Ok(None) };
        if self.has_temporary.load(Ordering::Relaxed) || !is_listing(sql, &state) {
            return Ok(None);
        }
        let mut listing = self.listing.lock();
        if !listing.as_ref().is_some_and(|known| known.is_of(&first.contents)) {
            *listing = Some(Listing::of(&first.contents)?);
        }
        let Some(known) = listing.as_ref() else { return Ok(None) };
        let result = Answer::Rows(known.connection().execute(sql, parameters)?);
        Ok(Some(Rows { result, cluster: self.cluster.clone(), state: Arc::clone(&state) }))
    }

    /// Makes the views, macros and types of the first node known here.
    fn take_definitions(&self) -> Result<()> {
        let state = self.state();
        let Some(first) = state.holds.first() else { return Ok(()) };
        let contents = &first.contents;
        let is_same = |known: &Arc<Told>| Arc::ptr_eq(known, contents);
        let before = self.defined.lock().clone();
        let is_none = |told: &Arc<Told>| told.definitions.is_empty();
        if before.as_ref().is_some_and(is_same)
            || is_none(contents) && before.as_ref().is_none_or(is_none)
        {
            return Ok(());
        }
        let writer = self.connection.database().connect();
        let before = before.iter().flat_map(|told| &told.definitions);
        for gone in before.filter(|one| !contents.definitions.contains(one)) {
            if let Some(drop) = dropping(gone) {
                // What could not be made here is not here.
                let _ = writer.query(&drop);
            }
        }
        for (name, schema) in state.tables.iter().map(|(name, known)| (name, &known.schema)) {
            writer.register(name, Arc::clone(schema), Vec::new())?;
        }
        for statement in &contents.definitions {
            // One that cannot be made here is not found by who asks for it.
            let _ = writer.query(&or_replace(statement));
        }
        *self.defined.lock() = Some(Arc::clone(contents));
        Ok(())
    }

    /// The table of a name at all nodes as one.
    fn joined(&self, name: &str, holds: &[Arc<Kept>]) -> Result<(Known, ShardedTable)> {
        let wrong = |message: String| Error::Table { table: name.to_string(), message };
        let mut found = Vec::<&ToldTable>::new();
        let mut shards = Vec::new();
        for kept in holds {
            let node = &kept.node;
            let table = kept.contents.tables.get(name);
            let table = table.ok_or_else(|| wrong(format!("node {node} does not have it")))?;
            if let Some(first) = found.first()
                && (first.schema != table.schema || first.cut != table.cut)
            {
                let first = &holds[0].node;
                let message = format!("nodes {first} and {node} differ in its columns or its cut");
                return Err(wrong(message));
            }
            shards.push(Shard {
                place: shards.len(),
                node: node.clone(),
                process: kept.held.process.clone(),
                hold: kept.held.hold,
            });
            found.push(table);
        }
        let Some(first) = found.first() else {
            return Err(wrong("there are no nodes".to_string()));
        };
        let schema = &first.schema;
        let count = |one: &Statistics| one.num_rows.get_value().copied().unwrap_or(0);
        let rows = found.iter().map(|one| count(&one.statistics)).collect::<Vec<_>>();
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
        if first.cut == Cut::Replicated
            && let Some(other) = rows.iter().position(|count| *count != rows[0])
        {
            let node = &holds[other].node;
            return Err(wrong(format!("node {node} has other rows of it than the first node")));
        }
        let schema = Arc::clone(schema);
        let mut known = Known::empty(Arc::clone(&schema), first.cut.clone());
        known.rows = rows;
        known.is_key_whole = is_key_whole && !first.primary_key.is_empty();
        known.key = key.iter().map(|column| known.schema.field(*column).name().clone()).collect();
        let bounds = self.bounds(&known)?;
        let placing = Placing { cut: first.cut.clone(), bounds, nodes: holds.len() };
        let statistics = found.into_iter().map(|one| one.statistics.clone()).collect();
        let name = name.to_string();
        let provider = ShardedTable { name, schema, shards, statistics, constraints, placing };
        Ok((known, provider))
    }

    /// The values of a cut's bounds.
    pub(crate) fn bounds(&self, known: &Known) -> Result<Vec<ScalarValue>> {
        let Cut::Range { column, bounds } = &known.cut else { return Ok(Vec::new()) };
        let wanted = field_type(known.schema.field_with_name(column)?);
        let mut values = Vec::new();
        for bound in bounds {
            let sql = format!("SELECT CAST({bound} AS {wanted})");
            if let Some(value) = self.literals.lock().get(&sql) {
                values.push(value.clone());
                continue;
            }
            let value = self.value(&sql)?;
            self.literals.lock().insert(sql, value.clone());
            values.push(value);
        }
        Ok(values)
    }

    /// The value that a query gives, which reads nothing of the cluster.
    pub(crate) fn value(&self, sql: &str) -> Result<ScalarValue> {
        let rows = self.connection.query(sql)?.collect()?;
        let first = rows.iter().find(|batch| batch.num_rows() > 0);
        let first = first.ok_or_else(|| Error::Unsupported(format!("no value of {sql}")))?;
        Ok(ScalarValue::try_from_array(first.column(0), 0)?)
    }

    /// Its time zone.
    pub(crate) fn time_zone(&self) -> Result<Option<String>> {
        Ok(self.connection.engine_state()?.config_options().execution.time_zone.clone())
    }

    /// Its limit of memory at each node.
    pub(crate) fn budget(&self) -> Result<Option<Budget>> {
        Ok(budget(self.connection.engine_state()?.as_ref(), &self.name))
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

    /// The nodes of each shard, as a list of nodes has them; a copy that is not read because its
    /// node has gone is marked.
    pub fn nodes(&self) -> Vec<String> {
        let (state, places) = (self.state(), self.cluster.places());
        let shard = |nth: usize| {
            let there = state.copies.get(nth).map_or(&[][..], Vec::as_slice);
            let texts = self.cluster.copies_of(nth).map(|place| {
                let is_there = there.iter().any(|kept| kept.place == place && !kept.is_lost());
                let mark = if is_there { "" } else { " (lost)" };
                format!("{}/{}{mark}", places[place].node, places[place].database)
            });
            texts.collect::<Vec<_>>().join(", ")
        };
        (0..self.cluster.shards()).map(shard).collect()
    }

    /// The last change of the cluster that this session sees.
    pub fn change(&self) -> u64 {
        self.state().holds.first().map_or(0, |kept| kept.held.change)
    }

    /// How a table is cut.
    pub fn cut(&self, table: &str) -> Option<Cut> {
        self.state().tables.get(table).map(|known| known.cut.clone())
    }

    /// The tables, and how they are cut.
    pub fn cuts(&self) -> Vec<(String, Cut)> {
        let state = self.state();
        state.tables.iter().map(|(name, known)| (name.clone(), known.cut.clone())).collect()
    }

    /// Runs statements and returns the result of the last.
    pub fn query(&self, sql: &str) -> Result<Rows> {
        self.execute(sql, &Cut::AsItLies)
    }

    /// Runs statements with parameters: they fill `?` in the order of the text, and `$1`, `$2` by
    /// number.
    ///
    /// ```no_run
    /// # fn f(session: &swingdb_cluster::Session) -> swingdb_cluster::Result<()> {
    /// session.query_with("INSERT INTO t VALUES (?, ?)", &[1.into(), "one".into()])?;
    /// # Ok(()) }
    /// ```
    pub fn query_with(&self, sql: &str, parameters: &[Value]) -> Result<Rows> {
        self.execute_with(sql, parameters, &Cut::AsItLies)
    }

    /// Runs statements with parameters called by name: `$name`.
    ///
    /// ```no_run
    /// # fn f(session: &swingdb_cluster::Session) -> swingdb_cluster::Result<()> {
    /// session.query_named("SELECT * FROM t WHERE day > $day", &[("day".into(), 7.into())])?;
    /// # Ok(()) }
    /// ```
    pub fn query_named(&self, sql: &str, parameters: &[(String, Value)]) -> Result<Rows> {
        self.execute_given(sql, Given::Named(parameters), &Cut::AsItLies)
    }

    /// Runs statements; a table that they make is cut by `cut`.
    pub fn execute(&self, sql: &str, cut: &Cut) -> Result<Rows> {
        self.execute_with(sql, &[], cut)
    }

    /// Runs statements with parameters; a table that they make is cut by `cut`.
    pub fn execute_with(&self, sql: &str, parameters: &[Value], cut: &Cut) -> Result<Rows> {
        self.execute_given(sql, Given::Positional(parameters), cut)
    }

    /// The same with parameters of either kind.
    pub fn execute_given(&self, sql: &str, parameters: Given<'_>, cut: &Cut) -> Result<Rows> {
        let mut last = None;
        for (statement, values) in statements(sql, parameters)? {
            last = Some(self.run(&statement, &values, cut)?);
        }
        last.ok_or_else(|| Error::Unsupported("a text without a statement".to_string()))
    }

    fn run(&self, sql: &str, parameters: &[Value], cut: &Cut) -> Result<Rows> {
        self.leave_lost()?;
        if self.block_statement(sql)? {
            return Ok(self.changed(Changed::default()));
        }
        self.state().check_order(sql)?;
        let of_temporary = self.is_about_temporary(sql)?;
        if !of_temporary && let Some(change) = Change::of(sql, cut)? {
            return self.change_by(&change, parameters);
        }
        self.check_block()?;
        self.state().check(sql)?;
        if let Some(listed) = self.listed(sql, parameters)? {
            return Ok(listed);
        }
        let is_measured = first_words(sql, 1).first().is_some_and(|word| word == "explain");
        self.connection.configure_engine(|state| {
            carry_settings(state, &self.name, self.cluster.shards(), is_measured);
            Ok(())
        })?;
        let result = self.connection.execute(sql, parameters);
        let state = self.state();
        let result = result.map_err(|error| diagnosed(&self.cluster, &state, error))?;
        Ok(Rows { result: Answer::Rows(result), cluster: self.cluster.clone(), state })
    }
}

/// Tables that the session alone has.
impl Session {
    /// Whether a statement makes, changes or drops a temporary table or view: they are the
    /// coordinator's. One without a schema comes before a table of the cluster, as it does on one
    /// machine.
    fn is_about_temporary(&self, sql: &str) -> Result<bool> {
        let first = first_words(sql, 4);
        let first = first.iter().map(String::as_str).collect::<Vec<_>>();
        let is_made = matches!(
            first[..],
            ["create", "temp" | "temporary", ..]
                | ["create", "or", "replace", "temp" | "temporary", ..]
        );
        let is_it = is_made
            || match target(sql) {
                Some((Some(schema), _)) => is_same(&schema, "temp"),
                Some((None, name)) => self.has_temporary(&name),
                None => false,
            };
        if !is_it {
            return Ok(false);
        }
        if !matches!(*self.block.lock(), Block::None) {
            return Err(Error::Unsupported(
                "temporary tables in a transaction, which would not take their changes back"
                    .to_string(),
            ));
        }
        self.has_temporary.store(true, Ordering::Relaxed);
        Ok(true)
    }

    fn has_temporary(&self, name: &str) -> bool {
        let query = || format!("SELECT * FROM temp.{} LIMIT 0", quoted(name));
        self.has_temporary.load(Ordering::Relaxed) && self.connection.query(&query()).is_ok()
    }
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

/// The statement that takes back what a definition has made.
fn dropping(definition: &str) -> Option<String> {
    let kinds = ["view", "macro", "function", "type"];
    let all = words(definition).collect::<Vec<_>>();
    let at = all.iter().position(|word| {
        kinds.iter().any(|kind| word.kind == Kind::Word && word.text.eq_ignore_ascii_case(kind))
    })?;
    let is = |nth: usize, word: &str| {
        all.get(nth).is_some_and(|next| next.text.eq_ignore_ascii_case(word))
    };
    let name = if is(at + 1, "if") { at + 4 } else { at + 1 };
    let mut end = name;
    while is(end + 1, ".") {
        end += 2;
    }
    let text = all.get(name..=end)?.iter().map(|word| word.text).collect::<String>();
    Some(format!("DROP {} IF EXISTS {text}", all[at].text))
}

/// The name behind `TYPE`.
fn type_name(rest: &str) -> &str {
    let mut words = swingdb::cutter::words(rest);
    words.nth(1).map_or("", |word| word.text)
}

/// Tells a node that is gone from an error of the statement.
fn diagnosed(cluster: &Cluster, state: &State, error: swingdb::Error) -> Error {
    let holds = state.holds.clone();
    let client = cluster.inner.client.clone();
    let message = error.to_string();
    if let Some(refusal) = refusal_in(&message) {
        return refusal;
    }
    let said = message.clone();
    let checked = cluster.wait(async move {
        let pings = holds
            .iter()
            .map(|kept| client.act_within::<_, usize>(&kept.node, "ping", &(), SIGN_OF_LIFE));
        let answers = futures::future::join_all(pings).await;
        let silent = holds.iter().zip(answers).filter_map(|(kept, answer)| match answer {
            Err(error @ (Error::NodeLost { .. } | Error::NodeSlow { .. })) => {
                // The next statement reads another copy, if there is one.
                kept.lose();
                Some((kept, error))
            }
            // It may have gone in between, or be another process by now.
            _ if kept.is_lost() => Some((kept, lost(&kept.node, "it has gone".to_string()))),
            _ => None,
        });
        // One that is gone for sure, before one that may only be busy.
        let first = silent.min_by_key(|(_, error)| matches!(error, Error::NodeSlow { .. }));
        Ok(first.map(|(kept, error)| Error::NodeLost {
            node: kept.node.clone(),
            message: format!("{error}; the statement: {said}"),
        }))
    });
    match checked {
        Ok(Some(lost)) => lost,
        _ => blamed(&message).unwrap_or(Error::Database(error)),
    }
}

/// The rows of a statement. The state that they are from stays until they are dropped.
pub struct Rows {
    result: Answer,
    cluster: Cluster,
    state: Arc<State>,
}

enum Answer {
    Rows(QueryResult),
    Changed(u64),
    /// Rows of RETURNING, and how many rows have changed.
    Returned(SchemaRef, u64, std::vec::IntoIter<RecordBatch>),
}

impl Rows {
    /// The columns; `None` for a change without RETURNING.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.result {
            Answer::Rows(rows) => Some(rows.schema()),
            Answer::Returned(schema, ..) => Some(Arc::clone(schema)),
            Answer::Changed(_) => None,
        }
    }

    /// The number of rows that were changed.
    pub fn rows_changed(&self) -> Option<u64> {
        match &self.result {
            Answer::Rows(_) => None,
            Answer::Changed(count) | Answer::Returned(_, count, _) => Some(*count),
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
        let rows = match &mut self.result {
            Answer::Rows(rows) => rows,
            Answer::Returned(_, _, batches) => return batches.next().map(Ok),
            Answer::Changed(_) => return None,
        };
        let batch = rows.next()?;
        Some(batch.map_err(|error| diagnosed(&self.cluster, &self.state, error)))
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
