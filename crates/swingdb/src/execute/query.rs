//! Queries: from a text or a plan to rows.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use swingdb_common::error::Result;
use swingdb_common::time::zones::Zone;
use swingdb_sql::plan::materialized_parts::is_volatile;
use swingdb_sql::planner::{Planner, with_values};
use swingdb_sql::scan::named::{with_names, with_tables};
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::parser::parse_query;
use swingdb_store::Catalog;

use crate::session::Session;
use crate::session::plan_cache::{Conditions, KeptPlan, Source};
use crate::session::result::QueryResult;
use crate::session::stream::BatchStream;

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
    if let Some(plan) = with_names(plan.clone(), catalog)? {
        let types = params.types();
        session.plans.lock().keep(KeptPlan { source, numbering, types, conditions, plan });
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
    let Some(conditions) = session.conditions() else { return Ok(None) };
    let found = session.plans.lock().find(source, params, conditions);
    let Some((plan, params)) = found else { return Ok(None) };
    session.cancel_token().check()?;
    let (catalog, engine) = (session.catalog(), session.engine()?);
    if catalog.definitions() != conditions.definitions {
        return Ok(None);
    }
    let plan = with_values(with_tables(plan, &catalog)?, &params)?;
    start(session, &engine, plan, "SELECT").map(Some)
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
