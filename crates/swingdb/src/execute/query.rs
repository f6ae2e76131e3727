//! Queries: from a text or a plan to rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_common::runtime::wait;
use swingdb_common::time::zones::Zone;
use swingdb_sql::optimized::{bound, is_quick, is_repeatable, optimized};
use swingdb_sql::plan::materialized_parts::is_volatile;
use swingdb_sql::planner::{Planner, derived, with_values};
use swingdb_sql::scan::named::{with_names, with_tables};
use swingdb_sql::scan::short::{in_one_stream, is_short, scan_alone};
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::parser::parse_query;
use swingdb_sql::text::template::{Form, Template};
use swingdb_store::Catalog;

use crate::session::Session;
use crate::session::plan_cache::{Conditions, KeptPlan, SettledPlan, Source};
use crate::session::result::QueryResult;
use crate::session::stream::{BatchStream, HereStream};

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
    /// What texts with other values have in common with this one.
    pub(crate) template: Option<Template>,
}

/// Keeps the plan of a query under these conditions, if it has come again and depends on nothing
/// else, and says so; and keeps that of its template.
pub(crate) fn keep(
    session: &Session,
    keep: Keep,
    params: &Params,
    conditions: Conditions,
    plan: &LogicalPlan,
    catalog: &Catalog,
) -> Result<bool> {
    let Keep { source, numbering, template } = keep;
    let template = template.and_then(|of| Some((Source::of_template(&of)?, of)));
    let (wants, template) = {
        let mut plans = session.plans();
        (plans.wants(&source), template.filter(|(source, _)| plans.wants_template(source)))
    };
    if catalog.definitions() != conditions.definitions || !(wants || template.is_some()) {
        return Ok(false);
    }
    if is_volatile(plan)? {
        return Ok(false);
    }
    let Some(named) = with_names(plan.clone(), catalog)? else { return Ok(false) };
    if wants {
        let optimized = optimized(session.engine()?.as_ref(), &named);
        let (types, plan) = (params.types(), named);
        let settled = None;
        let kept = KeptPlan { source, numbering, types, conditions, plan, optimized, settled };
        session.plans().keep(kept);
    }
    if let Some((source, template)) = template {
        // It may be no statement that has a plan by itself.
        match of_template(session, &source, template, conditions, catalog).unwrap_or_default() {
            Some(kept) => session.plans().keep(kept),
            None => session.plans().refuse_template(&source),
        }
    }
    Ok(wants)
}

/// The plan of a template, if the optimizer need not know its values.
fn of_template(
    session: &Session,
    source: &Source,
    template: Template,
    conditions: Conditions,
    catalog: &Catalog,
) -> Result<Option<KeptPlan>> {
    let Template { query, params } = template;
    let (view, engine) = (session.view()?, session.engine()?);
    // Another session may have changed what names mean since the query was planned.
    if view.main.catalog.definitions() != conditions.definitions {
        return Ok(None);
    }
    let planner = Planner::of_session(session, &view, &engine).with_params(&params);
    let statement = match query {
        Form::Text(text) => {
            let mut statement = parse_query(&text)?;
            planner.prepare(&mut statement)?;
            statement
        }
        Form::Bound(query) => derived(*query),
    };
    let plan = planner.plan_for(statement)?;
    if !planner.is_repeatable() {
        return Ok(None);
    }
    let Some(plan) = with_names(plan, catalog)? else { return Ok(None) };
    let Some(optimized) = optimized(engine.as_ref(), &plan) else { return Ok(None) };
    let types = params.types();
    // A condition that the optimizer has left out may be one that fails with its value.
    if optimized.get_parameter_names()?.len() != types.len() {
        return Ok(None);
    }
    let numbering = Numbering { count: types.len(), names: Vec::new() };
    let (source, optimized, settled) = (source.clone(), Some(optimized), None);
    Ok(Some(KeptPlan { source, numbering, types, conditions, plan, optimized, settled }))
}

/// Whether there is a plan for a text, or for its template.
pub(crate) fn is_kept(session: &Session, sql: &str) -> bool {
    let Some(conditions) = session.conditions() else { return false };
    let knows = |source: &Source| session.plans().knows(source, conditions);
    if session.plans().is_empty() {
        return false;
    }
    Source::of_text(sql).is_some_and(|source| knows(&source))
        || Template::of(sql)
            .and_then(|template| Source::of_template(&template))
            .is_some_and(|source| knows(&source))
}

/// Runs a query again that came before with other values in its text.
pub(crate) fn again_by_template(
    session: &Session,
    template: &Template,
) -> Result<Option<QueryResult>> {
    let started = start_template(session, template)?;
    Ok(started.map(|started| started.rows().in_zone(session.zone())))
}

/// Starts the plan of a template, if one is kept that is right for its values.
fn start_template(session: &Session, template: &Template) -> Result<Option<Started>> {
    if session.plans().is_empty() {
        return Ok(None);
    }
    let Some(source) = Source::of_template(template) else { return Ok(None) };
    let Some(again) = Again::find(session, &source, &template.params)? else { return Ok(None) };
    // As it was written, it may compare with values of another type than these parameters.
    again.start_optimized(session)
}

/// Runs a query again whose plan was kept.
pub(crate) fn again(
    session: &Session,
    source: &Source,
    params: &Params,
) -> Result<Option<QueryResult>> {
    let Some(again) = Again::find(session, source, params)? else { return Ok(None) };
    Ok(Some(again.start(session)?.rows().in_zone(session.zone())))
}

/// As [`again`], for a query whose optimized plan was kept, and no other.
pub(crate) fn again_optimized(
    session: &Session,
    source: &Source,
    params: &Params,
) -> Result<Option<QueryResult>> {
    let Some(again) = Again::find(session, source, params)? else { return Ok(None) };
    let started = again.start_optimized(session)?;
    Ok(started.map(|started| started.rows().in_zone(session.zone())))
}

/// The rows that a statement changes: those of a query, planned as the last time if it came before.
/// `check` looks at the query's columns when they are new.
pub(crate) fn rows_of_change(
    session: &Session,
    query: Statement,
    params: &Params,
    check: impl FnOnce(&DFSchema) -> Result<()>,
) -> Result<Batches> {
    let conditions = session.conditions();
    let source = conditions.and_then(|_| Source::of_change(&query));
    if let Some(source) = &source
        && let Some(again) = Again::find(session, source, params)?
    {
        return Ok(again.start(session)?.batches());
    }
    let template = if params.is_empty() { Template::of_rows(&query) } else { None };
    if let Some(template) = &template
        && let Some(started) = start_template(session, template)?
    {
        return Ok(started.batches());
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
        let of = Keep { source, numbering, template };
        keep(session, of, params, conditions, &plan, &view.main.catalog)?;
    }
    Ok(Box::new(session.run(with_values(plan, params)?)?))
}

/// A kept plan that is the right one now.
struct Again {
    catalog: Arc<Catalog>,
    kept: KeptPlan,
    params: Params,
}

/// Rows as they are computed.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a plan, by who computes them.
enum Started {
    Here(HereStream),
    Tasks(BatchStream),
}

impl Started {
    fn rows(self) -> QueryResult {
        match self {
            Self::Here(stream) => QueryResult::computed_here(stream, "SELECT"),
            Self::Tasks(stream) => QueryResult::stream(stream, "SELECT"),
        }
    }

    fn batches(self) -> Batches {
        match self {
            Self::Here(stream) => Box::new(stream),
            Self::Tasks(stream) => Box::new(stream),
        }
    }
}

impl Again {
    fn find(session: &Session, source: &Source, params: &Params) -> Result<Option<Self>> {
        let Some(conditions) = session.conditions() else { return Ok(None) };
        let found = session.plans().find(source, params, conditions);
        let Some((kept, params)) = found else { return Ok(None) };
        session.cancel_token().check()?;
        let catalog = session.catalog();
        let is_same = catalog.definitions() == conditions.definitions;
        Ok(is_same.then_some(Self { catalog, kept, params }))
    }

    fn start(self, session: &Session) -> Result<Started> {
        if let Some(started) = self.start_optimized(session)? {
            return Ok(started);
        }
        let settled = self.kept.settled.as_ref().and_then(|settled| settled.at(&self.catalog));
        if let Some(plan) = settled {
            let plan = with_tables(plan, &self.catalog)?;
            return session.run_optimized(plan).map(Started::Tasks);
        }
        // What depends on its values or on the moment is optimized each time.
        let is_settled = self.params.is_empty() && is_repeatable(&self.kept.plan)?;
        let plan = with_values(with_tables(self.kept.plan.clone(), &self.catalog)?, &self.params)?;
        if !is_settled {
            return session.run(plan).map(Started::Tasks);
        }
        let plan = session.optimized(plan)?;
        if let Some(named) = with_names(plan.clone(), &self.catalog)? {
            session.plans().settle(&self.kept, SettledPlan::new(&self.catalog, named));
        }
        session.run_optimized(plan).map(Started::Tasks)
    }

    /// Starts the optimized plan; `None`: there is none for these values.
    fn start_optimized(&self, session: &Session) -> Result<Option<Started>> {
        let Some(plan) = self.kept.optimized.clone() else { return Ok(None) };
        match bound(with_tables(plan, &self.catalog)?, &self.params)? {
            Some(plan) => start_optimized(session, &session.settled_engine()?, &plan),
            None => Ok(None),
        }
    }
}

/// Starts a plan of one table that is optimized; `None`: it is to be planned as others are.
fn start_optimized(
    session: &Session,
    engine: &Arc<SessionState>,
    plan: &LogicalPlan,
) -> Result<Option<Started>> {
    let quick = is_quick(plan);
    let physical = match quick.then(|| scan_alone(engine, plan)).flatten() {
        Some(scan) => scan,
        None => {
            let planner = engine.query_planner();
            let physical = wait::block_on(planner.create_physical_plan(plan, engine.as_ref()));
            let Ok(physical) = physical else { return Ok(None) };
            if quick { in_one_stream(physical)? } else { physical }
        }
    };
    session.note_plan(&physical);
    let context = session.task_context(engine);
    let token = session.cancel_token();
    Ok(Some(match quick && is_short(physical.as_ref()) {
        true => Started::Here(HereStream::new(physical, context, token)?),
        false => {
            let progress = session.progress();
            Started::Tasks(BatchStream::start(physical, context, None, token, progress)?)
        }
    }))
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
