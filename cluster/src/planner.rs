//! Plans for a cluster: [`configure`] gives a session the planner, and what it needs.
//!
//! The database's own planner makes a plan whose leaves read shards over the network: that plan is
//! right as it is. `datafusion-distributed` then cuts the plan into stages that run at the nodes. A
//! plan that cannot be sent stays at the coordinator, with the same answer: one with operators that
//! nobody can write down, or with functions that carry something besides their names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryLimit};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan};
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{HigherOrderFunctionExpr, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, displayable,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedCodec, DistributedConfig,
    DistributedExec, DistributedExt, DistributedLeafExec, NetworkBoundary, NetworkBoundaryExt,
    NetworkCoalesceExec, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, Stage, WorkerResolver,
};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use swingdb_functions::bounded::MemoryLeft;
use swingdb_sql::bind::positional::pairs_rows;
use swingdb_sql::engine::{Spreads, builder_of, default_memory_limit, part_of};
use url::Url;
use uuid::Uuid;

use crate::by_cut;
use crate::client::{Client, url_of};
use crate::colocate::{Moves, colocate, in_place};
use crate::cut::Cut;
use crate::error::in_any_order;
use crate::few_groups::gathered;
use crate::functions::{self, ByName, Carried};
use crate::joins::{Tasks, shared, spilling};
use crate::node::worker::ScanCodec;
use crate::reduce;
use crate::scan::{Reach, ShardScan, ShardedTable, spread_of};
use crate::settings::SessionSettings;
use crate::shown::Shown;
use crate::staged::{self, Stages};
use crate::subqueries;
use crate::wire::{Budget, TOKEN_HEADER};

/// Rules that place operators which work within one process only, that only serve it, or that no
/// node can read; and rules for joins, which `joins` has its own for. A rule that is missing here
/// keeps plans at the coordinator.
const WITHIN_ONE_PROCESS: [&str; 7] =
    ["SharedJoins", "InOrder", "WholeGroups", "ShareRows", "InSlices", "GraceJoins", "LargeSorts"];

/// The nodes that a session reads: for each shard, the one whose copy it has chosen.
#[derive(Clone, Debug, Default)]
pub struct Nodes(Arc<RwLock<Known>>);

/// What is known of them.
#[derive(Clone, Debug, Default)]
struct Known {
    urls: Vec<Url>,
    /// What the one with the least memory may hold.
    memory: Option<usize>,
}

impl Nodes {
    /// Says which they are from now on, and what the one with the least memory may hold.
    pub fn set(&self, urls: Vec<Url>, memory: Option<u64>) {
        let memory = memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        *self.0.write() = Known { urls, memory };
    }

    /// Options by which plans are made for nodes: with the limit of the one with the least memory,
    /// if that is below the session's own.
    fn for_nodes(&self, mut options: ConfigOptions) -> ConfigOptions {
        let own = options.extensions.get::<MemoryLeft>().map(|left| left.0.memory_limit());
        let Some(least) = self.0.read().memory else { return options };
        if !matches!(own, Some(MemoryLimit::Finite(own)) if own <= least) {
            options.extensions.insert(MemoryLeft(Arc::new(GreedyMemoryPool::new(least))));
        }
        options
    }
}

impl WorkerResolver for Nodes {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.read().urls.clone())
    }
}

/// Gives a session the planner of a cluster of these nodes.
pub fn configure(
    state: &mut SessionState,
    nodes: Nodes,
    client: &Client,
    token: Option<&str>,
    ask_keys_from: f64,
) -> Result<()> {
    let own = Arc::clone(state.query_planner());
    let known = nodes.clone();
    let route = move |event: RouteTasksEvent<'_>| route(&known.0.read().urls, &event);
    let mut headers = http::HeaderMap::new();
    if let Some(token) = token {
        let value = http::HeaderValue::from_str(token);
        headers.insert(TOKEN_HEADER, value.map_err(|e| DataFusionError::External(e.into()))?);
    }
    let mut builder = builder_of(state)
        .with_distributed_worker_resolver(nodes.clone())
        .with_distributed_channel_resolver(client.clone())
        .with_distributed_user_codec(ScanCodec)
        .with_distributed_option_extension(SessionSettings::default())
        .with_distributed_passthrough_headers(headers)?
        .with_distributed_desired_task_count_handler(desired)
        .with_distributed_scale_up_leaf_node_handler(scale_up)
        .with_distributed_route_tasks_handler(route);
    let config = builder.config().get_or_insert_default();
    config.set_extension(Arc::new(Reach(client.clone())));
    // Else a subquery that must have one row is a join, which takes several for as many results.
    config.options_mut().optimizer.enable_physical_uncorrelated_scalar_subquery = true;
    config.options_mut().extensions.insert(Spreads(spread_of));
    let staged =
        [true, false].map(|by_cuts| stages_of(ForStages { nodes: nodes.clone(), by_cuts }));
    let planner = ClusterPlanner { own, nodes, staged, ask_keys_from };
    *state = builder.with_query_planner(Arc::new(planner)).build();
    Ok(())
}

/// What plans, and cuts plans into stages.
fn stages_of(planner: ForStages) -> Arc<dyn QueryPlanner + Send + Sync> {
    let planner: Arc<dyn QueryPlanner + Send + Sync> = Arc::new(planner);
    let builder = SessionStateBuilder::new().with_query_planner(Arc::clone(&planner));
    let mut builder = builder.with_distributed_planner();
    builder.query_planner().clone().unwrap_or(planner)
}

/// What the statements of a session may hold in memory at each node: what it has set for itself,
/// else `None`.
pub fn budget(state: &SessionState, session: &str) -> Option<Budget> {
    let MemoryLimit::Finite(bytes) = state.runtime_env().memory_pool.memory_limit() else {
        return None;
    };
    // The default is of this machine.
    (bytes != default_memory_limit())
        .then(|| Budget { session: session.to_string(), bytes: bytes as u64 })
}

/// Copies the settings of a session that travel with plans; before each statement. `is_measured`
/// says whether tasks tell what their operators have done.
pub fn carry_settings(state: &mut SessionState, session: &str, shards: usize, is_measured: bool) {
    let budget = budget(state, session);
    let zone = state.config_options().execution.time_zone.clone().unwrap_or_default();
    let options = state.config_mut().options_mut();
    if let Some(distributed) = options.extensions.get_mut::<DistributedConfig>() {
        distributed.collect_metrics = is_measured;
    }
    if let Some(settings) = options.extensions.get_mut::<SessionSettings>() {
        // Those of the statement before may still be read.
        *settings = SessionSettings { time_zone: zone, budget, shards, ..Default::default() };
    }
}

/// A table is read by as many tasks as it has shards.
fn desired(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ShardScan>()?;
    Some(Ok(match scan.is_replicated() {
        // Each further task would read all its rows again.
        true => DesiredTaskCountEventResponse::maximum(1),
        false => DesiredTaskCountEventResponse::desired(scan.slots().len().max(1)),
    }))
}

fn scale_up(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<ShardScan>().filter(|scan| !scan.is_replicated())?;
    let parts = scan.for_tasks(event.task_count);
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), parts);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// The first node of a scan that only some have the rows of.
fn own_node(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let scan = plan.downcast_ref::<ShardScan>().filter(|scan| !scan.is_replicated())?;
    scan.shards().first().map(|shard| shard.node.clone())
}

/// A task runs at the node whose shards it reads: elsewhere they would come over the network. Tasks
/// that read no shards run at the nodes of the stages below.
fn route(nodes: &[Url], event: &RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let mut wanted = vec![None::<String>; event.task_count];
    let mut below = Vec::<Url>::new();
    let walked = event.plan.apply(|node| {
        if let Some(boundary) = node.as_network_boundary() {
            if let Stage::Remote(stage) = boundary.input_stage() {
                below.extend(stage.workers.iter().cloned());
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>()
            && leaf.variants().len() == event.task_count
        {
            for (task, variant) in wanted.iter_mut().zip(leaf.variants()) {
                *task = task.take().or(own_node(variant));
            }
        }
        // The only task reads scans as they are.
        if let [task] = wanted.as_mut_slice() {
            *task = task.take().or(own_node(node));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if let Err(error) = walked {
        return Some(Err(error));
    }
    below.sort();
    below.dedup();
    // Those that read shards, before all others.
    let chosen = wanted.iter().flatten().filter_map(|node| url_of(node).ok());
    let others = chosen.chain(below).chain(nodes.iter().cloned()).collect::<Vec<_>>();
    let mut others = others.into_iter().cycle();
    let urls = wanted.iter().map(|node| match node {
        Some(node) => url_of(node).ok(),
        None => others.next(),
    });
    let urls = urls.collect::<Option<Vec<_>>>()?;
    Some(Ok(RouteTasksEventResponse::new(urls)))
}

/// The plan that is cut into stages: the engine's, without what works within one process only.
#[derive(Debug)]
struct ForStages {
    nodes: Nodes,
    /// See [`Moves::by_cuts`].
    by_cuts: bool,
}

#[async_trait]
impl QueryPlanner for ForStages {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a session of another kind".to_string()));
        };
        let rules = state.physical_optimizers().iter();
        let rules = rules.filter(|rule| !WITHIN_ONE_PROCESS.contains(&rule.name()));
        let mut config = state.config().clone();
        let extensions = &mut config.options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<SessionSettings>() {
            settings.for_stages = true;
        }
        let builder = builder_of(state).with_config(config);
        let state = builder.with_physical_optimizer_rules(rules.cloned().collect()).build();
        let plan = DefaultPhysicalPlanner::default().create_physical_plan(plan, &state).await?;
        let threads = state.config().target_partitions();
        let options = &self.nodes.for_nodes(ConfigOptions::clone(state.config_options()));
        if is_of_one_node(&plan)? {
            return at_one_node(&shared(&plan, Tasks { count: 1, threads }, options)?);
        }
        let count = self.nodes.0.read().urls.len().max(2);
        let moves = Moves { partitions: threads, by_cuts: self.by_cuts };
        let plan = gathered(&colocate(&plan, moves)?)?;
        shared(&plan, Tasks { count, threads }, options)
    }
}

/// Whether one node has all rows that a plan reads. The planner of stages would run it here, and
/// have all these rows sent.
fn is_of_one_node(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (mut nodes, mut reads, mut is_whole) = (BTreeSet::new(), false, true);
    plan.apply(|node| {
        match node.downcast_ref::<ShardScan>() {
            Some(scan) => {
                reads |= !scan.shards().is_empty();
                if !scan.is_replicated() {
                    nodes.extend(scan.shards().iter().map(|shard| shard.place));
                }
            }
            // Rows that are here cannot be sent, and what is written is written here.
            None => is_whole &= !node.children().is_empty() && !node.is::<DataSinkExec>(),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads && is_whole && nodes.len() <= 1)
}

/// A plan whose only stage has one task.
fn at_one_node(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<AnalyzeExec>() {
        let input = plan.children().into_iter().map(at_one_node).collect::<Result<Vec<_>>>()?;
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Arc::clone(plan).replace_children(input, options);
    }
    let sent = NetworkCoalesceExec::try_new(Arc::clone(plan), 1, 1)?;
    let mut stage = sent.input_stage().clone();
    if let Stage::Local(stage) = &mut stage {
        (stage.query_id, stage.num) = (Uuid::new_v4(), 1);
    }
    // EXPLAIN shows the stages below the topmost operator.
    let rows = Arc::new(CoalescePartitionsExec::new(sent.with_input_stage(stage)?));
    Ok(Arc::new(DistributedExec::new(rows).with_metrics_collection(true)))
}

/// See the [module documentation](self).
#[derive(Debug)]
struct ClusterPlanner {
    own: Arc<dyn QueryPlanner + Send + Sync>,
    nodes: Nodes,
    /// Those of stages: with shuffles by cuts, and without.
    staged: [Arc<dyn QueryPlanner + Send + Sync>; 2],
    /// Rows of a table for whose joins it asks for keys.
    ask_keys_from: f64,
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(mut shown) = Shown::of(plan) else {
            return self.planned(plan, session, None).await;
        };
        match plan {
            LogicalPlan::Explain(explain) => {
                let made = self.planned(&explain.plan, session, Some(&mut shown)).await?;
                Ok(shown.explained(explain, made.as_ref()))
            }
            _ => {
                let made = self.planned(plan, session, Some(&mut shown)).await?;
                shown.analyzed(made)
            }
        }
    }
}

impl ClusterPlanner {
    /// Plans a query. Values of subqueries are computed before the plan is sent, or, where it is
    /// only shown, their plans are shown with it.
    fn planned<'a>(
        &'a self,
        plan: &'a LogicalPlan,
        session: &'a dyn Session,
        shown: Option<&'a mut Shown>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            check_positions(plan)?;
            let reach = Reaches::of(plan)?;
            if !reach.nodes {
                return self.own.create_physical_plan(plan, session).await;
            }
            let mut shown = shown;
            let mut known = self.with_values(plan, session, shown.as_deref_mut()).await?;
            if reach.runs_at_nodes() {
                known = self.with_keys(known, session, shown.as_deref_mut()).await?;
                if let Some(made) = self.in_stages(&known, session).await? {
                    return Ok(made);
                }
            }
            let attempts = Attempts::new(self, session, shown.as_deref());
            let placed = staged::placed(&known, &attempts).await?;
            if let (Some(shown), Some(of_parts)) = (shown, attempts.shown()) {
                shown.extend(of_parts);
            }
            match self.own.create_physical_plan(&placed, session).await {
                Ok(made) => Ok(made),
                // The database's own planner may know the plan only as it was.
                Err(_) => self.own.create_physical_plan(plan, session).await,
            }
        })
    }

    /// A plan of stages, of one with the values and keys that are asked for first; `None`: nodes
    /// cannot carry it out.
    async fn in_stages(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        for planner in &self.staged {
            let staged = planner.create_physical_plan(plan, session).await;
            // Shuffles by cuts need all nodes in a stage: an error says that it has fewer tasks.
            if let Ok(staged) = staged.and_then(|staged| self.sendable(staged, session)) {
                return Ok(staged);
            }
        }
        Ok(None)
    }

    /// A plan of stages as nodes carry it out; `None`: they cannot.
    fn sendable(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        session: &dyn Session,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let options = self.nodes.for_nodes(ConfigOptions::clone(session.config_options()));
        let plan = spilling(in_place(plan)?, &options)?;
        let state = session.as_any().downcast_ref::<SessionState>();
        let Some((state, distributed)) = state.zip(distributed(&plan)) else { return Ok(None) };
        by_cut::check(distributed)?;
        Ok(can_be_sent(distributed, state)?.then_some(plan))
    }

    /// The plan with the keys of its joins that are known before it runs.
    async fn with_keys(
        &self,
        mut plan: LogicalPlan,
        session: &dyn Session,
        mut shown: Option<&mut Shown>,
    ) -> Result<LogicalPlan> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return Ok(plan);
        };
        let mut before = Vec::new();
        while before.len() < reduce::MAX_JOINS
            && let Some(asked) = reduce::next(&plan, &before, self.ask_keys_from)?
        {
            let made = self.planned(&asked.query, session, None).await?;
            if shown.as_ref().is_none_or(|shown| shown.runs())
                && let Some(keys) = reduce::keys_of(Arc::clone(&made), state.task_ctx()).await?
            {
                plan = asked.put(plan, keys, state)?;
            }
            if let Some(shown) = &mut shown {
                shown.add(made).await?;
            }
            before.push(asked);
        }
        Ok(plan)
    }

    /// The plan with the values of its subqueries.
    async fn with_values(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
        mut shown: Option<&mut Shown>,
    ) -> Result<LogicalPlan> {
        let mut values = Vec::new();
        for subquery in subqueries::found(plan)? {
            // One of parts that are computed once, or of the rows of a recursion.
            if !subquery.outer_ref_columns.is_empty() || Reaches::of(&subquery.subquery)?.is_here {
                continue;
            }
            // It may have subqueries itself.
            let inner = shown.as_deref_mut();
            let made = self.planned(&subquery.subquery, session, inner).await?;
            let value = match shown.as_ref().is_none_or(|shown| shown.runs()) {
                true => subqueries::value_of(Arc::clone(&made), session.task_ctx()).await?,
                false => subqueries::stand_in(&subquery)?,
            };
            if let Some(shown) = &mut shown {
                shown.add(made).await?;
            }
            values.push((subquery, value));
        }
        match values.is_empty() {
            true => Ok(plan.clone()),
            false => subqueries::replaced(plan, &values),
        }
    }
}

/// Refuses joins by the order of rows which several nodes have, wherever they were written: in a
/// view or a macro, too.
fn check_positions(plan: &LogicalPlan) -> Result<()> {
    let mut table = None;
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Join(join) = node else { return Ok(TreeNodeRecursion::Continue) };
        if !pairs_rows(join) {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
                && let Some(sharded) = provider.downcast_ref::<ShardedTable>()
                && sharded.placing.cut != Cut::Replicated
                && sharded.placing.nodes > 1
            {
                table = Some(sharded.name.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match table {
        Some(table) => Err(in_any_order(&table).into()),
        None => Ok(()),
    }
}

/// What keeps a plan from running at nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Reaches {
    /// It reads a table of the cluster: rows of others have the order in which they are written.
    nodes: bool,
    /// It has a recursion, which would run a stage again for each step, or its rows; a part that is
    /// computed once for several places; or a subquery that depends on the row around it.
    is_here: bool,
    /// It has an operator of the database's own planner.
    is_own: bool,
}

impl Reaches {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut reaches = Self::default();
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => {
                    if let Ok(provider) = source_as_provider(&scan.source) {
                        reaches.nodes |= provider.is::<ShardedTable>();
                        reaches.is_here |= provider.is::<CteWorkTable>();
                    }
                }
                LogicalPlan::RecursiveQuery(_) => reaches.is_here = true,
                LogicalPlan::Extension(_) => {
                    reaches.is_own = true;
                    reaches.is_here |= part_of(node).is_some();
                }
                _ => {}
            }
            node.apply_expressions(|expr| {
                let depends = |part: &Expr| match part {
                    Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                    _ => false,
                };
                reaches.is_here |= expr.exists(|part| Ok(depends(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(reaches)
    }

    /// Whether nodes may be able to carry the plan out.
    fn runs_at_nodes(self) -> bool {
        self.nodes && !self.is_here && !self.is_own
    }
}

/// Tries to plan parts of a statement in stages.
struct Attempts<'a> {
    planner: &'a ClusterPlanner,
    session: &'a dyn Session,
    /// Those that may still be made: each asks nodes for the values that it needs.
    left: AtomicUsize,
    /// What the statement shows of these.
    shown: Option<Mutex<Shown>>,
}

impl<'a> Attempts<'a> {
    /// The most parts of a statement.
    const MOST: usize = 16;

    fn new(planner: &'a ClusterPlanner, session: &'a dyn Session, shown: Option<&Shown>) -> Self {
        let shown = shown.map(|shown| Mutex::new(shown.of_part()));
        Self { planner, session, left: AtomicUsize::new(Self::MOST), shown }
    }

    fn shown(self) -> Option<Shown> {
        self.shown.map(Mutex::into_inner)
    }

    async fn staged(&self, plan: &LogicalPlan) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_left = |left: usize| left.checked_sub(1);
        if !Reaches::of(plan)?.runs_at_nodes()
            || self.left.fetch_update(Relaxed, Relaxed, is_left).is_err()
        {
            return Ok(None);
        }
        let (planner, session) = (self.planner, self.session);
        let mut shown = self.shown.as_ref().map(|shown| shown.lock().of_part());
        let known = planner.with_values(plan, session, shown.as_mut()).await?;
        let known = planner.with_keys(known, session, shown.as_mut()).await?;
        let made = planner.in_stages(&known, session).await?;
        if let (Some(_), Some(all), Some(shown)) = (&made, &self.shown, shown) {
            all.lock().extend(shown);
        }
        Ok(made)
    }
}

impl Stages for Attempts<'_> {
    fn staged<'a>(
        &'a self,
        plan: &'a LogicalPlan,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn ExecutionPlan>>>> {
        Box::pin(self.staged(plan))
    }
}

/// The part of a plan that runs at the nodes: the whole plan, or what EXPLAIN ANALYZE measures.
fn distributed(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    match plan.is::<DistributedExec>() {
        true => Some(plan),
        false => plan.children().into_iter().find(|child| child.is::<DistributedExec>()),
    }
}

/// Whether nodes would run exactly the stages of a plan. If so, the statement's settings have what
/// its functions carry.
fn can_be_sent(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<bool> {
    let Some(settings) = state.config_options().extensions.get::<SessionSettings>() else {
        return Ok(false);
    };
    let stages = stages(plan)?;
    let mut functions = settings.functions.lock().clone();
    for stage in &stages {
        if !has_known_functions(stage, &mut functions)? {
            return Ok(false);
        }
    }
    let mut with_functions = state.clone();
    for function in functions.values().filter_map(Carried::function) {
        with_functions.register_udf(Arc::new(function))?;
    }
    let context = with_functions.task_ctx();
    // What cannot be written, or not be read, is not sent.
    if !stages.iter().all(|stage| comes_back(stage, &context).unwrap_or(false)) {
        return Ok(false);
    }
    *settings.functions.lock() = functions;
    Ok(true)
}

/// The stages right below the part that stays here; each has those below it.
fn stages(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let mut stages = Vec::new();
    plan.apply(|node| {
        let Some(boundary) = node.as_network_boundary() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        stages.extend(boundary.input_stage().local_plan().cloned());
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(stages)
}

/// Whether a plan that was written is read as the same plan.
fn comes_back(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<bool> {
    let plan = Arc::clone(plan).transform_up(|node| {
        match node.downcast_ref::<DistributedLeafExec>().and_then(|leaf| leaf.variants().first()) {
            Some(first) => Ok(Transformed::yes(Arc::clone(first))),
            None => Ok(Transformed::no(node)),
        }
    });
    let plan = plan?.data;
    let codec = DistributedCodec::new_combined_with_user(context.session_config());
    let converter = DeduplicatingProtoConverter::default();
    let bytes = physical_plan_to_bytes_with_proto_converter(Arc::clone(&plan), &codec, &converter)?;
    let converter = DeduplicatingProtoConverter::default();
    let read = physical_plan_from_bytes_with_proto_converter(&bytes, context, &codec, &converter)?;
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    Ok(text(&plan) == text(&read) && plan.schema() == read.schema())
}

/// Whether nodes know all functions of a plan by their names, or by what `functions` gets of them.
fn has_known_functions(plan: &Arc<dyn ExecutionPlan>, functions: &mut ByName) -> Result<bool> {
    let base = swingdb_sql::engine::base_state()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let aggregate = |function: &AggregateUDF| {
        base.aggregate_functions().get(function.name()).is_some_and(|known| **known == *function)
    };
    let mut known = true;
    plan.apply(|node| {
        if let Some(node) = node.downcast_ref::<AggregateExec>() {
            known &= node.aggr_expr().iter().all(|expr| aggregate(expr.fun()));
        }
        let windows = match node.downcast_ref::<WindowAggExec>() {
            Some(node) => node.window_expr(),
            None => {
                node.downcast_ref::<BoundedWindowAggExec>().map_or(&[][..], |n| n.window_expr())
            }
        };
        known &= windows.iter().all(|expr| has_known_window(expr.as_ref(), base, &aggregate));
        node.apply_expressions(&mut |expr| {
            expr.apply(|expr| {
                known &= is_known(expr, base, functions);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(known)
}

fn is_known(expr: &Arc<dyn PhysicalExpr>, base: &SessionState, functions: &mut ByName) -> bool {
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        // That a computed value is one of an ENUM is not written.
        if call.fun().name() == "typeof" {
            return false;
        }
        if let Some(known) = base.scalar_functions().get(call.fun().name()) {
            return **known == *call.fun();
        }
        let carried = Carried::of(call.fun());
        return carried.is_some_and(|carried| functions::add(functions, call.name(), carried));
    }
    if let Some(call) = expr.downcast_ref::<HigherOrderFunctionExpr>() {
        let known = base.higher_order_functions().get(call.fun().name());
        return known.is_some_and(|known| **known == *call.fun());
    }
    true
}

/// What DataFusion 55.2 does not write of a window's function, as it is shown.
const NOT_WRITTEN: [&str; 3] = ["ignore_nulls: true", "is_reversed: true", "filter: Some("];

fn has_known_window(
    expr: &dyn WindowExpr,
    base: &SessionState,
    aggregate: &dyn Fn(&AggregateUDF) -> bool,
) -> bool {
    let shown = format!("{expr:?}");
    if NOT_WRITTEN.iter().any(|part| shown.contains(part)) {
        return false;
    }
    let any = expr.as_any();
    if let Some(expr) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        return aggregate(expr.get_aggregate_expr().fun());
    }
    if let Some(expr) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
        return aggregate(expr.get_aggregate_expr().fun());
    }
    let Some(expr) = any.downcast_ref::<StandardWindowExpr>() else { return false };
    let function = expr.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
    function.is_some_and(|function| {
        let known = base.window_functions().get(function.fun().name());
        known.is_some_and(|known| known == function.fun())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_spill_by_the_least_memory() {
        for (own, of_nodes, expected) in [
            (Some(1000), None, Some(1000)),
            (Some(1000), Some(500), Some(500)),
            (Some(1000), Some(2000), Some(1000)),
            (None, Some(500), Some(500)),
            (None, None, None),
        ] {
            let (nodes, mut options) = (Nodes::default(), ConfigOptions::new());
            nodes.set(Vec::new(), of_nodes);
            if let Some(own) = own {
                options.extensions.insert(MemoryLeft(Arc::new(GreedyMemoryPool::new(own))));
            }
            let options = nodes.for_nodes(options);
            let left = options.extensions.get::<MemoryLeft>();
            let limit = left.and_then(|left| match left.0.memory_limit() {
                MemoryLimit::Finite(bytes) => Some(bytes),
                _ => None,
            });
            assert_eq!(limit, expected, "{own:?} {of_nodes:?}");
        }
    }

    #[test]
    fn rules_that_are_left_out_are_there() {
        let base = swingdb_sql::engine::base_state().unwrap();
        let rules = base.physical_optimizers();
        for name in WITHIN_ONE_PROCESS {
            assert!(rules.iter().any(|rule| rule.name() == name), "{name}");
        }
    }
}
