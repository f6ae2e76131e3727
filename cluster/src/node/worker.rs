//! Parts of plans that run at a node: the sessions in which they do, and what they read.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use swingdb_functions::bounded::MemoryLeft;
use swingdb_operators::grace_join::GraceHashJoinExec;
use swingdb_operators::shared_join::SharedHashJoinExec;
use swingdb_operators::top_of_groups::TopOfGroupsExec;

use crate::client::Client;
use crate::joins;
use crate::local_shuffle::LocalShuffle;
use crate::node::Node;
use crate::node::whole_groups::at_node;
use crate::scan::{LocalNode, Reach, ShardScan};
use crate::settings::SessionSettings;
use crate::top_of_groups;
use crate::wire::version;

/// The first byte of a [`ShardScan`].
const SCAN: u8 = 1;
/// The first byte of a [`LocalShuffle`].
const SHUFFLE: u8 = 2;
/// The first byte of a [`TopOfGroupsExec`].
const TOP_OF_GROUPS: u8 = 3;
/// The first byte of a [`SharedHashJoinExec`].
const SHARED_JOIN: u8 = 4;
/// The first byte of one that is `x NOT IN (...)`.
const SHARED_NOT_IN: u8 = 5;
/// The first byte of a [`GraceHashJoinExec`].
const GRACE_JOIN: u8 = 6;

/// Writes and reads the operators of plans that are the database's, or this crate's.
#[derive(Debug)]
pub struct ScanCodec;

impl PhysicalExtensionCodec for ScanCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match buf.split_first() {
            Some((&SCAN, bytes)) => {
                Ok(Arc::new(ShardScan::from_bytes(bytes, ctx, self, proto_converter)?))
            }
            Some((&SHUFFLE, bytes)) => {
                let read = LocalShuffle::from_bytes(bytes, inputs, ctx, self, proto_converter)?;
                Ok(Arc::new(read))
            }
            Some((&TOP_OF_GROUPS, bytes)) => {
                Ok(Arc::new(top_of_groups::from_bytes(bytes, inputs, ctx, self, proto_converter)?))
            }
            Some((&kind @ (SHARED_JOIN | SHARED_NOT_IN), bytes)) => {
                let join = joins::from_bytes(bytes, inputs, ctx, self, proto_converter)?;
                Ok(Arc::new(SharedHashJoinExec::described_by(&join, kind == SHARED_NOT_IN)?))
            }
            Some((&GRACE_JOIN, bytes)) => {
                let join = joins::from_bytes(bytes, inputs, ctx, self, proto_converter)?;
                let refused = || DataFusionError::Execution("a join that cannot spill".to_string());
                Ok(Arc::new(GraceHashJoinExec::try_new(&join)?.ok_or_else(refused)?))
            }
            _ => Err(DataFusionError::Execution("an operator of another version".to_string())),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(scan) = node.downcast_ref::<ShardScan>() {
            buf.push(SCAN);
            buf.extend(scan.to_bytes(self, proto_converter)?);
            return Ok(());
        }
        if let Some(shuffle) = node.downcast_ref::<LocalShuffle>() {
            buf.push(SHUFFLE);
            buf.extend(shuffle.to_bytes(self, proto_converter)?);
            return Ok(());
        }
        if let Some(top) = node.downcast_ref::<TopOfGroupsExec>() {
            buf.push(TOP_OF_GROUPS);
            buf.extend(top_of_groups::to_bytes(top, self, proto_converter)?);
            return Ok(());
        }
        if let Some(shared) = node.downcast_ref::<SharedHashJoinExec>() {
            buf.push(if shared.null_aware() { SHARED_NOT_IN } else { SHARED_JOIN });
            buf.extend(joins::to_bytes(shared.join(), self, proto_converter)?);
            return Ok(());
        }
        if let Some(grace) = node.downcast_ref::<GraceHashJoinExec>() {
            buf.push(GRACE_JOIN);
            buf.extend(joins::to_bytes(grace.join(), self, proto_converter)?);
            return Ok(());
        }
        let message = format!("{} cannot be sent to a node", node.name());
        Err(DataFusionError::NotImplemented(message))
    }
}

/// What runs parts of plans at a node.
pub fn worker(node: &Arc<Node>, client: &Client) -> Worker {
    let (node, client) = (Arc::clone(node), client.clone());
    let make = move |context: WorkerQueryContext| {
        let (node, client) = (Arc::clone(&node), client.clone());
        async move { session(context, node, client) }
    };
    Worker::from_session_builder(make).with_version(version())
}

/// A session with the database's functions, and the settings of the session that asks.
fn session(context: WorkerQueryContext, node: Arc<Node>, client: Client) -> Result<SessionState> {
    let base = swingdb_sql::engine::base_state()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let WorkerQueryContext { mut builder, headers } = context;
    let mut config = builder
        .config()
        .take()
        .unwrap_or_default()
        .with_distributed_option_extension_from_headers::<SessionSettings>(&headers)?
        .with_distributed_user_codec(ScanCodec)
        .with_distributed_channel_resolver(client.clone())
        .with_distributed_worker_plan_rewrite_handler(at_node);
    config.set_extension(Arc::new(Reach(client)));
    let settings = config.options().extensions.get::<SessionSettings>();
    let settings = settings.cloned().unwrap_or_default();
    config.set_extension(Arc::new(LocalNode(Arc::clone(&node))));
    let time_zone = Some(settings.time_zone).filter(|zone| !zone.is_empty());
    let shared = base.config().options();
    let options = config.options_mut();
    // The sizes of batches and the like, as in sessions of the database.
    options.execution.batch_size = shared.execution.batch_size;
    options.execution.target_partitions = shared.execution.target_partitions;
    // Exchanges that go to a disk would not end otherwise.
    options.execution.max_spill_file_size_bytes = shared.execution.max_spill_file_size_bytes;
    // A node has the keys of its shards, out of the whole range: an array for all of them takes as
    // long to clear at each node as in one database, for a part of the rows.
    options.execution.perfect_hash_join_small_build_threshold =
        shared.execution.perfect_hash_join_small_build_threshold / settings.shards.max(1);
    options.execution.perfect_hash_join_min_key_density =
        shared.execution.perfect_hash_join_min_key_density;
    options.execution.skip_physical_aggregate_schema_check =
        shared.execution.skip_physical_aggregate_schema_check;
    options.execution.time_zone = time_zone;
    // A copy takes less time than the functions' names would take to be registered anew, which is
    // done for a limit of memory alone.
    let mut state = base.clone();
    *state.config_mut() = config;
    state = match &settings.budget {
        Some(budget) => node.budgets.limited(&state, Some(budget))?,
        None => {
            let pool = Arc::clone(&state.runtime_env().memory_pool);
            state.config_mut().options_mut().extensions.insert(MemoryLeft(pool));
            state
        }
    };
    for carried in settings.functions.lock().values() {
        let function = carried.function().ok_or_else(|| {
            DataFusionError::NotImplemented(format!("this node cannot make {carried:?}"))
        })?;
        state.register_udf(Arc::new(function))?;
    }
    Ok(state)
}
