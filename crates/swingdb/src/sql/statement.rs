//! From a text to results: parsing, numbering parameters, resolving names, and dispatch.
//!
//! A text is parsed as a whole before its first statement runs, so that a typing error changes
//! nothing. Queries and statements about the session are carried out here; what changes data goes
//! to [`write`](crate::sql::write), what reads or writes files to [`io`](crate::io).

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{
    CreateExternalTable, DFParser, DFParserBuilder, ExplainStatement, ResetStatement,
    Statement as DfStatement,
};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Statement};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::runtime::memory::Kept;
use swingdb_common::runtime::threads;
use swingdb_common::time::zones::Zone;

use crate::database::Database;
use crate::sql::backup::{self, ExportDatabase};
use crate::sql::depth::{self, with_stack};
use crate::sql::dialect::DIALECT;
use crate::sql::engine::RECURSION_LIMIT;
use crate::sql::given::GivenTable;
use crate::sql::macros::{CreateMacro, DropMacro};
use crate::sql::params::{Params, number_tokens};
use crate::sql::planner::Planner;
use crate::sql::result::QueryResult;
use crate::sql::sequences::{AlterSequence, CreateSequence, DropSequence};
use crate::sql::session::Session;
use crate::sql::stream::BatchStream;
use crate::sql::text_memory;
use crate::sql::view::View;
use crate::sql::{
    clauses, explain, foreign, forms, idents, macros, prepared, sequences, settings, show,
    temporary, write,
};

/// Longest text, in bytes, that is parsed while its caller waits without looking for an interrupt.
const LONG_TEXT: usize = 64 << 10;

/// One statement of a text.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    /// Standard SQL.
    Sql(Box<Statement>),
    /// EXPLAIN of something.
    Explain(ExplainStatement),
    /// COPY.
    Copy(Box<crate::sql::copy::statement::CopyStatement>),
    /// CREATE EXTERNAL TABLE.
    External(CreateExternalTable),
    /// RESET.
    Reset(ObjectName),
    /// What only this database has.
    Own(Own),
}

/// Statements that only this database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// `SHARE`: new snapshots see the last committed state.
    Share,
    /// `CHECKPOINT`: the store on the disk gets the last committed state; `CHECKPOINT TO 'dir'`: a
    /// copy of it is made there.
    Checkpoint { directory: Option<String> },
    /// `REFRESH`: a snapshot moves to the newest shared state.
    Refresh,
    /// `ATTACH 'name' [AS alias]`: takes a snapshot and attaches it.
    Attach { name: String, alias: Option<String> },
    /// `DETACH alias`.
    Detach { alias: String },
    /// `SHOW SNAPSHOTS`: the databases of this machine.
    ShowSnapshots,
    /// `CREATE MACRO`.
    CreateMacro(Box<CreateMacro>),
    /// `DROP MACRO`.
    DropMacro(DropMacro),
    /// `SHOW MACROS`.
    ShowMacros,
    /// `SHOW CREATE MACRO`.
    ShowCreateMacro { name: ObjectName },
    /// `CREATE SEQUENCE`.
    CreateSequence(Box<CreateSequence>),
    /// `DROP SEQUENCE`.
    DropSequence(DropSequence),
    /// `SHOW SEQUENCES`.
    ShowSequences,
    /// `ALTER SEQUENCE`.
    AlterSequence(AlterSequence),
    /// `EXPORT DATABASE`.
    ExportDatabase(Box<ExportDatabase>),
    /// `IMPORT DATABASE 'folder'`.
    ImportDatabase { folder: String },
    /// `CREATE FORCE VIEW`.
    ForceView(Box<Statement>),
    /// `SUMMARIZE table`.
    Summarize { name: ObjectName },
    /// `SUMMARIZE SELECT ...`.
    SummarizeQuery { query: Box<Query> },
}

/// Runs all statements of `sql`; the result of the last.
pub(crate) fn execute_all(
    session: &Arc<Session>,
    sql: &str,
    params: Params,
) -> Result<QueryResult> {
    // Held until the statements have run: their trees and plans live as long.
    let _text = text_memory::for_text(sql, session)?;
    let mut statements = match session.take_parsed(sql) {
        Some(statements) => statements,
        None => parse_aside(&session.cancel_token(), sql)?,
    };
    let params = number_all(&mut statements, params)?;
    let Some((line, last)) = statements.pop_back() else {
        return Ok(QueryResult::changed(None, "EMPTY"));
    };
    if statements.is_empty() {
        return execute(session, last, &params);
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
fn parse_aside(token: &CancelToken, sql: &str) -> Result<VecDeque<(u64, Parsed)>> {
    if sql.len() <= LONG_TEXT {
        return parse_lines(sql);
    }
    let text = sql.to_string();
    threads::aside(token, move || parse_lines(&text))
}

/// Parses a text into statements.
pub(crate) fn parse(sql: &str) -> Result<VecDeque<Parsed>> {
    Ok(parse_lines(sql)?.into_iter().map(|(_, statement)| statement).collect())
}

/// The statements of a text with the lines in which they begin.
pub(crate) fn parse_lines(sql: &str) -> Result<VecDeque<(u64, Parsed)>> {
    let tokens = tokens(sql)?;
    with_stack(depth::room(&tokens)?, || parse_all(tokens))
}

fn parse_all(tokens: Vec<TokenWithSpan>) -> Result<VecDeque<(u64, Parsed)>> {
    let mut parser = parser(tokens)?;
    let mut statements = VecDeque::new();
    let mut ended = true;
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {
            ended = true;
        }
        let next = parser.parser.peek_token();
        if next.token == Token::EOF {
            return Ok(statements);
        }
        if !ended {
            return Err(unexpected("the end of the statement", &next));
        }
        let mut statement = parse_one(&mut parser)?;
        depth::settle_parsed(&mut statement)?;
        refuse_unread(&mut statement)?;
        statements.push_back((next.span.start.line, statement));
        ended = false;
    }
}

/// Refuses clauses that nobody would carry out.
fn refuse_unread(statement: &mut Parsed) -> Result<()> {
    match statement {
        Parsed::Sql(statement) => clauses::check(statement.as_mut()),
        Parsed::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(statement) => clauses::check(statement.as_mut()),
            _ => Ok(()),
        },
        Parsed::Copy(copy) => match &mut copy.what {
            crate::sql::copy::statement::What::To(query) => clauses::check(query.as_mut()),
            crate::sql::copy::statement::What::TableTo { .. }
            | crate::sql::copy::statement::What::From { .. } => Ok(()),
        },
        Parsed::Own(Own::SummarizeQuery { query }) => clauses::check(query.as_mut()),
        Parsed::Own(Own::ForceView(statement)) => clauses::check(statement.as_mut()),
        Parsed::Own(Own::CreateMacro(create)) => create.bodies().try_for_each(|body| match body {
            macros::Body::Expr(expr) => clauses::check(expr.as_mut()),
            macros::Body::Query(query) => clauses::check(query.as_mut()),
        }),
        Parsed::External(create) => clauses::check_external(create),
        Parsed::Reset(_) | Parsed::Own(_) => Ok(()),
    }
}

/// Parses the text of a view.
pub(crate) fn parse_query(sql: &str) -> Result<Statement> {
    match parse(sql)?.pop_front() {
        Some(Parsed::Sql(statement)) => Ok(*statement),
        _ => Err(Error::internal(format!("the text of a view is no query: {sql}"))),
    }
}

/// Parses the text of an expression.
pub(crate) fn parse_expression(sql: &str) -> Result<Expr> {
    let tokens = tokens(sql)?;
    with_stack(depth::room(&tokens)?, || {
        let mut parser = parser(tokens)?;
        let mut expr = parser.parser.parse_expr().map_err(parser_error)?;
        let next = parser.parser.peek_token();
        if next.token != Token::EOF {
            return Err(unexpected("the end of the expression", &next));
        }
        depth::settle(&mut expr)?;
        Ok(expr)
    })
}

/// The tokens of a text, those that the parser does not know rewritten.
fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&DIALECT, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| Error::Parse {
        message: error.message,
        line: Some(error.location.line),
        column: Some(error.location.column),
    })?;
    number_tokens(&mut tokens);
    Ok(forms::rewrite_tokens(write::tokens::rewrite(tokens)))
}

fn parser(tokens: Vec<TokenWithSpan>) -> Result<DFParser<'static>> {
    let builder = DFParserBuilder::new(tokens).with_dialect(&DIALECT);
    Ok(builder.with_recursion_limit(RECURSION_LIMIT).build()?)
}

fn unexpected(expected: &str, found: &TokenWithSpan) -> Error {
    Error::Parse {
        message: format!("expected {expected}, found {}", found.token),
        line: Some(found.span.start.line),
        column: Some(found.span.start.column),
    }
}

fn parse_one(parser: &mut DFParser<'_>) -> Result<Parsed> {
    if let Some(own) = parse_own(parser)? {
        return Ok(Parsed::Own(own));
    }
    // DataFusion's own COPY knows only one direction.
    if next_word(parser, 0, "copy") {
        let copy = crate::sql::copy::statement::parse(&mut parser.parser)?;
        return Ok(Parsed::Copy(Box::new(copy)));
    }
    if let Some(error) = foreign::unknown(parser) {
        return Err(error);
    }
    Ok(match parser.parse_statement()? {
        DfStatement::Statement(statement) => Parsed::Sql(statement),
        DfStatement::Explain(explain) => Parsed::Explain(explain),
        DfStatement::CopyTo(copy) => return Err(Error::unsupported(copy.to_string())),
        DfStatement::CreateExternalTable(create) => Parsed::External(create),
        DfStatement::Reset(ResetStatement::Variable(name)) => Parsed::Reset(name),
    })
}

pub(crate) fn parser_error(error: datafusion::sql::sqlparser::parser::ParserError) -> Error {
    datafusion::error::DataFusionError::SQL(Box::new(error), None).into()
}

/// Whether the token `ahead` of the next one is the word `word`.
pub(crate) fn next_word(parser: &DFParser<'_>, ahead: usize, word: &str) -> bool {
    match parser.parser.peek_nth_token(ahead).token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// Whether a CREATE replaces what is there, and whether for the session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    pub(crate) or_replace: bool,
    pub(crate) temporary: bool,
}

/// Goes behind `CREATE [OR REPLACE] [TEMP] kind`, if that comes next.
pub(crate) fn creation(parser: &mut DFParser<'_>, kinds: &[&str]) -> Option<Creation> {
    if !next_word(parser, 0, "create") {
        return None;
    }
    let or_replace = next_word(parser, 1, "or") && next_word(parser, 2, "replace");
    let word = if or_replace { 3 } else { 1 };
    let temporary = next_word(parser, word, "temp") || next_word(parser, word, "temporary");
    let word = word + usize::from(temporary);
    let is_kind = kinds.iter().any(|kind| next_word(parser, word, kind));
    is_kind.then(|| {
        (0..=word).for_each(|_| parser.parser.advance_token());
        Creation { or_replace, temporary }
    })
}

/// Goes to the kind of `CREATE [OR REPLACE] FORCE kind`, or so many words behind it, if that comes
/// next; whether it replaces what is there.
pub(crate) fn forced(parser: &mut DFParser<'_>, kinds: &[&str], behind: usize) -> Option<bool> {
    let or_replace = next_word(parser, 1, "or") && next_word(parser, 2, "replace");
    let word = if or_replace { 3 } else { 1 };
    let is_kind = next_word(parser, 0, "create")
        && next_word(parser, word, "force")
        && kinds.iter().any(|kind| next_word(parser, word + 1, kind));
    is_kind.then(|| {
        (0..=word + behind).for_each(|_| parser.parser.advance_token());
        or_replace
    })
}

fn ends(parser: &DFParser<'_>, ahead: usize) -> bool {
    matches!(parser.parser.peek_nth_token(ahead).token, Token::EOF | Token::SemiColon)
}

fn parse_own(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    let skip = |parser: &mut DFParser<'_>, tokens: usize| {
        for _ in 0..tokens {
            parser.parser.next_token();
        }
    };
    if next_word(parser, 0, "share") && ends(parser, 1) {
        skip(parser, 1);
        return Ok(Some(Own::Share));
    }
    if next_word(parser, 0, "checkpoint") {
        if ends(parser, 1) {
            skip(parser, 1);
            return Ok(Some(Own::Checkpoint { directory: None }));
        }
        if next_word(parser, 1, "to") {
            skip(parser, 2);
            return Ok(Some(Own::Checkpoint { directory: Some(parse_name(parser)?) }));
        }
    }
    if next_word(parser, 0, "refresh") && ends(parser, 1) {
        skip(parser, 1);
        return Ok(Some(Own::Refresh));
    }
    if next_word(parser, 0, "show") && next_word(parser, 1, "snapshots") && ends(parser, 2) {
        skip(parser, 2);
        return Ok(Some(Own::ShowSnapshots));
    }
    if let Some(own) = macros::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = sequences::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = backup::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = parse_attached(parser)? {
        return Ok(Some(own));
    }
    if next_word(parser, 0, "summarize") {
        skip(parser, 1);
        let begins = ["select", "with", "from", "values"];
        let bracket = parser.parser.peek_token_ref().token == Token::LParen;
        if bracket || begins.iter().any(|word| next_word(parser, 0, word)) {
            let query = parser.parser.parse_query().map_err(parser_error)?;
            return Ok(Some(Own::SummarizeQuery { query }));
        }
        let name = parser.parser.parse_object_name(true).map_err(parser_error)?;
        return Ok(Some(Own::Summarize { name }));
    }
    Ok(None)
}

/// ATTACH and DETACH.
fn parse_attached(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if next_word(parser, 0, "attach") {
        parser.parser.next_token();
        if next_word(parser, 0, "database") && !ends(parser, 1) && !next_word(parser, 1, "as") {
            parser.parser.next_token();
        }
        let name = parse_name(parser)?;
        let alias = match next_word(parser, 0, "as") {
            true => {
                parser.parser.next_token();
                Some(parse_name(parser)?)
            }
            false => None,
        };
        return Ok(Some(Own::Attach { name, alias }));
    }
    if next_word(parser, 0, "detach") {
        parser.parser.next_token();
        if next_word(parser, 0, "database") && !ends(parser, 1) {
            parser.parser.next_token();
        }
        return Ok(Some(Own::Detach { alias: parse_name(parser)? }));
    }
    Ok(None)
}

/// A name written as a word, quoted or not, or as a string.
fn parse_name(parser: &mut DFParser<'_>) -> Result<String> {
    let next = parser.parser.next_token();
    match next.token {
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(name) => Ok(name),
        _ => Err(unexpected("a name", &next)),
    }
}

/// Numbers the parameters of all statements and puts the values in that order.
fn number_all(statements: &mut VecDeque<(u64, Parsed)>, params: Params) -> Result<Params> {
    let (mut next, mut names) = (1, Vec::new());
    for (_, statement) in statements.iter_mut() {
        number(statement, &mut next, &mut names)?;
    }
    match names.is_empty() {
        true => params.of_count(next - 1),
        false => params.in_order(&names),
    }
}

fn number(statement: &mut Parsed, next: &mut usize, names: &mut Vec<String>) -> Result<()> {
    match statement {
        // Its parameters get their values from EXECUTE.
        Parsed::Sql(statement) if matches!(**statement, Statement::Prepare { .. }) => Ok(()),
        Parsed::Sql(statement) => idents::number_parameters(statement.as_mut(), next, names),
        Parsed::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(inner) => idents::number_parameters(inner.as_mut(), next, names),
            _ => Ok(()),
        },
        Parsed::Copy(copy) => match &mut copy.what {
            crate::sql::copy::statement::What::To(query)
            | crate::sql::copy::statement::What::TableTo { query, .. } => {
                idents::number_parameters(query.as_mut(), next, names)
            }
            crate::sql::copy::statement::What::From { .. } => Ok(()),
        },
        _ => Ok(()),
    }
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
            crate::sql::copy::statement::execute(session, *copy, params)
        }
        Parsed::External(create) => {
            session.limits().external("CREATE EXTERNAL TABLE")?;
            crate::sql::copy::statement::create_external_table(session, create)
        }
        Parsed::Reset(name) => settings::reset(session, &name),
        Parsed::Own(own) => execute_own(session, own),
    }
}

/// Runs one statement.
pub(crate) fn execute_sql(
    session: &Arc<Session>,
    mut statement: Statement,
    params: &Params,
) -> Result<QueryResult> {
    match statement {
        Statement::Set(set) => return settings::set(session, &set),
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. } => {
            return prepared::run(session, statement, params);
        }
        _ => {}
    }
    if let Some(result) = show::execute(session, &statement)? {
        return Ok(result);
    }
    let view = telling(session, &mut statement)?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session, &view, &engine);
    // A view keeps its query as it is written when that calls macros.
    if !matches!(statement, Statement::CreateView(_)) {
        planner.prepare(&mut statement)?;
    }
    if write::handles(&statement) {
        let outcome = temporary::execute(session, &mut statement, params)?;
        let result = match outcome.rows {
            Some((schema, batches)) => {
                QueryResult::ready(schema, batches, outcome.tag).in_zone(session.zone())
            }
            None => QueryResult::changed(None, outcome.tag),
        };
        return Ok(result.with_rows_changed(outcome.rows_changed));
    }
    if !matches!(statement, Statement::Query(_)) {
        return Err(foreign::refused(&statement));
    }
    if view.main.catalog.has_sequences() && sequences::are_used(&mut statement) {
        return take_numbers(session, statement, params);
    }
    let plan = planner.plan(statement, params)?;
    start(session, &engine, plan, "SELECT")
}

/// What names mean to a statement, also those of what others tell in it.
pub(crate) fn telling(session: &Arc<Session>, statement: &mut Statement) -> Result<View> {
    let mut view = session.view()?;
    for name in forms::told_relations(statement) {
        let parsed = parse(forms::told(&name).unwrap_or_default())?.pop_front();
        let parsed = parsed.ok_or_else(|| Error::internal("nothing to be told"))?;
        let rows = execute(session, parsed, &Params::default())?;
        let schema = rows.schema();
        let table = GivenTable::try_new(schema, rows.collect()?)?;
        view.extra.insert(name, Arc::new(table));
    }
    Ok(view)
}

/// Runs a query that takes numbers from sequences, which is a change of the database.
fn take_numbers(session: &Session, query: Statement, params: &Params) -> Result<QueryResult> {
    write::with_txn(session, |_| {
        let (view, engine) = (session.view()?, session.engine()?);
        let plan = Planner::of_session(session, &view, &engine).plan(query, params)?;
        let rows = start(session, &engine, plan, "SELECT")?;
        let schema = rows.schema();
        let batches = Kept::new("SELECT", &engine).over(rows).collect::<Result<Vec<_>>>()?;
        Ok(QueryResult::ready(schema, batches, "SELECT"))
    })
}

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

fn execute_own(session: &Arc<Session>, own: Own) -> Result<QueryResult> {
    match own {
        Own::Share => {
            if session.in_transaction() {
                return Err(Error::transaction("SHARE inside a transaction: COMMIT it first"));
            }
            session.database().share()?;
            Ok(QueryResult::changed(None, "SHARE"))
        }
        Own::Checkpoint { directory } => {
            if session.in_transaction() {
                let message = "CHECKPOINT inside a transaction: COMMIT it first";
                return Err(Error::transaction(message));
            }
            match directory {
                None => session.database().checkpoint()?,
                Some(directory) => {
                    session.limits().external("CHECKPOINT TO")?;
                    session.database().checkpoint_to(std::path::Path::new(&directory))?
                }
            };
            Ok(QueryResult::changed(None, "CHECKPOINT"))
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
        Own::CreateMacro(create) => macros::create(session, *create),
        Own::DropMacro(remove) => macros::remove(session, remove),
        Own::ShowMacros => macros::all(session),
        Own::ShowCreateMacro { name } => macros::text(session, &name),
        Own::CreateSequence(create) => sequences::create(session, *create),
        Own::DropSequence(remove) => sequences::remove(session, remove),
        Own::ShowSequences => sequences::all(session),
        Own::AlterSequence(change) => sequences::change(session, change),
        Own::ExportDatabase(export) => backup::export(session, &export),
        Own::ImportDatabase { folder } => backup::import(session, &folder),
        Own::ForceView(statement) => backup::create_view(session, &statement),
        Own::Summarize { name } => show::summarize(session, &name),
        Own::SummarizeQuery { query } => show::summarize_query(session, *query),
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
    for statement in statements.iter().filter_map(|(_, statement)| reading(statement)) {
        if let Ok((tables, _)) = resolve_table_references(&statement, false) {
            all.extend(tables);
        }
    }
    // Longer ones would be held for long where nobody runs them.
    if sql.len() <= LONG_TEXT {
        session.keep_parsed(sql, statements);
    }
    Ok(all)
}

/// What a statement reads tables by.
fn reading(statement: &Parsed) -> Option<DfStatement> {
    let asking = |query: &Query| Statement::Query(Box::new(query.clone()));
    let statement = match statement {
        Parsed::Sql(statement) => match statement.as_ref() {
            Statement::CreateTable(create) => asking(create.query.as_deref()?),
            Statement::CreateView(create) => asking(&create.query),
            Statement::Drop { .. } | Statement::AlterTable(_) | Statement::Truncate(_) => {
                return None;
            }
            other => other.clone(),
        },
        Parsed::Explain(explain) => return Some(DfStatement::Explain(explain.clone())),
        Parsed::Copy(copy) => match &copy.what {
            crate::sql::copy::statement::What::To(query)
            | crate::sql::copy::statement::What::TableTo { query, .. } => asking(query),
            crate::sql::copy::statement::What::From { .. } => return None,
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

/// Plans a query given as text, for callers inside the crate.
pub(crate) fn plan_text(session: &Session, sql: &str, params: &Params) -> Result<LogicalPlan> {
    let mut statement = parse_query(sql)?;
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session, &view, &engine);
    planner.prepare(&mut statement)?;
    planner.plan(statement, params)
}
