//! The state of one conversation with a database: [`Session`].
//!
//! A session runs one statement at a time (`statement` lock); results that are still being read do
//! not hold it. What a statement can see is gathered into [`Catalogs`] when it starts. Locks are
//! taken in the order `statement`, `txn`, `state`, and the latter two only for moments:
//! [`Session::view`] takes `txn`, so nobody may hold it while planning.
//!
//! A session has [sides](side): its database, and a private one for its temporary tables. A
//! [`Session`] is a handle. All handles of a session share its [`Conversation`], and differ in the
//! side that a statement changes. The side is chosen once, before the statement is carried out.
//! What names mean does not depend on it.

pub(crate) mod added_functions;
pub(crate) mod duckdb_settings;
pub(crate) mod given;
pub mod plain_rows;
pub(crate) mod plan_cache;
pub(crate) mod result;
pub(crate) mod sequences;
pub(crate) mod settings;
pub(crate) mod side;
pub(crate) mod spanning;
pub(crate) mod stream;
pub(crate) mod table_scan;
pub(crate) mod temporary;
pub(crate) mod text_memory;
pub(crate) mod transaction;
pub(crate) mod user_functions;
pub(crate) mod user_tables;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use parking_lot::{Mutex, MutexGuard};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::{
    CancelToken, InterruptHandle, OnThread, Running, Stoppable, may_start, stoppable,
};
use swingdb_common::runtime::memory::{AccountedRows, Pieces, Waiting};
use swingdb_common::runtime::threads;
use swingdb_common::time::zones::Zone;
use swingdb_sql::ast::names::{CATALOG, parse_table_name};
use swingdb_sql::bind::catalogs::{Catalogs, Found, Source, match_name};
use swingdb_sql::engine;
use swingdb_sql::options::bar::ProgressBar;
use swingdb_sql::options::limits::Limits;
use swingdb_sql::options::temporary::TemporaryFiles;
use swingdb_sql::planner::{Answers, Planner, derived};
use swingdb_sql::text::depth;
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::statement::Statements;
use swingdb_store::{Catalog, ShareInfo, Store, Table};

use crate::database::Database;
use crate::session::given::GivenTable;
use crate::session::plan_cache::{Conditions, PlanCache};
use crate::session::sequences::Numbers;
use crate::session::side::{Side, TEMP};
use crate::session::stream::BatchStream;
use crate::session::transaction::TxnState;
use crate::session::user_functions::FunctionKind;

/// How long a statement that waits for the one before it may not hear that it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Prepared statements by the lower-case form of their names.
pub(crate) type Prepared = BTreeMap<String, PreparedStatement>;

/// A statement that PREPARE has given a name.
#[derive(Clone)]
pub(crate) struct PreparedStatement {
    /// The statement, with its parameters numbered.
    pub(crate) statement: ast::Statement,
    pub(crate) numbering: Numbering,
    /// Where its plan is kept.
    pub(crate) source: plan_cache::Source,
}

/// A session, and the side that a statement changes; see the [module documentation](self).
pub(crate) struct Session {
    conversation: Arc<Conversation>,
    side: Arc<Side>,
}

/// What all statements of a session share.
struct Conversation {
    /// Held while a statement runs (not while its result is read).
    statement: Mutex<()>,
    /// The session's own database.
    main: Arc<Side>,
    /// Its temporary tables, once there have been some.
    temp: Mutex<Option<Arc<Side>>>,
    state: Mutex<State>,
    running: Arc<Running>,
    /// Statements that PREPARE has given names.
    prepared: Mutex<Prepared>,
    /// What sequences give out to the statement that runs.
    numbers: Arc<Numbers>,
    /// The last text whose names were asked for, and its statements.
    parsed: Mutex<Option<(String, Statements)>>,
    /// The plans of its last queries.
    plans: Mutex<PlanCache>,
}

struct State {
    attached: BTreeMap<String, Database>,
    registered: Arc<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// Whether these are found as tables of schema `main` too.
    registered_in_main: bool,
    /// The names of the functions that the program has added.
    functions: BTreeMap<String, FunctionKind>,
    /// Tables of rows that parts of the running statement have returned.
    given: BTreeMap<String, Arc<dyn TableProvider>>,
    progress: Option<Arc<dyn Progress>>,
    engine: Option<SessionState>,
    /// The engine for plans that do not depend on the time, and after which changes it was made.
    settled: Option<(u64, Arc<SessionState>)>,
    /// The token of the statement that runs now.
    token: Option<CancelToken>,
    /// What the last statement's tasks were given, and the settings that it was made with.
    tasks: Option<(Arc<ConfigOptions>, Arc<TaskContext>)>,
    /// The plans that the statement has run, where somebody asks for them.
    noted: Option<Vec<Arc<dyn ExecutionPlan>>>,
    /// Counts changes of settings, functions and attached databases.
    changes: u64,
}

impl State {
    fn limits(&self) -> Limits {
        self.engine.as_ref().map(|engine| Limits::of(engine.config())).unwrap_or_default()
    }

    /// The token of a statement that starts now.
    fn start(&self, running: &Arc<Running>) -> CancelToken {
        let config = self.engine.as_ref().map(SessionState::config);
        let folder = config.and_then(|config| TemporaryFiles::of(config).directory.named());
        running.start_with(self.limits().statement_timeout, folder)
    }
}

impl Session {
    pub(crate) fn new(database: Database) -> Self {
        Self::with(Side::of(database), Arc::default())
    }

    fn with(main: Arc<Side>, numbers: Arc<Numbers>) -> Self {
        depth::leave_room();
        let state = State {
            attached: BTreeMap::new(),
            registered: Arc::default(),
            registered_in_main: false,
            functions: BTreeMap::new(),
            given: BTreeMap::new(),
            progress: None,
            settled: None,
            engine: None,
            token: None,
            tasks: None,
            noted: None,
            changes: 0,
        };
        let conversation = Conversation {
            statement: Mutex::new(()),
            main: Arc::clone(&main),
            temp: Mutex::default(),
            state: Mutex::new(state),
            running: Arc::default(),
            prepared: Mutex::default(),
            numbers,
            parsed: Mutex::default(),
            plans: Mutex::default(),
        };
        Self { conversation: Arc::new(conversation), side: main }
    }

    /// The session's own database.
    pub(crate) fn database(&self) -> &Database {
        self.conversation.main.database()
    }

    /// The storage of the side that the statement changes.
    pub(crate) fn store(&self) -> &Store {
        self.side.database().store()
    }

    /// The transaction on the side that the statement changes.
    pub(crate) fn txn(&self) -> &Mutex<TxnState> {
        &self.side.txn
    }

    /// The state of the side that the statement changes, as it sees it.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.side.catalog()
    }

    /// Whether the statement changes temporary tables.
    pub(crate) fn changes_temp(&self) -> bool {
        !Arc::ptr_eq(&self.side, &self.conversation.main)
    }

    /// What queries call the database that the statement changes.
    pub(crate) fn changed_database(&self) -> &'static str {
        if self.changes_temp() { TEMP } else { CATALOG }
    }

    /// The side of temporary tables, once there have been some.
    pub(crate) fn temp(&self) -> Option<Arc<Side>> {
        self.conversation.temp.lock().clone()
    }

    /// The session for a statement that changes this side.
    pub(crate) fn changing(&self, side: Arc<Side>) -> Arc<Self> {
        Arc::new(Self { conversation: Arc::clone(&self.conversation), side })
    }

    pub(crate) fn in_transaction(&self) -> bool {
        self.conversation.main.txn.lock().is_open()
    }

    /// Runs `run` in a session of the same database, transaction, settings and running statement,
    /// which knows no temporary tables, attached databases, and variables of a program.
    pub(crate) fn alone<T>(&self, run: impl FnOnce(&Arc<Self>) -> Result<T>) -> Result<T> {
        let engine = self.engine()?;
        let (main, numbers) = (&self.conversation.main, &self.conversation.numbers);
        let inner = Arc::new(Self::with(Arc::clone(main), Arc::clone(numbers)));
        {
            let mut state = inner.conversation.state.lock();
            state.engine = Some(Arc::unwrap_or_clone(engine));
            state.token = Some(self.cancel_token());
            state.progress = self.progress();
        }
        run(&inner)
    }

    /// Makes this the session's running statement. Interrupts reach it from here on; those of the
    /// work that it belongs to end the waiting for the statement before it as well.
    pub(crate) fn lock_statement(&self) -> Result<StatementGuard<'_>> {
        loop {
            may_start()?;
            if let Some(lock) = self.conversation.statement.try_lock_for(LOOK) {
                return Ok(self.begun(lock));
            }
        }
    }

    /// As [`lock_statement`](Self::lock_statement), without waiting; `None`: another one runs.
    pub(crate) fn try_lock_statement(&self) -> Result<Option<StatementGuard<'_>>> {
        may_start()?;
        Ok(self.conversation.statement.try_lock().map(|lock| self.begun(lock)))
    }

    /// The statement that holds the lock begins.
    fn begun<'a>(&'a self, lock: MutexGuard<'a, ()>) -> StatementGuard<'a> {
        let mut state = self.conversation.state.lock();
        let token = state.start(&self.conversation.running);
        let working = OnThread::of(&token);
        state.token = Some(token);
        drop(state);
        StatementGuard { session: self, _working: working, _lock: lock }
    }

    /// Shares the last committed state, for the running statement.
    pub(crate) fn share(&self) -> Result<ShareInfo> {
        self.database().store().share_with_progress(self.progress().as_deref())
    }

    /// Shares it beside the session's statements.
    pub(crate) fn share_beside(&self) -> Result<ShareInfo> {
        stoppable(&self.token_beside(), || self.share())
    }

    /// What names mean to a statement that starts now.
    pub(crate) fn view(&self) -> Result<Catalogs> {
        let main = self.conversation.main.source(CATALOG);
        let temp = self.temp().map(|temp| temp.source(TEMP));
        let state = self.conversation.state.lock();
        let attached = state.attached.iter().map(|(alias, database)| {
            let store = database.store().clone();
            let source = Source { name: alias.clone(), catalog: store.latest(), store };
            (alias.clone(), source)
        });
        Ok(Catalogs {
            main,
            database_name: self.database().name().map(str::to_string),
            attached: Arc::new(attached.collect()),
            registered: Arc::clone(&state.registered),
            registered_in_main: state.registered_in_main,
            extra: state.given.clone(),
            temp,
            defined: None,
        })
    }

    /// Gives the rest of the running statement a table, whose name goes before all others.
    pub(crate) fn give(&self, name: String, table: Arc<dyn TableProvider>) {
        self.conversation.state.lock().given.insert(name, table);
    }

    /// Takes back what was given.
    pub(crate) fn forget_given(&self) {
        self.conversation.state.lock().given.clear();
    }

    /// A copy of the query engine's state for one statement: its clock is set to when the
    /// transaction began, or now.
    pub(crate) fn engine(&self) -> Result<Arc<SessionState>> {
        let mut engine = {
            let mut state = self.conversation.state.lock();
            match &state.engine {
                Some(engine) => engine.clone(),
                None => {
                    let mut engine = engine::base_state()?.clone();
                    for function in sequences::functions(&self.conversation.numbers) {
                        engine.register_udf(Arc::new(function))?;
                    }
                    state.engine = Some(engine.clone());
                    engine
                }
            }
        };
        engine.mark_start_execution();
        if let Some(begun) = self.conversation.main.txn.lock().begun() {
            engine.execution_props_mut().query_execution_start_time = Some(begun);
        }
        Ok(Arc::new(engine))
    }

    /// The engine for plans that do not depend on the time, as it is for all statements until
    /// something changes: to copy its tables of functions takes as long as to select a row.
    pub(crate) fn settled_engine(&self) -> Result<Arc<SessionState>> {
        let changes = {
            let state = self.conversation.state.lock();
            match &state.settled {
                Some((after, engine)) if *after == state.changes => return Ok(Arc::clone(engine)),
                _ => state.changes,
            }
        };
        let engine = self.engine()?;
        self.conversation.state.lock().settled = Some((changes, Arc::clone(&engine)));
        Ok(engine)
    }

    /// The time zone by whose clock timestamps are points in time.
    pub(crate) fn zone(&self) -> Zone {
        let state = self.conversation.state.lock();
        state.engine.as_ref().map_or(Zone::UTC, |engine| Zone::of(engine.config_options()))
    }

    /// How many threads a statement may use at one time.
    pub(crate) fn threads(&self) -> Result<usize> {
        self.with_settings(|settings| settings.config().target_partitions())
    }

    /// The rows that a statement called `name` writes.
    pub(crate) fn pieces(&self, name: &str) -> Result<Pieces> {
        self.with_settings(|settings| Pieces::new(name, settings))
    }

    /// The memory that the session's statements may take.
    pub(crate) fn memory(&self) -> Result<Arc<dyn MemoryPool>> {
        self.with_settings(|settings| Arc::clone(&settings.runtime_env().memory_pool))
    }

    /// Looks at settings, for less than [`Session::engine`] costs.
    fn with_settings<T>(&self, look: impl FnOnce(&SessionState) -> T) -> Result<T> {
        let state = self.conversation.state.lock();
        match &state.engine {
            Some(engine) => Ok(look(engine)),
            None => engine::base_state().map(look),
        }
    }

    /// What sequences give out to the statements of this session.
    pub(crate) fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.conversation.numbers)
    }

    /// What the session's statements may do, and how much.
    pub(crate) fn limits(&self) -> Limits {
        self.conversation.state.lock().limits()
    }

    /// Changes the settings of later statements.
    pub(crate) fn configure(
        &self,
        change: impl FnOnce(&mut SessionState) -> Result<()>,
    ) -> Result<()> {
        let mut engine = Arc::unwrap_or_clone(self.engine()?);
        change(&mut engine)?;
        let mut state = self.conversation.state.lock();
        state.engine = Some(engine);
        state.tasks = None;
        state.changes += 1;
        Ok(())
    }

    /// What a plan may depend on besides its text, as it is now; `None` in a session whose names
    /// may mean temporary tables.
    pub(crate) fn conditions(&self) -> Option<Conditions> {
        if self.temp().is_some() {
            return None;
        }
        let session = self.conversation.state.lock().changes;
        Some(Conditions { definitions: self.catalog().definitions(), session })
    }

    /// The named statements.
    pub(crate) fn prepared(&self) -> MutexGuard<'_, Prepared> {
        self.conversation.prepared.lock()
    }

    /// The plans of the last queries.
    pub(crate) fn plans(&self) -> MutexGuard<'_, PlanCache> {
        self.conversation.plans.lock()
    }

    /// What tasks of a statement are given: names of all functions among other things, so that it
    /// is made again only where settings have changed.
    pub(crate) fn task_context(&self, engine: &SessionState) -> Arc<TaskContext> {
        let (mut state, options) = (self.conversation.state.lock(), engine.config_options());
        match &state.tasks {
            Some((known, tasks)) if Arc::ptr_eq(known, options) => Arc::clone(tasks),
            _ => {
                let tasks = engine.task_ctx();
                state.tasks = Some((Arc::clone(options), Arc::clone(&tasks)));
                tasks
            }
        }
    }

    /// Plans a query derived from a bound statement, whose parameters are numbered, against what
    /// the session sees now.
    pub(crate) fn plan(&self, statement: &ast::Statement, params: &Params) -> Result<LogicalPlan> {
        self.plan_with(statement, params, &[])
    }

    /// As [`plan`](Self::plan), with `extra` tables whose names win over all others.
    pub(crate) fn plan_with(
        &self,
        statement: &ast::Statement,
        params: &Params,
        extra: &[(String, SchemaRef, Vec<RecordBatch>)],
    ) -> Result<LogicalPlan> {
        let mut view = self.view()?;
        for (name, schema, batches) in extra {
            let table = GivenTable::try_new(Arc::clone(schema), batches.clone())?;
            view.extra.insert(name.clone(), Arc::new(table));
        }
        let engine = self.engine()?;
        Planner::new(&view, &engine).with_params(params).plan(derived(statement.clone()))
    }

    /// Starts a plan.
    pub(crate) fn run(&self, plan: LogicalPlan) -> Result<BatchStream> {
        let engine = self.engine()?;
        let physical = self.physical_plan(&engine, plan)?;
        self.start(&engine, physical)
    }

    /// Starts a plan that is optimized.
    pub(crate) fn run_optimized(&self, plan: LogicalPlan) -> Result<BatchStream> {
        let engine = self.engine()?;
        let state = Arc::clone(&engine);
        let physical = self.planned(async move {
            state.query_planner().create_physical_plan(&plan, state.as_ref()).await
        })?;
        self.start(&engine, physical)
    }

    fn start(
        &self,
        engine: &Arc<SessionState>,
        physical: Arc<dyn ExecutionPlan>,
    ) -> Result<BatchStream> {
        self.note_plan(&physical);
        let progress = self.progress();
        let tasks = self.task_context(engine);
        BatchStream::start(physical, tasks, None, self.cancel_token(), progress)
    }

    /// Keeps the plans that the statement runs from here on, until they are asked for.
    pub(crate) fn note_plans(&self) {
        self.conversation.state.lock().noted = Some(Vec::new());
    }

    /// The plans since [`note_plans`](Self::note_plans).
    pub(crate) fn noted_plans(&self) -> Vec<Arc<dyn ExecutionPlan>> {
        self.conversation.state.lock().noted.take().unwrap_or_default()
    }

    /// Notes a plan that the statement runs.
    pub(crate) fn note_plan(&self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(noted) = &mut self.conversation.state.lock().noted {
            noted.push(Arc::clone(plan));
        }
    }

    /// The physical plan for a logical one.
    pub(crate) fn physical_plan(
        &self,
        engine: &Arc<SessionState>,
        plan: LogicalPlan,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let engine = Arc::clone(engine);
        self.planned(async move { engine.create_physical_plan(&plan).await })
    }

    /// What the optimizer makes of a plan.
    pub(crate) fn optimized(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let engine = self.engine()?;
        self.planned(async move { engine.optimize(&plan) })
    }

    /// Plans as a task, which can be cancelled.
    fn planned<T: Send + 'static>(
        &self,
        work: impl Future<Output = datafusion::common::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let token = self.cancel_token();
        let mut planning = threads::spawn(Stoppable::new(token.clone(), work))?;
        token.wait(async {
            tokio::select! {
                biased;
                () = token.cancelled() => Err(token.error()),
                planned = planning.join() => planned?.map_err(Error::from),
            }
        })
    }

    /// Keeps a text's statements for who runs it next: the same text is parsed once.
    pub(crate) fn keep_parsed(&self, sql: &str, statements: Statements) {
        *self.conversation.parsed.lock() = Some((sql.to_string(), statements));
    }

    /// The statements that were kept of this text, if it was the last.
    pub(crate) fn take_parsed(&self, sql: &str) -> Option<Statements> {
        let (text, statements) = self.conversation.parsed.lock().take()?;
        (text == sql).then_some(statements)
    }

    /// A token for what is done beside the session's statements; interrupts reach it.
    pub(crate) fn token_beside(&self) -> CancelToken {
        self.conversation.state.lock().start(&self.conversation.running)
    }

    /// The rows that a statement called `name` collects, of which there are none yet.
    pub(crate) fn collected(&self, name: &str) -> Result<AccountedRows> {
        self.with_settings(|settings| AccountedRows::new(name, settings))
    }

    /// Accounts for rows that wait until they are stored.
    pub(crate) fn waiting(&self, name: &str) -> Result<Waiting> {
        Ok(Waiting::new(name, &self.memory()?))
    }

    /// The token of the running statement; long work asks it whether to go on.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        let mut state = self.conversation.state.lock();
        match &state.token {
            Some(token) => token.clone(),
            None => {
                let token = state.start(&self.conversation.running);
                state.token.insert(token).clone()
            }
        }
    }

    pub(crate) fn progress(&self) -> Option<Arc<dyn Progress>> {
        self.conversation.state.lock().progress.clone()
    }

    /// How long a statement runs before it shows a progress bar, where the settings want one.
    pub(crate) fn progress_bar(&self) -> Option<Duration> {
        let state = self.conversation.state.lock();
        let bar = ProgressBar::of(state.engine.as_ref()?.config());
        bar.enabled.then_some(bar.after)
    }

    pub(crate) fn set_progress(&self, progress: Option<Arc<dyn Progress>>) {
        self.conversation.state.lock().progress = progress;
    }

    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        self.conversation.running.handle()
    }

    pub(crate) fn attach(&self, other: &Database, alias: &str) -> Result<()> {
        let mut state = self.conversation.state.lock();
        let taken = alias.eq_ignore_ascii_case(CATALOG)
            || alias.eq_ignore_ascii_case(TEMP)
            || match_name(state.attached.keys().map(String::as_str), alias).is_some();
        if taken {
            let kind = ObjectKind::Database;
            return Err(Error::AlreadyExists { kind, name: alias.to_string() });
        }
        state.attached.insert(alias.to_string(), other.clone());
        state.changes += 1;
        Ok(())
    }

    pub(crate) fn detach(&self, alias: &str) -> Result<()> {
        let mut state = self.conversation.state.lock();
        match match_name(state.attached.keys().map(String::as_str), alias) {
            Some(name) => {
                state.attached.remove(&name);
                state.changes += 1;
                Ok(())
            }
            None => Err(Error::not_found(ObjectKind::Database, alias, state.attached.keys())),
        }
    }

    /// The storage of the database attached as `alias`.
    pub(crate) fn attached(&self, alias: &str) -> Option<Store> {
        let state = self.conversation.state.lock();
        let name = match_name(state.attached.keys().map(String::as_str), alias)?;
        state.attached.get(&name).map(|database| database.store().clone())
    }

    pub(crate) fn register(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<()> {
        let (schema, batches) = given::plain(schema, batches)?;
        self.register_provider(name, Arc::new(GivenTable::try_new(schema, batches)?));
        Ok(())
    }

    /// Makes any table queryable under `name` in this session.
    pub(crate) fn register_provider(&self, name: &str, provider: Arc<dyn TableProvider>) {
        let mut state = self.conversation.state.lock();
        Arc::make_mut(&mut state.registered).insert(name.to_string(), provider);
    }

    pub(crate) fn find_registered_in_main(&self) {
        self.conversation.state.lock().registered_in_main = true;
    }

    pub(crate) fn deregister(&self, name: &str) {
        let mut state = self.conversation.state.lock();
        if state.registered.contains_key(name) {
            Arc::make_mut(&mut state.registered).remove(name);
        }
    }

    pub(crate) fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.view()?.names())
    }

    pub(crate) fn column_names(&self, table: &str) -> Result<Vec<String>> {
        let view = self.view()?;
        let engine = self.engine()?;
        let provider = Planner::new(&view, &engine).provider(&TableReference::from(table))?;
        Ok(provider.schema().fields().iter().map(|f| f.name().clone()).collect())
    }

    /// A table of this database or an attached one.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>> {
        let view = self.view()?;
        let reference = parse_table_name(name);
        match view.find(&reference)? {
            Some(Found::Table { table, .. }) => Ok(table),
            Some(Found::View { .. }) => Err(Error::plan(format!("{name:?} is a view"))),
            Some(_) => Err(Error::plan(format!("{name:?} is not a table of a database"))),
            None => Err(view.unknown_table(&reference)),
        }
    }
}

impl Answers for Session {
    fn rows(&self, plan: LogicalPlan) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        Ok(Box::new(self.run(plan)?))
    }
}

/// While it lives, its session runs a statement.
pub(crate) struct StatementGuard<'a> {
    session: &'a Session,
    /// What the statement does on this thread asks whether to go on.
    _working: OnThread,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for StatementGuard<'_> {
    fn drop(&mut self) {
        self.session.conversation.state.lock().token = None;
        self.session.store().give_back_dropped();
    }
}
