//! EXPLAIN, and EXPLAIN ANALYZE, which carries the statement out.
//!
//! EXPLAIN of a statement that changes data shows the query that finds its rows, and changes
//! nothing. EXPLAIN ANALYZE runs the statement, changes included, as PostgreSQL and DuckDB do, and
//! shows the queries that the statement ran with their metrics.
//!
//! **Cycle.** It runs statements.

use std::sync::Arc;
use std::time::Instant;

use datafusion::logical_expr::{ExplainFormat, ExplainOption, LogicalPlanBuilder};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::{Error, Result};
use swingdb_sql::planner::Planner;
use swingdb_sql::text::parameters::Params;

use crate::execute::changes;
use crate::execute::query::start;
use crate::execute::show::table::{result, strings};
use crate::execute::statement::telling;
use crate::session::result::QueryResult;
use crate::session::{Session, temporary};

/// Runs an EXPLAIN.
pub(crate) fn execute(
    session: &Arc<Session>,
    explain: ExplainStatement,
    params: &Params,
) -> Result<QueryResult> {
    let DfStatement::Statement(mut statement) = *explain.statement else {
        return Err(Error::unsupported("EXPLAIN of this statement"));
    };
    let view = telling(session, &mut statement, params)?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session.as_ref(), &view, &engine).with_params(params);
    planner.prepare(&mut statement)?;
    let options = explain.options;
    let configured = &engine.config_options().explain;
    let mut option =
        ExplainOption::default().with_analyze(options.analyze).with_verbose(options.verbose);
    option.format = match options.format {
        Some(_) if options.verbose => {
            return Err(Error::unsupported("EXPLAIN VERBOSE with FORMAT"));
        }
        Some(format) => format,
        None if options.verbose || options.analyze => ExplainFormat::Indent,
        None => configured.format.clone(),
    };
    if options.analyze {
        if options.show_statistics.is_some() {
            return Err(Error::unsupported("EXPLAIN ANALYZE with COSTS"));
        }
        if !matches!(option.format, ExplainFormat::Indent | ExplainFormat::PostgresJSON) {
            return Err(Error::unsupported("EXPLAIN ANALYZE with FORMAT TREE or GRAPHVIZ"));
        }
    } else if options.analyze_level.is_some() || options.analyze_categories.is_some() {
        return Err(Error::plan("LEVEL and METRICS of EXPLAIN need ANALYZE"));
    }
    option.show_statistics = options.show_statistics;
    option.analyze_level = options.analyze_level;
    option.analyze_categories = options.analyze_categories;
    if changes::handles(&statement) {
        if options.analyze {
            if option.format != ExplainFormat::Indent {
                return Err(Error::unsupported("EXPLAIN ANALYZE of a change with FORMAT"));
            }
            return change(session, &mut statement, params, options.verbose);
        }
        // The query that finds the rows is explained; nothing is changed.
        let changing = temporary::of_statement(session, &mut statement)?;
        match changes::explain_query(&changing, &statement)? {
            Some(query) => *statement = Statement::Query(Box::new(query)),
            None => return Err(Error::unsupported("EXPLAIN of a statement without a query")),
        }
    }
    let plan = planner.plan(*statement)?;
    let plan = LogicalPlanBuilder::from(plan).explain_option_format(option)?.build()?;
    start(session, &engine, plan, "EXPLAIN")
}

/// Carries a change out, and tells which queries it ran, with their metrics.
fn change(
    session: &Arc<Session>,
    statement: &mut Statement,
    params: &Params,
    verbose: bool,
) -> Result<QueryResult> {
    let changes_rows = match statement {
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Truncate(_)
        // WITH before a change.
        | Statement::Query(_) => true,
        Statement::CreateTable(create) => create.query.is_some(),
        _ => false,
    };
    if !changes_rows {
        return Err(Error::unsupported("EXPLAIN ANALYZE of a statement that changes no rows"));
    }
    let begun = Instant::now();
    session.note_plans();
    let outcome = changes::run(session, statement, params);
    let plans = session.noted_plans();
    let outcome = outcome?;
    let elapsed = begun.elapsed();
    let mut kinds = Vec::with_capacity(plans.len() + 1);
    let mut texts = Vec::with_capacity(plans.len() + 1);
    for plan in &plans {
        kinds.push("Plan with Metrics");
        let shown = DisplayableExecutionPlan::with_metrics(plan.as_ref());
        texts.push(shown.indent(verbose).to_string());
    }
    kinds.push("Change");
    texts.push(match outcome.rows_changed {
        Some(1) => format!("{}: 1 row, {elapsed:?}", outcome.tag),
        Some(rows) => format!("{}: {rows} rows, {elapsed:?}", outcome.tag),
        None => format!("{}: {elapsed:?}", outcome.tag),
    });
    result(vec![("plan_type", strings(kinds)), ("plan", strings(texts))], "EXPLAIN")
}
