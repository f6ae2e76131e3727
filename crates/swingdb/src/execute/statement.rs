//! From a text to results: each statement is parsed, bound and taken to where it is carried out.
//!
//! Queries and statements about the session are carried out here; what changes data in
//! [`changes`], what reads or writes files in [`copy`](super::copy).
//!
//! **Cycle.** Some statements run others: EXPLAIN, EXECUTE, COPY of a query, IMPORT DATABASE.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::{CancelToken, stoppable};
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_common::runtime::threads;
use swingdb_sql::bind::catalogs::Catalogs;
use swingdb_sql::bind::sequences;
use swingdb_sql::planner::{Planner, with_values};
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::parser::{parse, parse_lines};
use swingdb_sql::text::statement::{Own, Parsed, Statements, number_all};
use swingdb_sql::text::template::Template;
use swingdb_sql::text::{depth, refused, relation_statements};

use crate::database::Database;
use crate::execute::backup::{force, read, write};
use crate::execute::query::{Keep, start};
use crate::execute::target::OWN_CATALOG;
use crate::execute::{
    about_session, atomic, changes, ddl, explain, prepared, query, show, with_changes,
};
use crate::session::given::GivenTable;
use crate::session::plan_cache::Source;
use crate::session::result::QueryResult;
use crate::session::{Session, settings, text_memory};

/// Longest text, in bytes, that is parsed while its caller waits without looking for an interrupt.
const LONG_TEXT: usize = 64 << 10;

impl Session {
    /// Runs the statements of `sql`; the last one's result.
    pub(crate) fn execute(self: &Arc<Self>, sql: &str, params: Params) -> Result<QueryResult> {
        let _one_at_a_time = self.lock_statement()?;
        // Of the statement's beginning: it may set others for those after it.
        let meter = self.limits().meter();
        let token = self.cancel_token();
        let run = || execute_all(self, sql, params);
        Ok(depth::with_enough_stack(|| stoppable(&token, run))?.metered(meter))
    }

    pub(crate) fn unresolved_tables(&self, sql: &str) -> Result<Vec<String>> {
        if !self.limits().external_access
            || query::is_kept(self, sql)
            || prepared::is_kept(self, sql)
        {
            return Ok(Vec::new());
        }
        let view = self.view()?;
        let mut unresolved = Vec::new();
        for name in table_references(self, sql)? {
            let TableReference::Bare { table } = &name else { continue };
            if view.find(&name)?.is_none() && !unresolved.iter().any(|u| *u == **table) {
                unresolved.push(table.to_string());
            }
        }
        Ok(unresolved)
    }
}

/// Runs all statements of `sql`; the result of the last.
pub(crate) fn execute_all(
    session: &Arc<Session>,
    sql: &str,
    params: Params,
) -> Result<QueryResult> {
    let source = Source::of_text(sql);
    if let Some(source) = &source
        && let Some(rows) = query::again(session, source, &params)?
    {
        return Ok(rows);
    }
    let template = if params.is_empty() { Template::of(sql) } else { None };
    if let Some(template) = &template
        && let Some(rows) = query::again_by_template(session, template)?
    {
        return Ok(rows);
    }
    if params.is_empty()
        && let Some(rows) = prepared::again(session, sql)?
    {
        return Ok(rows);
    }
    // Held until the statements have run: their trees and plans live as long.
    let _text = text_memory::for_text(sql, session)?;
    let mut statements = match session.take_parsed(sql) {
        Some(statements) => statements,
        None => parse_aside(&session.cancel_token(), sql)?,
    };
    let numbering = number_all(&mut statements)?;
    let params = params.in_numbering(&numbering)?;
    let Some((line, last)) = statements.pop_back() else {
        return Ok(QueryResult::changed(None, "EMPTY"));
    };
    if statements.is_empty() {
        return match last {
            Parsed::Sql(statement) => {
                let keep = source.map(|source| Keep { source, numbering, template });
                execute_kept(session, *statement, &params, keep)
            }
            other => execute(session, other, &params),
        };
    }
    for (line, statement) in statements {
        // A result nobody reads is run to its end all the same: it may fail.
        for batch in execute_in(session, line, statement, &params)? {
            batch?;
        }
    }
    execute_in(session, line, last, &params)
}

/// Runs a statement of a text with several ones; its errors name its line.
fn execute_in(
    session: &Arc<Session>,
    line: u64,
    statement: Parsed,
    params: &Params,
) -> Result<QueryResult> {
    let result = execute(session, statement, params);
    result.map(|rows| rows.of_line(line)).map_err(|error| error.in_statement(line))
}

/// Parses a text into statements, a long one where an interrupt need not wait for it.
fn parse_aside(token: &CancelToken, sql: &str) -> Result<Statements> {
    if sql.len() <= LONG_TEXT {
        return parse_lines(sql);
    }
    let text = sql.to_string();
    threads::aside(token, move || parse_lines(&text))
}

/// Runs one statement of a text.
pub(crate) fn execute(
    session: &Arc<Session>,
    statement: Parsed,
    params: &Params,
) -> Result<QueryResult> {
    session.cancel_token().check()?;
    match statement {
        Parsed::Sql(statement) => execute_sql(session, *statement, params),
        Parsed::Explain(explain) => explain::execute(session, explain, params),
        Parsed::Copy(copy) => {
            session.limits().external("COPY")?;
            crate::execute::copy::statement::execute(session, *copy, params)
        }
        Parsed::External(create) => {
            session.limits().external("CREATE EXTERNAL TABLE")?;
            crate::execute::copy::statement::create_external_table(session, create)
        }
        Parsed::Reset(name) => settings::reset(session, &name),
        Parsed::Own(own) => execute_own(session, own, params),
    }
}

/// Runs one statement.
pub(crate) fn execute_sql(
    session: &Arc<Session>,
    statement: Statement,
    params: &Params,
) -> Result<QueryResult> {
    execute_kept(session, statement, params, None)
}

/// The same; the plan of a query is kept under what it came from.
pub(crate) fn execute_kept(
    session: &Arc<Session>,
    mut statement: Statement,
    params: &Params,
    keep: Option<Keep>,
) -> Result<QueryResult> {
    session.cancel_token().check()?;
    // As they were before the statement was looked at: later changes make its plan a wrong one.
    let conditions = session.conditions();
    match statement {
        Statement::Set(set) => return settings::set(session, &set),
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. } => {
            return prepared::run(session, statement, params);
        }
        _ => {}
    }
    if with_changes::has_some(&statement) {
        return with_changes::run(session, statement, params);
    }
    if let Some(result) = show::execute(session, &statement, params)? {
        return Ok(result);
    }
    let view = telling(session, &mut statement, params)?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session.as_ref(), &view, &engine).with_params(params);
    // A view keeps its query as it is written when that calls macros.
    if !matches!(statement, Statement::CreateView(_)) {
        planner.prepare(&mut statement)?;
    }
    if changes::handles(&statement) {
        let outcome = changes::run(session, &mut statement, params)?;
        let result = match outcome.rows {
            Some((schema, batches)) => {
                QueryResult::ready(schema, batches, outcome.tag).in_zone(session.zone())
            }
            None => QueryResult::changed(None, outcome.tag),
        };
        return Ok(result.with_rows_changed(outcome.rows_changed));
    }
    if !matches!(statement, Statement::Query(_)) {
        return Err(refused::refused(&statement));
    }
    if view.main.catalog.has_sequences() && sequences::are_used(&mut statement) {
        return take_numbers(session, statement, params, view.extra.clone());
    }
    let plan = planner.plan_for(statement)?;
    if let (Some(keep), Some(conditions)) = (keep, conditions)
        && planner.is_repeatable()
        && view.extra.is_empty()
    {
        let source = keep.source.clone();
        if query::keep(session, keep, params, conditions, &plan, &view.main.catalog)?
            && let Some(rows) = query::again(session, &source, params)?
        {
            return Ok(rows);
        }
    }
    start(session, &engine, with_values(plan, params)?, "SELECT")
}

/// What names mean to a statement, also those of what others tell in a query.
pub(crate) fn telling(
    session: &Arc<Session>,
    statement: &mut Statement,
    params: &Params,
) -> Result<Catalogs> {
    let mut view = session.view()?;
    if changes::handles(statement) {
        return Ok(view);
    }
    let extra = &mut view.extra;
    relation_statements::name_each(statement, &mut |text, name| {
        if !extra.contains_key(name) {
            let mut parsed = parse(text)?;
            let (Some(parsed), true) = (parsed.pop_front(), parsed.is_empty()) else {
                return Err(Error::internal(format!("({text}) is not one statement")));
            };
            let rows = execute(session, parsed, params)?;
            let table = GivenTable::try_new(rows.schema(), rows.collect()?)?;
            extra.insert(name.to_string(), Arc::new(table));
        }
        Ok(())
    })?;
    Ok(view)
}

/// Runs a query that takes numbers from sequences, which is a change of the database.
fn take_numbers(
    session: &Session,
    query: Statement,
    params: &Params,
    extra: BTreeMap<String, Arc<dyn TableProvider>>,
) -> Result<QueryResult> {
    atomic::with_txn(session, |_| {
        let (view, engine) = (Catalogs { extra, ..session.view()? }, session.engine()?);
        let planner = Planner::of_session(session, &view, &engine).with_params(params);
        let plan = planner.plan(query)?;
        let rows = start(session, &engine, plan, "SELECT")?;
        let schema = rows.schema();
        let batches =
            AccountedRows::new("SELECT", &engine).over(rows).collect::<Result<Vec<_>>>()?;
        Ok(QueryResult::ready(schema, batches, "SELECT"))
    })
}

/// That a name is that of the session's own database, the only one with a store.
fn check_own(session: &Session, name: &str) -> Result<()> {
    let own = session.database();
    if [OWN_CATALOG].into_iter().chain(own.name()).any(|own| own.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "CHECKPOINT {name}; write CHECKPOINT alone, for the session's own database, which is \
         called {OWN_CATALOG}: a snapshot of another one is only read"
    )))
}

fn checkpoint(
    session: &Session,
    directory: Option<&str>,
    database: Option<&str>,
) -> Result<QueryResult> {
    if let Some(name) = database {
        check_own(session, name)?;
    }
    if session.in_transaction() {
        let message = "CHECKPOINT inside a transaction: COMMIT it first";
        return Err(Error::transaction(message));
    }
    match directory {
        None => session.database().checkpoint()?,
        Some(directory) => {
            session.limits().external("CHECKPOINT TO")?;
            session.database().checkpoint_to(std::path::Path::new(directory))?
        }
    };
    Ok(QueryResult::changed(None, "CHECKPOINT"))
}

fn execute_own(session: &Arc<Session>, own: Own, params: &Params) -> Result<QueryResult> {
    match own {
        Own::Share => {
            if session.in_transaction() {
                return Err(Error::transaction("SHARE inside a transaction: COMMIT it first"));
            }
            session.share()?;
            Ok(QueryResult::changed(None, "SHARE"))
        }
        Own::Checkpoint { directory, database } => {
            checkpoint(session, directory.as_deref(), database.as_deref())
        }
        Own::Refresh => {
            if session.in_transaction() {
                return Err(Error::transaction("REFRESH inside a transaction: COMMIT it first"));
            }
            session.database().refresh()?;
            Ok(QueryResult::changed(None, "REFRESH"))
        }
        Own::Attach { name, alias } => {
            session.limits().external("ATTACH")?;
            let snapshot = session.database().snapshot_beside(&name)?;
            session.attach(&snapshot, alias.as_deref().unwrap_or(&name))?;
            Ok(QueryResult::changed(None, "ATTACH"))
        }
        Own::Detach { alias } => {
            session.detach(&alias)?;
            Ok(QueryResult::changed(None, "DETACH"))
        }
        Own::ShowSnapshots => {
            session.limits().external("SHOW SNAPSHOTS")?;
            show::snapshots(session)
        }
        Own::CreateMacro(create) => ddl::macros::create(session, *create),
        Own::DropMacro(remove) => ddl::macros::remove(session, remove),
        Own::ShowMacros => show::macros::all(session),
        Own::ShowCreateMacro { name } => show::macros::text(session, &name),
        Own::CreateSequence(create) => ddl::sequences::define::create(session, *create),
        Own::DropSequence(remove) => ddl::sequences::define::remove(session, remove),
        Own::ShowSequences => ddl::sequences::define::all(session),
        Own::AlterSequence(change) => ddl::sequences::define::change(session, change),
        Own::CreateType(create) => ddl::types::create(session, *create),
        Own::DropType(remove) => ddl::types::remove(session, remove),
        Own::ExportDatabase(export) => write::export(session, &export),
        Own::ImportDatabase { folder } => read::import(session, &folder),
        Own::ForceView(statement) => force::create_view(session, &statement),
        Own::Use { name } => about_session::use_schema(session, &name),
        Own::Tidy { verb, table, columns } => {
            about_session::tidy(session, verb, table.as_ref(), &columns)
        }
        Own::SetVariable { name, value } => {
            about_session::set_variable(session, &name, *value, params)
        }
        Own::ResetVariable { name } => about_session::reset_variable(session, &name),
        Own::Summarize { name } => show::summarize(session, &name),
        Own::SummarizeQuery { query } => show::summarize_query(session, *query, params),
    }
}

/// The names that stand for tables in a text, in order of appearance; those of common table
/// expressions, and those that a statement makes or removes, left out. Nothing for a text that
/// cannot be parsed.
pub(crate) fn table_references(session: &Session, sql: &str) -> Result<Vec<TableReference>> {
    let _text = text_memory::for_text(sql, session)?;
    let statements = match parse_aside(&session.token_beside(), sql) {
        Ok(statements) => statements,
        Err(error @ (Error::Interrupted | Error::TimedOut { .. })) => return Err(error),
        Err(_) => return Ok(Vec::new()),
    };
    let mut all = Vec::new();
    for (_, statement) in &statements {
        all.extend(read_tables(session, statement));
    }
    // Longer ones would be held for long where nobody runs them.
    if sql.len() <= LONG_TEXT {
        session.keep_parsed(sql, statements);
    }
    Ok(all)
}

/// The names that stand for tables in a statement.
fn read_tables(session: &Session, statement: &Parsed) -> Vec<TableReference> {
    if let Parsed::Own(Own::Summarize { name }) = statement {
        return object_name_to_table_reference(name.clone(), false).into_iter().collect();
    }
    let Some(mut read) = reading(session, statement) else { return Vec::new() };
    let Ok((mut all, _)) = resolve_table_references(&read, false) else { return Vec::new() };
    all.retain(|table| !relation_statements::is_call(table.table()));
    let texts = match &mut read {
        DfStatement::Statement(statement) => relation_statements::texts(statement),
        DfStatement::Explain(ExplainStatement { statement, .. }) => match statement.as_mut() {
            DfStatement::Statement(statement) => relation_statements::texts(statement),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    // What is told about a table reads it.
    for told in texts.iter().flat_map(|text| parse(text).unwrap_or_default()) {
        all.extend(read_tables(session, &told));
    }
    all
}

/// What a statement reads tables by.
fn reading(session: &Session, statement: &Parsed) -> Option<DfStatement> {
    let asking = |query: &Query| Statement::Query(Box::new(query.clone()));
    let statement = match statement {
        Parsed::Sql(statement) => match statement.as_ref() {
            Statement::CreateTable(create) => asking(create.query.as_deref()?),
            // Its query is run by others, who do not see what this program sees.
            Statement::CreateView(_) => return None,
            Statement::Drop { .. } | Statement::AlterTable(_) | Statement::Truncate(_) => {
                return None;
            }
            Statement::Execute { name: Some(name), .. } => prepared::find(session, name)?,
            other => other.clone(),
        },
        Parsed::Own(Own::SummarizeQuery { query }) => asking(query),
        Parsed::Explain(explain) => return Some(DfStatement::Explain(explain.clone())),
        Parsed::Copy(copy) => match &copy.what {
            swingdb_sql::text::statement::What::To(query)
            | swingdb_sql::text::statement::What::TableTo { query, .. } => asking(query),
            swingdb_sql::text::statement::What::From { .. } => return None,
        },
        _ => return None,
    };
    Some(DfStatement::Statement(Box::new(statement)))
}

impl Database {
    /// A snapshot of another database of the same namespace.
    fn snapshot_beside(&self, name: &str) -> Result<Self> {
        match self.home() {
            Some(home) => Self::snapshot_in(home, name),
            None => Self::snapshot(name),
        }
    }
}
