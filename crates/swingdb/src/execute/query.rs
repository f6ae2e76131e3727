//! Queries: from a text or a plan to rows.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use swingdb_common::error::Result;
use swingdb_common::time::zones::Zone;

use crate::session::Session;
use crate::session::result::QueryResult;
use crate::session::stream::BatchStream;
use crate::sql::planner::Planner;
use crate::sql::text::parameters::Params;
use crate::sql::text::parser::parse_query;

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

/// Plans a query given as text, for callers inside the crate.
pub(crate) fn plan_text(session: &Session, sql: &str, params: &Params) -> Result<LogicalPlan> {
    let mut statement = parse_query(sql)?;
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session, &view, &engine).with_params(params);
    planner.prepare(&mut statement)?;
    planner.plan(statement)
}
