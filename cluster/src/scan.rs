//! Tables of a cluster as the query engine sees them: [`ShardedTable`], [`ShardScan`].
//!
//! A scan reads a list of shards. A shard of the process that runs the scan is read over the
//! process's own memory, any other over the network: so the answer does not depend on where a part
//! of a plan runs, only its speed does.
//!
//! A condition on the column of the cut leaves out the shards that cannot have such rows
//! ([`prune`](crate::prune)). A replicated table has one shard for each node, and one is read: that
//! of the process itself, else the first.
//!
//! A join tells the scan of its larger side which keys it has found, where both run in one task.
//!
//! A shard has as many partitions as the session has threads. Read locally, they share its parts;
//! read over the network, the first has all rows, and the others have none.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Constraint, Constraints, DataFusionError, Result, ScalarValue, Statistics,
};
use datafusion::execution::{FunctionRegistry, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, StatisticsArgs,
};
use datafusion::prelude::SessionConfig;
use datafusion_proto::bytes::Serializeable;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use futures::{FutureExt, StreamExt, TryStreamExt};
use prost::Message;
use serde::{Deserialize, Serialize};
use swingdb_functions::keys::bit_set;
use swingdb_sql::engine::{
    Spread, SpreadBy, left_by, scan_with_whole_keys, with_running_conditions,
};
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::cut::Cut;
use crate::node::Node;
use crate::prune::{Placing, is_equal_by_bytes};
use crate::settings::SessionSettings;
use crate::wire::{Budget, Bytes, Scan, schema_bytes, schema_of};

/// Where the rows of a table are that one node has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// Which of the cluster's nodes has it.
    pub place: usize,
    /// The node's address: `host:port`.
    pub node: String,
    /// Identifies its process.
    pub process: String,
    /// The number of the snapshot.
    pub hold: u64,
}

/// What all parts of a scan share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Said {
    table: String,
    projection: Vec<usize>,
    filters: Vec<Bytes>,
    limit: Option<usize>,
    time_zone: Option<String>,
    budget: Option<Budget>,
    /// Partitions of each shard.
    partitions: usize,
    /// Shards that there is room for: all parts of a scan have the same number of partitions.
    room: usize,
    /// The shards that are read; of a replicated table, one of these.
    shards: Vec<Shard>,
    /// The nodes whose shards the tasks of a stage share, in turn. All scans that have to stay
    /// together have the same.
    slots: Vec<usize>,
    /// How many nodes the cluster has.
    nodes: usize,
    cut: Cut,
    /// The values of the cut's bounds, which are for who plans.
    #[serde(skip)]
    bounds: Vec<ScalarValue>,
    /// The columns that come out.
    schema: Bytes,
}

/// The process's node, in the configuration of sessions that run parts of plans.
pub struct LocalNode(pub Arc<Node>);

/// How sessions reach other nodes.
pub struct Reach(pub Client);

/// A table of a cluster.
#[derive(Debug)]
pub struct ShardedTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// Where its rows are.
    pub shards: Vec<Shard>,
    /// What is known of the rows of each shard; of one, if all have all.
    pub statistics: Vec<Statistics>,
    /// Its primary key.
    pub constraints: Constraints,
    /// How its rows are dealt out.
    pub placing: Placing,
}

impl ShardedTable {
    /// The constraint of a primary key.
    pub fn key(columns: &[usize]) -> Constraints {
        let key = (!columns.is_empty()).then(|| Constraint::PrimaryKey(columns.to_vec()));
        Constraints::new_unverified(key.into_iter().collect())
    }

    /// What is known of the rows of some shards.
    fn known_of(&self, shards: &[Shard]) -> Result<Statistics> {
        match self.placing.cut {
            Cut::Replicated => Ok(self.statistics.first().cloned().unwrap_or_default()),
            _ => {
                let some = || shards.iter().filter_map(|shard| self.statistics.get(shard.place));
                let mut known = Statistics::try_merge_iter(some(), &self.schema)?;
                // The value of a cut is at one node.
                if let Some(cut) = self.placing.cut.column()
                    && let Some((column, _)) = self.schema.column_with_name(cut)
                {
                    let of = |one: &Statistics| one.column_statistics[column].distinct_count;
                    let sum = some().map(of).reduce(|a, b| a.add(&b)).unwrap_or_default();
                    known.column_statistics[column].distinct_count = sum.to_inexact();
                }
                Ok(known)
            }
        }
    }

    /// The shards that can have rows which fulfil these conditions.
    fn asked(&self, filters: &[Expr]) -> Vec<Shard> {
        let field = self.placing.cut.column().map(|column| self.schema.field_with_name(column));
        let Some(Ok(field)) = field else { return self.shards.clone() };
        let places = self.placing.places(filters, field);
        let asked = self.shards.iter().filter(|shard| places.contains(&shard.place));
        asked.cloned().collect()
    }
}

/// Where the rows of a table of a cluster are, for the order of joins.
pub(crate) fn spread_of(provider: &dyn TableProvider) -> Option<Spread> {
    let table = provider.downcast_ref::<ShardedTable>()?;
    let cut = &table.placing.cut;
    let field = cut.column().and_then(|column| table.schema.field_with_name(column).ok());
    let by = match field.filter(|field| is_equal_by_bytes(field)) {
        _ if *cut == Cut::Replicated => SpreadBy::Everywhere,
        Some(field) => SpreadBy::Column {
            column: field.name().clone(),
            kind: format!("{:?} {}", cut.by(""), field.data_type()),
        },
        None => SpreadBy::Anyhow,
    };
    Some(Spread { machines: table.placing.nodes, by })
}

/// A condition as bytes, if a node reads the very same from them.
fn written(filter: &Expr, context: &TaskContext) -> Option<Bytes> {
    let bytes = filter.to_bytes().ok()?;
    let read = Expr::from_bytes_with_ctx(&bytes, context).ok()?;
    (read == *filter).then(|| Bytes(bytes.to_vec()))
}

/// The functions that both sides have.
fn known_functions() -> Result<Arc<TaskContext>> {
    static KNOWN: std::sync::OnceLock<Arc<TaskContext>> = std::sync::OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(Arc::clone(known));
    }
    let state = swingdb_sql::engine::base_state()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let mut state = state.clone();
    state.register_udf(Arc::clone(bit_set::function()))?;
    Ok(Arc::clone(KNOWN.get_or_init(|| state.task_ctx())))
}

#[async_trait]
impl TableProvider for ShardedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        self.known_of(&self.shards).ok()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let context = known_functions()?;
        // As they come to `scan`: without the name of the table, which may not be read as it is.
        let answer = |filter: &&Expr| match written(&unnormalize_col((*filter).clone()), &context) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = known_functions()?;
        let shards = self.asked(conditions);
        let filters = conditions.iter().map(|filter| {
            written(filter, &context).ok_or_else(|| {
                DataFusionError::Internal(format!("a condition that cannot be sent: {filter}"))
            })
        });
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let all = || (0..self.schema.fields().len()).collect::<Vec<_>>();
        let projection = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&projection)?);
        let mut statistics = self.known_of(&shards)?;
        if !conditions.is_empty() {
            statistics = left_by(statistics, &self.schema, conditions);
        }
        statistics = statistics.project(Some(&projection));
        let sizes = statistics.column_statistics.iter().map(|column| column.byte_size);
        statistics.total_byte_size = sizes.fold(Precision::Exact(0), |sum, size| sum.add(&size));
        if let Some(limit) = limit
            && statistics.num_rows.get_value().is_none_or(|rows| *rows > limit)
        {
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(limit);
        }
        let settings = state.config_options().extensions.get::<SessionSettings>();
        let said = Said {
            table: self.name.clone(),
            schema: schema_bytes(&schema),
            projection,
            filters,
            limit,
            time_zone: state.config_options().execution.time_zone.clone(),
            budget: settings.and_then(|settings| settings.budget.clone()),
            partitions: state.config().target_partitions().max(1),
            room: if self.placing.cut == Cut::Replicated { 1 } else { shards.len() },
            slots: shards.iter().map(|shard| shard.place).collect(),
            shards,
            nodes: self.placing.nodes,
            cut: self.placing.cut.clone(),
            bounds: self.placing.bounds.clone(),
        };
        Ok(Arc::new(ShardScan::new(said, schema, Arc::new(statistics))))
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct ShardScan {
    said: Said,
    statistics: Arc<Statistics>,
    /// What becomes known while the plan runs: only rows that fulfil these are wanted.
    running: Arc<[Arc<dyn PhysicalExpr>]>,
    properties: Arc<PlanProperties>,
    /// The plans for the shards of this process, made by the first partition.
    local: Arc<Vec<OnceCell<Arc<dyn ExecutionPlan>>>>,
    /// What came from shards of other processes.
    received: ExecutionPlanMetricsSet,
}

impl ShardScan {
    fn new(said: Said, schema: SchemaRef, statistics: Arc<Statistics>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(said.room * said.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let local = Arc::new((0..said.room).map(|_| OnceCell::new()).collect());
        let (running, received) = (Arc::default(), ExecutionPlanMetricsSet::new());
        Self { said, statistics, running, properties, local, received }
    }

    /// With conditions that become known while the plan runs.
    fn told(self, running: Arc<[Arc<dyn PhysicalExpr>]>) -> Self {
        Self { running, ..self }
    }

    /// Where its rows are.
    pub fn shards(&self) -> &[Shard] {
        &self.said.shards
    }

    /// Whether each node has all rows.
    pub fn is_replicated(&self) -> bool {
        self.said.cut == Cut::Replicated
    }

    /// Whether it may stop before the end: which rows it gives depends on who reads them.
    pub fn has_limit(&self) -> bool {
        self.said.limit.is_some()
    }

    /// How its rows are dealt out.
    pub fn cut(&self) -> &Cut {
        &self.said.cut
    }

    /// The values of the bounds of a range cut.
    pub fn bounds(&self) -> &[ScalarValue] {
        &self.said.bounds
    }

    /// How many nodes the cluster has.
    pub fn nodes(&self) -> usize {
        self.said.nodes
    }

    /// The nodes whose shards its tasks share.
    pub fn slots(&self) -> &[usize] {
        &self.said.slots
    }

    /// The same scan, whose tasks share the shards of these nodes; they include its own.
    pub fn with_slots(&self, slots: Vec<usize>) -> Self {
        let said = Said { room: slots.len(), slots, ..self.said.clone() };
        let scan = Self::new(said, self.schema(), Arc::clone(&self.statistics));
        scan.told(Arc::clone(&self.running))
    }

    /// The same scan, if its rows are those of one shard of this process, and no two of its
    /// partitions can have rows with one value of a column.
    pub fn with_whole_keys(&self, column: usize, config: &SessionConfig) -> Result<Option<Self>> {
        let Some(local) = config.get_extension::<LocalNode>() else { return Ok(None) };
        let [shard] = self.said.shards.as_slice() else { return Ok(None) };
        if self.said.room != 1 || local.0.process != shard.process {
            return Ok(None);
        }
        // A table of a snapshot is planned at once; what reads it then has the same plan.
        let (asked, options) = (self.asked(shard), config.options());
        let made = || told_plan(&local.0, &asked, &self.running, options);
        let planned = self.local[0].get_or_try_init(made);
        let Some(plan) = planned.now_or_never().transpose()? else { return Ok(None) };
        let Some(whole) = scan_with_whole_keys(plan, column)? else { return Ok(None) };
        let mut scan = Self::new(self.said.clone(), self.schema(), Arc::clone(&self.statistics));
        let partitions = |plan: &dyn ExecutionPlan| plan.output_partitioning().partition_count();
        // Each partition is one of the table's, in its order: such groups need no hash table.
        if let Some(order) = whole.output_ordering()
            && partitions(whole.as_ref()) <= partitions(&scan)
        {
            let ordered = EquivalenceProperties::new_with_orderings(self.schema(), [order.clone()]);
            let properties = scan.properties.as_ref().clone();
            scan.properties = Arc::new(properties.with_eq_properties(ordered));
        }
        let local = Arc::new(vec![OnceCell::new_with(Some(whole))]);
        Ok(Some(Self { local, ..scan.told(Arc::clone(&self.running)) }))
    }

    /// The scans of `tasks` tasks, which together are this one; task `n` reads the shard of slot
    /// `n`, and further ones where there are fewer tasks than slots.
    pub fn for_tasks(&self, tasks: usize) -> Vec<Arc<dyn ExecutionPlan>> {
        let slots = &self.said.slots;
        let room = slots.len().div_ceil(tasks);
        let part = |task: usize| {
            let own = slots.iter().skip(task).step_by(tasks);
            let shards =
                own.filter_map(|place| self.said.shards.iter().find(|s| s.place == *place));
            let shards = shards.cloned().collect();
            let said = Said { shards, room, ..self.said.clone() };
            let statistics = Arc::new(self.statistics.as_ref().clone().to_inexact());
            let scan = Self::new(said, self.schema(), statistics).told(Arc::clone(&self.running));
            Arc::new(scan) as Arc<dyn ExecutionPlan>
        };
        (0..tasks).map(part).collect()
    }

    /// As bytes.
    pub fn to_bytes(
        &self,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Vec<u8>> {
        let statistics = crate::wire::statistics_bytes(&self.statistics);
        let running = self.running.iter().map(|condition| {
            let written = converter.physical_expr_to_proto(condition, codec)?;
            Ok(Bytes(written.encode_to_vec()))
        });
        let running = running.collect::<Result<Vec<_>>>()?;
        serde_json::to_vec(&(&self.said, statistics, running))
            .map_err(|e| DataFusionError::External(e.into()))
    }

    /// From bytes.
    pub fn from_bytes(
        bytes: &[u8],
        context: &TaskContext,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Self> {
        let (said, statistics, running) =
            serde_json::from_slice::<(Said, Bytes, Vec<Bytes>)>(bytes)
                .map_err(|e| DataFusionError::External(e.into()))?;
        let schema = schema_of(&said.schema).map_err(DataFusionError::Execution)?;
        let context = PhysicalPlanDecodeContext::new(context, codec);
        let running = running.iter().map(|bytes| {
            let read = PhysicalExprNode::decode(bytes.0.as_slice())
                .map_err(|e| DataFusionError::External(e.into()))?;
            converter.proto_to_physical_expr(&read, &schema, &context)
        });
        let running = running.collect::<Result<Vec<_>>>()?;
        let statistics = crate::wire::statistics_of(&statistics);
        let statistics = Arc::new(statistics.map_err(DataFusionError::Execution)?);
        let is_one = said.cut == Cut::Replicated;
        if said.partitions == 0 || !is_one && said.shards.len() > said.room {
            return Err(DataFusionError::Execution("a scan without room".to_string()));
        }
        Ok(Self::new(said, schema, statistics).told(running.into()))
    }

    fn asked(&self, shard: &Shard) -> Scan {
        let said = &self.said;
        Scan {
            process: shard.process.clone(),
            hold: shard.hold,
            table: said.table.clone(),
            projection: said.projection.clone(),
            filters: said.filters.clone(),
            limit: said.limit,
            time_zone: said.time_zone.clone(),
            budget: said.budget.clone(),
        }
    }
}

/// The plan that reads a table of a snapshot at its node.
pub async fn plan_at(
    node: &Node,
    scan: &Scan,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    if scan.process != node.process {
        let message = "a snapshot of a process that has ended; open a new session".to_string();
        return Err(crate::error::Error::Unsupported(message).into());
    }
    let hold = node.held(scan.hold)?;
    let connection = &hold.connection;
    let outside = |error: swingdb::Error| DataFusionError::External(Box::new(error));
    let provider = connection.table_provider("main", &scan.table).map_err(outside)?;
    let mut state = Arc::unwrap_or_clone(connection.engine_state().map_err(outside)?);
    if scan.budget.is_some() {
        state = node.budgets.limited(&state, scan.budget.as_ref())?;
    }
    state.config_mut().options_mut().execution.time_zone = scan.time_zone.clone();
    state.register_udf(Arc::clone(bit_set::function()))?;
    let context = state.task_ctx();
    let filters = scan.filters.iter().map(|bytes| Expr::from_bytes_with_ctx(&bytes.0, &context));
    let filters = filters.collect::<Result<Vec<_>>>()?;
    let plan = provider.scan(&state, Some(&scan.projection), &filters, scan.limit).await?;
    Ok((plan, context))
}

/// The same, which is told what becomes known while it runs.
async fn told_plan(
    node: &Node,
    scan: &Scan,
    running: &[Arc<dyn PhysicalExpr>],
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (plan, _) = plan_at(node, scan).await?;
    let told = with_running_conditions(plan, running, options);
    told.map_err(|error| DataFusionError::External(Box::new(error)))
}

impl DisplayAs for ShardScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.said.shards.iter().map(|shard| shard.node.as_str());
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        write!(f, "ShardScan: table={}, ", self.said.table)?;
        match self.is_replicated() {
            true => write!(f, "one of nodes=[{nodes}]")?,
            false => write!(f, "{} of {} nodes=[{nodes}]", self.said.shards.len(), self.nodes())?,
        }
        write!(f, ", conditions={}", self.said.filters.len())?;
        if let Some(limit) = self.said.limit {
            write!(f, ", fetch={limit}")?;
        }
        for condition in self.running.iter() {
            write!(f, ", filter={condition}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ShardScan {
    fn name(&self) -> &str {
        "ShardScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for condition in self.running.iter() {
            recursion = f(condition)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }

    /// Takes conditions that become known while the plan runs, in plans for nodes. Rows that do not
    /// fulfil them may still come. Where a shard is read over the network nobody is told of them,
    /// and a join whose scan is in another task makes none.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let settings = config.extensions.get::<SessionSettings>();
        let is_wanted = matches!(phase, FilterPushdownPhase::Post)
            && settings.is_some_and(|settings| settings.for_stages)
            // Rows behind the first ones would take the places of those that are left out.
            && self.said.limit.is_none();
        let offered = result.parent_filters.iter().map(|offered| &offered.filter);
        let more = offered.filter(|condition| {
            is_wanted && DynamicFilterTracking::classify(condition).contains_dynamic_filter()
        });
        let running = self.running.iter().chain(more).cloned().collect::<Vec<_>>();
        let answer = FilterPushdownPropagation::all_unsupported(result);
        if running.len() == self.running.len() {
            return Ok(answer);
        }
        let scan = Self::new(self.said.clone(), self.schema(), Arc::clone(&self.statistics));
        Ok(answer.with_updated_node(Arc::new(scan.told(running.into()))))
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (slot, part) = (partition / self.said.partitions, partition % self.said.partitions);
        let schema = self.schema();
        let config = context.session_config();
        let local = config.get_extension::<LocalNode>();
        let shards = &self.said.shards;
        let is_here = |shard: &&Shard| local.as_ref().is_some_and(|l| l.0.process == shard.process);
        let shard = match self.is_replicated() {
            true => shards.iter().find(is_here).or(shards.first()),
            false => shards.get(slot),
        };
        let Some(shard) = shard else {
            return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
        };
        let scan = self.asked(shard);
        let here = is_here(&shard);
        if here && let Some(local) = local {
            let (plans, parts) = (Arc::clone(&self.local), self.said.partitions);
            let running = Arc::clone(&self.running);
            let rows = async move {
                let options = context.session_config().options();
                let made = || told_plan(&local.0, &scan, &running, options);
                let made = plans[slot].get_or_try_init(made);
                let plan = Arc::clone(made.await?);
                let all = plan.properties().output_partitioning().partition_count();
                let mine =
                    (part..all).step_by(parts).map(|n| plan.execute(n, Arc::clone(&context)));
                let mine = mine.collect::<Result<Vec<_>>>()?;
                Ok::<_, DataFusionError>(futures::stream::iter(mine).flatten())
            };
            let rows = futures::stream::once(rows).try_flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        if part > 0 {
            return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
        }
        let Some(reach) = config.get_extension::<Reach>() else {
            return Err(DataFusionError::Internal("a session that reaches no node".to_string()));
        };
        let node = shard.node.clone();
        let wanted = Arc::clone(&schema);
        let rows = async move {
            let rows = reach.0.scan(&node, &scan, wanted).await?;
            Ok::<_, DataFusionError>(rows)
        };
        let rows = futures::stream::once(rows).try_flatten();
        let received = BaselineMetrics::new(&self.received, partition);
        let rows = rows.map(move |batch| batch.map(|batch| batch.record_output(&received)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Those of the shards' own scans, where they are of this process.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.received.clone_inner();
        for plan in self.local.iter().filter_map(OnceCell::get) {
            let walked = plan.apply(|node| {
                if let (true, Some(of_scan)) = (node.children().is_empty(), node.metrics()) {
                    of_scan.iter().for_each(|metric| all.push(Arc::clone(metric)));
                }
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(walked.is_ok(), "nothing in it fails");
        }
        Some(all)
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let Some(_) = args.partition() else {
            return Ok(match self.running.is_empty() {
                true => Arc::clone(&self.statistics),
                false => Arc::new(self.statistics.as_ref().clone().to_inexact()),
            });
        };
        let mut part = self.statistics.as_ref().clone().to_inexact();
        if let Some(rows) = part.num_rows.get_value().copied() {
            let parts = self.properties.output_partitioning().partition_count().max(1);
            part.num_rows = Precision::Inexact(rows / parts);
        }
        Ok(Arc::new(part))
    }
}
