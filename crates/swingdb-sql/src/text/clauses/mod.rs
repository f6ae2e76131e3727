//! One pass that refuses clauses that no later stage implements.
//!
//! The parser knows the clauses of many databases. A clause that parses, but that no later stage
//! reads, would be accepted and ignored. So [`check`] sees every parsed statement first, and
//! decides for each field of each node of the syntax tree: a later stage honours the field, or the
//! field must be empty, or the statement is refused with the clause's name.
//!
//! Rule of this module: a function that decides about a node destructures all its fields by name,
//! without `..`. So a new field of the parser does not compile until its case is decided. A `match`
//! over variants ends in a refusal, so that a new variant is refused.
//! `field: _` means: honoured by a later stage, visited as a node of its own, or without a meaning
//! (an optional word).
//!
//! | part | nodes |
//! |---|---|
//! | [`query`] | queries, SELECT, set operations, joins, ORDER BY, LIMIT |
//! | [`relation`] | what stands in FROM |
//! | [`expression`] | expressions, calls of functions, windows |
//! | [`change`] | INSERT, UPDATE, DELETE, MERGE, TRUNCATE |
//! | [`define`] | CREATE, ALTER, DROP |
//! | [`session`] | transactions, SET, SHOW, EXPLAIN, prepared statements |
//!
//! Clauses of a call that depend on what the function is (FILTER of a function of single rows) are
//! decided in [`bind::functions::clauses`](crate::bind::functions::clauses), which knows the
//! functions.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

pub(crate) mod change;
pub(crate) mod define;
pub(crate) mod expression;
pub(crate) mod query;
pub(crate) mod relation;
pub(crate) mod session;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, Statement, TableFactor, VisitMut, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::walk::walk_mut;
use crate::text::refused;

/// Refuses a statement, query or expression with a clause that no later stage honours.
pub(crate) fn check<T: VisitMut>(tree: &mut T) -> Result<()> {
    let mut checker = Checker { failed: None };
    // Breaks only with an error, which the checker keeps.
    let _ = walk_mut(tree, &mut checker);
    checker.failed.map_or(Ok(()), Err)
}

struct Checker {
    failed: Option<Error>,
}

impl Checker {
    fn keep(&mut self, result: Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Checker {
    type Break = ();

    fn pre_visit_statement(&mut self, node: &mut Statement) -> ControlFlow<()> {
        self.keep(statement(node))
    }

    fn pre_visit_query(&mut self, node: &mut Query) -> ControlFlow<()> {
        self.keep(query::query(node))
    }

    fn pre_visit_select(&mut self, node: &mut Select) -> ControlFlow<()> {
        self.keep(query::select(node))
    }

    fn pre_visit_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()> {
        self.keep(relation::relation(node))
    }

    fn pre_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        self.keep(expression::expression(node))
    }
}

fn statement(node: &Statement) -> Result<()> {
    match node {
        Statement::Query(_) => Ok(()),
        Statement::Insert(node) => change::insert(node),
        Statement::Update(node) => change::update(node),
        Statement::Delete(node) => change::delete(node),
        Statement::Merge(node) => change::merge(node),
        Statement::Truncate(node) => change::truncate(node),
        Statement::CreateTable(node) => define::create_table(node),
        Statement::CreateView(node) => define::create_view(node),
        Statement::CreateSchema { .. } => define::create_schema(node),
        Statement::CreateIndex(node) => define::create_index(node),
        Statement::Comment { .. } => define::comment(node),
        Statement::AlterTable(node) => define::alter_table(node),
        Statement::Drop { .. } => define::drop(node),
        Statement::Set(node) => session::set(node),
        Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. } => session::transaction(node),
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate { .. } => {
            session::prepared(node)
        }
        Statement::ExplainTable { .. } | Statement::Explain { .. } => session::describe(node),
        Statement::ShowTables { .. }
        | Statement::ShowViews { .. }
        | Statement::ShowDatabases { .. }
        | Statement::ShowSchemas { .. }
        | Statement::ShowColumns { .. }
        | Statement::ShowCreate { .. }
        | Statement::ShowFunctions { .. }
        | Statement::ShowVariable { .. } => session::show(node),
        other => Err(refused::refused(other)),
    }
}

/// Takes a node apart by all its fields: those before the semicolon are honoured, the others must
/// be empty, or the statement is refused with the clause.
macro_rules! all_fields {
    ($of:literal, $kind:ident {
        $($honoured:ident),* ;
        $($field:ident : $empty:pat => $clause:literal,)* ;
        $($list:ident : [] => $of_list:literal,)*
    } = $node:ident) => {
        let $kind { $($honoured: _,)* $($field,)* $($list,)* } = $node;
        #[allow(clippy::redundant_pattern_matching, reason = "one form for fields of all types")]
        none_of($of, &[
            $((!matches!($field, $empty), $clause),)*
            $((!$list.is_empty(), $of_list),)*
        ])?;
    };
}
pub(crate) use all_fields;

/// Refuses the first of some clauses that is written.
fn none_of(of: &str, clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(written, _)| *written) {
        Some((_, clause)) => Err(Error::unsupported(format!("{of} ... {clause}"))),
        None => Ok(()),
    }
}
