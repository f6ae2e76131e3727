//! Transactions, SET, SHOW, DESCRIBE, prepared statements.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use datafusion::sql::sqlparser::ast::{
    ContextModifier, DescribeAlias, ExprWithAlias, Set, SetAssignment, ShowCreateObject,
    ShowStatementFilter, ShowStatementFilterPosition, ShowStatementIn, ShowStatementInParentType,
    ShowStatementOptions, Statement, TransactionAccessMode, TransactionMode, TransactionModifier,
};
use swingdb_common::error::{Error, Result};

use crate::text::clauses::none_of;
use crate::text::refused;

pub(crate) fn transaction(node: &Statement) -> Result<()> {
    match node {
        Statement::StartTransaction {
            modes,
            begin: _,
            transaction: _,
            modifier,
            statements,
            exception,
            has_end_keyword,
        } => {
            let block = !statements.is_empty() || exception.is_some() || *has_end_keyword;
            let others =
                matches!(modifier, Some(TransactionModifier::Try | TransactionModifier::Catch));
            if block || others {
                return Err(Error::unsupported("BEGIN with statements; use BEGIN; ...; COMMIT"));
            }
            modes_of(modes)
        }
        Statement::Commit { chain, end: _, modifier } => none_of(
            "COMMIT",
            &[(*chain, "AND CHAIN; write COMMIT; BEGIN"), (modifier.is_some(), "TRY and CATCH")],
        ),
        Statement::Rollback { chain, savepoint: _ } => {
            none_of("ROLLBACK", &[(*chain, "AND CHAIN; write ROLLBACK; BEGIN")])
        }
        Statement::Savepoint { name: _ } | Statement::ReleaseSavepoint { name: _ } => Ok(()),
        other => Err(refused::refused(other)),
    }
}

/// A transaction sees one state, and nobody else writes beside it: that is more than each level of
/// isolation asks for.
fn modes_of(nodes: &[TransactionMode]) -> Result<()> {
    let mut access = 0;
    for mode in nodes {
        match mode {
            TransactionMode::IsolationLevel(_) => {}
            TransactionMode::AccessMode(
                TransactionAccessMode::ReadOnly | TransactionAccessMode::ReadWrite,
            ) => access += 1,
        }
    }
    match access {
        0 | 1 => Ok(()),
        _ => Err(Error::plan("a transaction is either READ ONLY or READ WRITE")),
    }
}

pub(crate) fn set(node: &Set) -> Result<()> {
    match node {
        Set::SingleAssignment { scope, hivevar, variable: _, values: _ } => {
            none_of("SET", &[(*hivevar, "HIVEVAR")])?;
            of_session(scope.as_ref())
        }
        Set::MultipleAssignments { assignments } => assignments
            .iter()
            .try_for_each(|SetAssignment { scope, name: _, value: _ }| of_session(scope.as_ref())),
        Set::SetTimeZone { local, value: _ } => none_of("SET", &[(*local, LOCAL)]),
        other => Err(Error::unsupported(other.to_string())),
    }
}

const LOCAL: &str = "LOCAL; a setting holds for the session";

fn of_session(scope: Option<&ContextModifier>) -> Result<()> {
    match scope {
        None | Some(ContextModifier::Session) => Ok(()),
        Some(ContextModifier::Local) => none_of("SET", &[(true, LOCAL)]),
        Some(ContextModifier::Global) => {
            none_of("SET", &[(true, "GLOBAL; a setting holds for the session")])
        }
    }
}

pub(crate) fn prepared(node: &Statement) -> Result<()> {
    match node {
        Statement::Prepare { name: _, data_types, statement: _ } => none_of(
            "PREPARE",
            &[(
                !data_types.is_empty(),
                "name (types); leave the types out, or cast the parameters",
            )],
        ),
        Statement::Deallocate { name: _, prepare: _ } => Ok(()),
        Statement::Execute {
            name,
            parameters: _,
            has_parentheses: _,
            immediate,
            into,
            using,
            output,
            default,
        } => {
            for ExprWithAlias { expr: _, alias: _ } in using {}
            let other = name.is_none()
                || *immediate
                || !into.is_empty()
                || !using.is_empty()
                || *output
                || *default;
            match other {
                true => Err(Error::unsupported("this form of EXECUTE; write EXECUTE name(values)")),
                false => Ok(()),
            }
        }
        other => Err(refused::refused(other)),
    }
}

pub(crate) fn describe(node: &Statement) -> Result<()> {
    match node {
        Statement::ExplainTable {
            describe_alias,
            hive_format,
            has_table_keyword: _,
            table_name: _,
        } => {
            none_of("DESCRIBE", &[(hive_format.is_some(), "EXTENDED and FORMATTED")])?;
            match describe_alias {
                DescribeAlias::Describe | DescribeAlias::Desc => Ok(()),
                DescribeAlias::Explain => Err(refused::refused(node)),
            }
        }
        Statement::Explain {
            describe_alias,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement: _,
            format,
            options,
        } => {
            let any = *analyze
                || *verbose
                || *query_plan
                || *estimate
                || format.is_some()
                || options.is_some();
            none_of("DESCRIBE", &[(any, "ANALYZE, VERBOSE and other words; write EXPLAIN")])?;
            match describe_alias {
                DescribeAlias::Describe | DescribeAlias::Desc => Ok(()),
                DescribeAlias::Explain => Err(refused::refused(node)),
            }
        }
        other => Err(refused::refused(other)),
    }
}

pub(crate) fn show(node: &Statement) -> Result<()> {
    match node {
        Statement::ShowTables { terse, history, extended, full, external, show_options } => {
            let words = *terse || *history || *extended || *full || *external;
            options("SHOW TABLES", words, show_options)
        }
        Statement::ShowViews { terse, materialized, show_options } => {
            options("SHOW VIEWS", *terse || *materialized, show_options)
        }
        Statement::ShowDatabases { terse, history, show_options } => {
            nowhere("SHOW DATABASES", show_options)?;
            options("SHOW DATABASES", *terse || *history, show_options)
        }
        Statement::ShowSchemas { terse, history, show_options } => {
            options("SHOW SCHEMAS", *terse || *history, show_options)
        }
        Statement::ShowColumns { extended, full, show_options } => {
            options("SHOW COLUMNS", *extended || *full, show_options)
        }
        Statement::ShowCreate { obj_type, obj_name: _ } => match obj_type {
            ShowCreateObject::Table | ShowCreateObject::View => Ok(()),
            _ => Err(refused::refused(node)),
        },
        Statement::ShowFunctions { filter: given } => given.as_ref().map_or(Ok(()), filter),
        Statement::ShowVariable { variable: _ } => Ok(()),
        other => Err(refused::refused(other)),
    }
}

fn options(of: &str, words: bool, node: &ShowStatementOptions) -> Result<()> {
    let ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = node;
    none_of(
        of,
        &[
            (words, "TERSE, FULL and other words before"),
            (starts_with.is_some(), "STARTS WITH; write LIKE"),
            (limit.is_some() || limit_from.is_some(), "LIMIT; write SELECT ... FROM (SHOW ...)"),
        ],
    )?;
    if let Some(ShowStatementIn { clause: _, parent_type, parent_name }) = show_in {
        match parent_type {
            None
            | Some(
                ShowStatementInParentType::Database
                | ShowStatementInParentType::Schema
                | ShowStatementInParentType::Table
                | ShowStatementInParentType::View,
            ) => {}
            Some(ShowStatementInParentType::Account) => {
                return none_of(of, &[(true, "IN ACCOUNT")]);
            }
        }
        none_of(of, &[(parent_name.is_none(), "IN without a name")])?;
    }
    match filter_position {
        None => Ok(()),
        Some(
            ShowStatementFilterPosition::Infix(given) | ShowStatementFilterPosition::Suffix(given),
        ) => filter(given),
    }
}

fn nowhere(of: &str, node: &ShowStatementOptions) -> Result<()> {
    none_of(of, &[(node.show_in.is_some(), "IN")])
}

fn filter(node: &ShowStatementFilter) -> Result<()> {
    match node {
        ShowStatementFilter::Like(_) | ShowStatementFilter::ILike(_) => Ok(()),
        ShowStatementFilter::Where(_) => {
            none_of("SHOW", &[(true, "WHERE; write SELECT ... FROM (SHOW TABLES) WHERE ...")])
        }
        ShowStatementFilter::NoKeyword(text) => {
            Err(Error::unsupported(format!("SHOW ... '{text}'; write LIKE '{text}'")))
        }
    }
}
