//! The query engine's part that all sessions share: functions, optimizer rules, memory.
//!
//! Building DataFusion's registries costs a noticeable part of a millisecond, so it is done once a
//! process, with the first statement; a session's state is a copy that shares them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use datafusion::catalog::TableProvider;
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::memory_pool::{MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use swingdb_common::error::Result;
use swingdb_common::runtime::{cancel, threads};
use swingdb_common::time::zones::Zone;
use swingdb_common::types::sql_names;
use swingdb_functions::aggregates::average::exact_average;
use swingdb_functions::aggregates::extremes::{greatest_of_groups, least_of_groups};
pub use swingdb_functions::aggregates::given::{
    AggregateFunction, Aggregation, StartAggregation, declared_types,
};
use swingdb_functions::aggregates::sum::checked_sum;
use swingdb_functions::bounded::MemoryLeft;

use crate::analyze::asof;
use crate::analyze::decorrelate::only_element::only_element;
use crate::ast::names::{CATALOG, SCHEMA};
use crate::bind::functions::once;
use crate::merge_shares::MergeShares;
pub use crate::nodes::materialize::{PartId, part_of, with_parts};
use crate::nodes::named_cast;
pub use crate::optimize::estimate::{expected, left_by};
pub use crate::optimize::moves::{Spread, SpreadBy, Spreads};
pub use crate::optimize::outer_joins::drops_unmatched;
use crate::options::temporary::TemporaryFiles;
use crate::options::{BATCH_ROWS, machine};
use crate::passes;
use crate::physical::dynamic_filters;
pub use crate::physical::grace_joins::{LargeTables, large_tables};
use crate::physical::query_planner::OwnOperators;
pub use crate::physical::whole_groups::{WholeKeys, scan_with_whole_keys, whole_groups};
use crate::plan::aggregate_calls::Aggregates;
use crate::plan::operators::Operators;
use crate::scan::distinct;
use crate::scan::table::SwingTable;
use crate::spill_files;

/// Bytes of the smaller side of a join up to which one thread builds its hash table.
const COLLECTED_BYTES: usize = 96 << 20;
/// Its rows, where bytes are not known.
const COLLECTED_ROWS: usize = 2_000_000;
/// Range of whole keys up to which a join uses an array instead of a hash table: 4 bytes a key.
const ARRAY_KEYS: usize = 8 << 20;
/// Share of a wider range that must be taken for that.
const ARRAY_DENSITY: f64 = 0.1;

/// What the sessions of one process share. A forked child makes its own: another thread of the
/// parent may have held a lock inside (of the memory pool, for one), and the child would wait for
/// it for ever.
struct Base {
    pid: u32,
    state: SessionState,
    next: OnceLock<Box<Base>>,
}

/// Takes samples of a table's columns of which nothing is known. Its statistics say what came out.
pub fn sample_columns(provider: &dyn TableProvider) {
    if let Some(table) = provider.downcast_ref::<SwingTable>() {
        distinct::sample_columns(table.table());
    }
}

/// A session state with the default configuration, to be copied and adjusted.
pub fn base_state() -> Result<&'static SessionState> {
    static FIRST: OnceLock<Box<Base>> = OnceLock::new();
    let pid = std::process::id();
    let mut cell = &FIRST;
    loop {
        let base = match cell.get() {
            Some(base) => base,
            None => {
                let made = Box::new(Base { pid, state: build_state()?, next: OnceLock::new() });
                cell.get_or_init(|| made)
            }
        };
        if base.pid == pid {
            return Ok(&base.state);
        }
        cell = &base.next;
    }
}

fn build_state() -> Result<SessionState> {
    cancel::reach_tasks();
    let files = TemporaryFiles::configured()?;
    let environment = runtime_env(default_memory_limit(), &files)?;
    let mut config = default_config(threads::configured()?);
    spill_files::configure(config.options_mut())?;
    files.carry(&mut config);
    functions_ask(&mut config, &environment);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(environment)
        .with_scalar_functions(scalar_functions())
        .with_higher_order_functions(swingdb_functions::of_lambdas())
        .with_aggregate_functions(aggregate_functions())
        .with_window_functions(swingdb_functions::of_windows())
        .with_expr_planners(expr_planners())
        .with_table_function_list(SessionStateDefaults::default_table_functions());
    let mut builder = builder
        .with_optimizer_rules(passes::optimizer_rules()?)
        .with_physical_optimizer_rules(passes::physical_rules()?);
    // After the engine's own rules: types must be settled.
    for rule in passes::analyzer_rules()? {
        builder = builder.with_analyzer_rule(rule);
    }
    let mut state = builder.with_query_planner(Arc::new(OwnOperators)).build();
    for (name, function) in swingdb_files::table::functions() {
        state.register_udtf(name, function);
    }
    Ok(state)
}

/// What plans operators of certain types: ours before the engine's.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Operators), Arc::new(Aggregates)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    planners
}

/// The engine's functions, and our own.
fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = SessionStateDefaults::default_scalar_functions();
    all.push(Arc::new(asof::mark()));
    all.push(Arc::new(only_element()));
    all.push(Arc::new(sql_names::type_of()));
    all.extend(swingdb_functions::of_rows(&aggregate_functions()).map(Arc::new));
    all.push(Arc::new(once::function()));
    all.push(Arc::new(named_cast::function()));
    all
}

/// The engine's functions, with a sum that does not wrap around, an exact average, and extremes
/// that know NaN.
fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    let mut all = SessionStateDefaults::default_aggregate_functions();
    all.retain(|function| !matches!(function.name(), "sum" | "min" | "max"));
    for average in all.iter_mut().filter(|function| function.name() == "avg") {
        *average = Arc::new(exact_average(Arc::clone(average)));
    }
    all.extend([checked_sum(), least_of_groups(), greatest_of_groups()].map(Arc::new));
    swingdb_functions::of_groups(&mut all);
    all
}

/// The configuration of a new session, whose statements may use so many threads.
fn default_config(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    let options = config.options_mut();
    // Identifiers keep their case; bind::identifiers matches them without regard to it.
    options.sql_parser.enable_ident_normalization = false;
    // 0.1 is a tenth, as in DuckDB, and not the nearest binary fraction.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_last".to_string();
    options.execution.time_zone = Some(Zone::UTC.to_string());
    // An ORDER BY is left out where nobody sees the order, not in each query of FROM.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // Beyond these a join is one for all threads (SharedJoins), or cut into partitions where it is
    // not known how many rows it has.
    options.optimizer.hash_join_single_partition_threshold = COLLECTED_BYTES;
    options.optimizer.hash_join_single_partition_threshold_rows = COLLECTED_ROWS;
    options.execution.perfect_hash_join_small_build_threshold = ARRAY_KEYS;
    options.execution.perfect_hash_join_min_key_density = ARRAY_DENSITY;
    // The engine derives whether `x IS TRUE` can be NULL in two ways that differ.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}

/// Memory the operators of all sessions may use together unless told otherwise: 80 % of what this
/// process may use.
pub fn default_memory_limit() -> usize {
    const FALLBACK: usize = 4 << 30;
    let total = machine::memory().and_then(|bytes| usize::try_from(bytes).ok());
    total.map_or(FALLBACK, |bytes| bytes / 5 * 4)
}

/// A session state whose operators and functions share `limit` bytes.
pub fn with_memory_limit(state: &SessionState, limit: usize) -> Result<SessionState> {
    let environment = runtime_env(limit, &TemporaryFiles::of(state.config()))?;
    let mut config = state.config().clone();
    functions_ask(&mut config, &environment);
    Ok(builder_of(state).with_config(config).with_runtime_env(environment).build())
}

/// A plan whose scans leave out what a join above them does not want, as far as that is known while
/// it runs. `conditions` are in the columns of the plan; rows that do not fulfil them may be left.
pub fn with_running_conditions(
    plan: Arc<dyn ExecutionPlan>,
    conditions: &[Arc<dyn PhysicalExpr>],
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(dynamic_filters::told(plan, conditions, config)?)
}

/// A session state whose operators write what does not fit into their memory as `files` says.
pub fn with_temporary_files(state: &SessionState, files: TemporaryFiles) -> Result<SessionState> {
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env());
    let environment =
        environment.with_disk_manager_builder(spill_files::disk(&files)).build_arc()?;
    let mut config = state.config().clone();
    files.carry(&mut config);
    Ok(builder_of(state).with_config(config).with_runtime_env(environment).build())
}

/// A builder of a state like this one, in which each name means the same function.
///
/// The engine's own builder takes the functions of a state in any order. Of two that have a name,
/// the later one gets it: `list_sum` is ours, and another name of the engine's `array_sum`.
pub fn builder_of(state: &SessionState) -> SessionStateBuilder {
    let mut builder = SessionStateBuilder::new_from_existing(state.clone());
    *builder.scalar_functions() =
        Some(in_order(state.scalar_functions(), |f: &ScalarUDF| (f.name(), f.aliases())));
    *builder.aggregate_functions() =
        Some(in_order(state.aggregate_functions(), |f: &AggregateUDF| (f.name(), f.aliases())));
    *builder.window_functions() =
        Some(in_order(state.window_functions(), |f: &WindowUDF| (f.name(), f.aliases())));
    *builder.higher_order_functions() =
        Some(in_order(state.higher_order_functions(), |f: &HigherOrderUDF| {
            (f.name(), f.aliases())
        }));
    builder
}

/// Functions in such an order that each name is that of the last one that has it.
fn in_order<F>(
    by_name: &HashMap<String, Arc<F>>,
    names: impl Fn(&F) -> (&str, &[String]),
) -> Vec<Arc<F>> {
    let mut sorted: Vec<&Arc<F>> = by_name.values().collect();
    sorted.sort_by(|a, b| names(a).0.cmp(names(b).0).then(Arc::as_ptr(a).cmp(&Arc::as_ptr(b))));
    sorted.dedup_by_key(|function| Arc::as_ptr(function));
    // Those that a function comes behind, by its address.
    let mut before: HashMap<*const F, Vec<&Arc<F>>> = HashMap::new();
    for &function in &sorted {
        let (name, aliases) = names(function);
        for name in std::iter::once(name).chain(aliases.iter().map(String::as_str)) {
            let owner = by_name.get(name).filter(|owner| !Arc::ptr_eq(owner, function));
            if let Some(owner) = owner {
                before.entry(Arc::as_ptr(owner)).or_default().push(function);
            }
        }
    }
    let (mut placed, mut ordered) = (HashSet::new(), Vec::with_capacity(sorted.len()));
    for function in sorted {
        // Each is left on the stack until those before it are placed.
        let mut open = vec![(function, false)];
        while let Some((function, is_ready)) = open.pop() {
            let address = Arc::as_ptr(function);
            if is_ready {
                ordered.push(Arc::clone(function));
            } else if placed.insert(address) {
                open.push((function, true));
                let earlier = before.get(&address).into_iter().flatten();
                open.extend(earlier.map(|function| (*function, false)));
            }
        }
    }
    ordered
}

/// Lets functions ask the environment's memory pool.
fn functions_ask(config: &mut SessionConfig, environment: &RuntimeEnv) {
    let pool = Arc::clone(&environment.memory_pool);
    config.options_mut().extensions.insert(MemoryLeft(pool));
}

/// A runtime environment whose operators may hold `limit` bytes together; beyond that sorts and
/// aggregations spill to temporary files, and what cannot spill fails with an error.
fn runtime_env(limit: usize, files: &TemporaryFiles) -> Result<Arc<RuntimeEnv>> {
    const NAMED_CONSUMERS: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN;
    let pool: Arc<dyn MemoryPool> =
        Arc::new(TrackConsumersPool::new(MergeShares::new(limit), NAMED_CONSUMERS));
    let builder = RuntimeEnvBuilder::new().with_memory_pool(pool);
    Ok(builder.with_disk_manager_builder(spill_files::disk(files)).build_arc()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of the engine may have another name that is one of ours.
    #[test]
    fn names_mean_the_same_functions_in_a_state_that_is_built_again() {
        let state = build_state().unwrap();
        let again = with_memory_limit(&state, 1 << 30).unwrap();
        let twice = with_memory_limit(&again, 1 << 31).unwrap();
        for built in [&again, &twice] {
            assert_eq!(built.scalar_functions().len(), state.scalar_functions().len());
            for (name, function) in state.scalar_functions() {
                let found = &built.scalar_functions()[name];
                assert_eq!(found.name(), function.name(), "{name}");
                assert_eq!(found.aliases(), function.aliases(), "{name}");
            }
            for (name, function) in state.aggregate_functions() {
                assert!(Arc::ptr_eq(&built.aggregate_functions()[name], function), "{name}");
            }
            for (name, function) in state.window_functions() {
                assert!(Arc::ptr_eq(&built.window_functions()[name], function), "{name}");
            }
            for (name, function) in state.higher_order_functions() {
                assert!(Arc::ptr_eq(&built.higher_order_functions()[name], function), "{name}");
            }
        }
    }

    /// Functions of the engine that are replaced, or looked for in plans, by their names.
    #[test]
    fn the_engine_has_each_function_that_is_named() {
        let aggregates = SessionStateDefaults::default_aggregate_functions();
        for name in ["sum", "min", "max", "avg", "array_agg", "approx_percentile_cont"] {
            let count = aggregates.iter().filter(|function| function.name() == name).count();
            assert_eq!(count, 1, "{name}");
        }
        let scalars = SessionStateDefaults::default_scalar_functions();
        for name in
            ["coalesce", "concat_ws", "date_part", "named_struct", "nullif", "nvl2", "regexp_like"]
        {
            let count = scalars.iter().filter(|function| function.name() == name).count();
            assert_eq!(count, 1, "{name}");
        }
    }
}
