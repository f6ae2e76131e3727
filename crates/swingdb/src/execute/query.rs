//! Queries: from a text or a plan to rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_common::runtime::wait;
use swingdb_common::time::zones::Zone;
use swingdb_sql::optimized::{bound, is_quick, optimized};
use swingdb_sql::plan::materialized_parts::is_volatile;
use swingdb_sql::planner::{Planner, derived, with_values};
use swingdb_sql::scan::named::{with_names, with_tables};
use swingdb_sql::scan::source::rows_to_scan;
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::parser::parse_query;
use swingdb_store::Catalog;

use crate::session::Session;
use crate::session::plan_cache::{Conditions, KeptPlan, Source};
use crate::session::result::QueryResult;
use crate::session::stream::{BatchStream, HereStream};

/// Rows up to which a scan is run by the thread that asks for the result.
const SHORT_ROWS: u64 = 1 << 16;

/// Starts a plan and hands out its rows.
pub(crate) fn start(
    session: &Session,
    engine: &Arc<SessionState>,
    plan: LogicalPlan,
    tag: &'static str,
) -> Result<QueryResult> {
    let physical = session.physical_plan(engine, plan)?;
    let (context, token) = (session.task_context(engine), session.cancel_token());
    let stream = BatchStream::start(physical, context, None, token, session.progress())?;
    Ok(QueryResult::stream(stream, tag).in_zone(Zone::of(engine.config_options())))
}

/// Of what a plan is kept.
pub(crate) struct Keep {
    pub(crate) source: Source,
    pub(crate) numbering: Numbering,
}

/// Keeps the plan of a query that ran under these conditions, if it comes again and depends on
/// nothing else.
pub(crate) fn keep(
    session: &Session,
    keep: Keep,
    params: &Params,
    conditions: Conditions,
    plan: &LogicalPlan,
    catalog: &Catalog,
) -> Result<()> {
    let Keep { source, numbering } = keep;
    if catalog.definitions() != conditions.definitions || !session.plans.lock().wants(&source) {
        return Ok(());
    }
    if is_volatile(plan)? {
        return Ok(());
    }
    if let Some(named) = with_names(plan.clone(), catalog)? {
        let optimized = optimized(session.engine()?.as_ref(), &named);
        let (types, plan) = (params.types(), named);
        let kept = KeptPlan { source, numbering, types, conditions, plan, optimized };
        session.plans.lock().keep(kept);
    }
    Ok(())
}

/// Whether there is a plan for a text.
pub(crate) fn is_kept(session: &Session, sql: &str) -> bool {
    let plans = session.plans.lock();
    if plans.is_empty() {
        return false;
    }
    let (source, conditions) = (Source::of_text(sql), session.conditions());
    source.zip(conditions).is_some_and(|(source, conditions)| plans.knows(&source, conditions))
}

/// Runs a query again whose plan was kept.
pub(crate) fn again(
    session: &Session,
    source: &Source,
    params: &Params,
) -> Result<Option<QueryResult>> {
    let Some(again) = Again::find(session, source, params)? else { return Ok(None) };
    let zone = Zone::of(again.engine.config_options());
    let rows = match again.start(session)? {
        Started::Here(stream) => QueryResult::computed_here(stream, "SELECT"),
        Started::Tasks(stream) => QueryResult::stream(stream, "SELECT"),
    };
    Ok(Some(rows.in_zone(zone)))
}

/// The rows that a statement changes: those of a query, planned as the last time if it came before.
/// `check` looks at the query's columns when they are new.
pub(crate) fn rows_of_change(
    session: &Session,
    query: Statement,
    params: &Params,
    check: impl FnOnce(&DFSchema) -> Result<()>,
) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + Send>> {
    let conditions = session.conditions();
    let source = conditions.and_then(|_| Source::of_change(&query));
    if let Some(source) = &source
        && let Some(again) = Again::find(session, source, params)?
    {
        return Ok(match again.start(session)? {
            Started::Here(stream) => Box::new(stream),
            Started::Tasks(stream) => Box::new(stream),
        });
    }
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::new(&view, &engine).with_params(params);
    let plan = planner.plan_for(derived(query))?;
    check(plan.schema())?;
    if let (Some(source), Some(conditions)) = (source, conditions)
        && planner.is_repeatable()
        && view.extra.is_empty()
    {
        let numbering = Numbering { count: params.types().len(), names: Vec::new() };
        let of = Keep { source, numbering };
        keep(session, of, params, conditions, &plan, &view.main.catalog)?;
    }
    Ok(Box::new(session.run(with_values(plan, params)?)?))
}

/// A kept plan that is the right one now.
struct Again {
    engine: Arc<SessionState>,
    catalog: Arc<Catalog>,
    kept: KeptPlan,
    params: Params,
}

/// The rows of a plan, by who computes them.
enum Started {
    Here(HereStream),
    Tasks(BatchStream),
}

impl Again {
    fn find(session: &Session, source: &Source, params: &Params) -> Result<Option<Self>> {
        let Some(conditions) = session.conditions() else { return Ok(None) };
        let found = session.plans.lock().find(source, params, conditions);
        let Some((kept, params)) = found else { return Ok(None) };
        session.cancel_token().check()?;
        let (catalog, engine) = (session.catalog(), session.engine()?);
        let is_same = catalog.definitions() == conditions.definitions;
        Ok(is_same.then_some(Self { engine, catalog, kept, params }))
    }

    fn start(self, session: &Session) -> Result<Started> {
        let Self { engine, catalog, kept, params } = self;
        if let Some(plan) = kept.optimized
            && let Some(plan) = bound(with_tables(plan, &catalog)?, &params)?
            && let Some(rows) = start_optimized(session, &engine, &plan)?
        {
            return Ok(rows);
        }
        let plan = with_values(with_tables(kept.plan, &catalog)?, &params)?;
        session.run(plan).map(Started::Tasks)
    }
}

/// Starts a plan of one table that is optimized; `None`: it is to be planned as others are.
fn start_optimized(
    session: &Session,
    engine: &Arc<SessionState>,
    plan: &LogicalPlan,
) -> Result<Option<Started>> {
    let physical = engine.query_planner().create_physical_plan(plan, engine.as_ref());
    let Ok(physical) = wait::block_on(physical) else { return Ok(None) };
    session.note_plan(&physical);
    let context = session.task_context(engine);
    let token = session.cancel_token();
    Ok(Some(match is_quick(plan) && is_short(physical.as_ref()) {
        true => Started::Here(HereStream::new(physical, context, token)?),
        false => {
            let progress = session.progress();
            Started::Tasks(BatchStream::start(physical, context, None, token, progress)?)
        }
    }))
}

/// Whether a plan is one stream that looks at few rows.
fn is_short(plan: &dyn ExecutionPlan) -> bool {
    is_one_stream(plan) && rows_to_scan(plan).is_some_and(|rows| rows <= SHORT_ROWS)
}

fn is_one_stream(plan: &dyn ExecutionPlan) -> bool {
    plan.properties().output_partitioning().partition_count() == 1
        && plan.children().len() <= 1
        && plan.children().into_iter().all(|input| is_one_stream(input.as_ref()))
}

/// Plans a query given as text, for callers inside the crate.
pub(crate) fn plan_text(session: &Session, sql: &str, params: &Params) -> Result<LogicalPlan> {
    let mut statement = parse_query(sql)?;
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session, &view, &engine).with_params(params);
    planner.prepare(&mut statement)?;
    planner.plan(statement)
}
