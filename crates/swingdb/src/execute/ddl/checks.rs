//! CHECK constraints: conditions on one row, kept as text with the table.
//!
//! A condition reads columns of its table and nothing else, and gives the same answer at any time:
//! subqueries, aggregates, `random()` and `now()` are refused. So a row that once fulfilled it
//! fulfils it for ever, and only rows that are written have to be tested. The store tests them; see
//! [`SqlChecker`](swingdb_sql::check::SqlChecker).

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Expr, Ident, TableConstraint};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::find_name;
use swingdb_sql::check::Condition;
use swingdb_store::{Check, ColumnDef};

use crate::session::Session;

/// Checks a table may have.
const MAX_CHECKS: usize = 1_000;

/// The checks of a table that is being defined, or gets some.
pub(crate) struct Checks<'a> {
    session: &'a Session,
    table: String,
    pub(crate) list: Vec<Check>,
}

impl<'a> Checks<'a> {
    /// The checks that a table has already.
    pub(crate) fn of(session: &'a Session, table: &str, checks: &[Check]) -> Self {
        Self { session, table: table.to_string(), list: checks.to_vec() }
    }

    /// Adds a condition, after testing that it means something for these columns.
    pub(crate) fn add(
        &mut self,
        name: Option<&Ident>,
        expr: &Expr,
        columns: &[ColumnDef],
    ) -> Result<()> {
        if self.list.len() >= MAX_CHECKS {
            return Err(Error::plan(format!("a table has at most {MAX_CHECKS} checks")));
        }
        let name = name.map(|name| name.value.clone());
        if let Some(name) = &name
            && self.find(name).is_some()
        {
            let (kind, name) = (ObjectKind::Constraint, name.clone());
            return Err(Error::AlreadyExists { kind, name });
        }
        let sql = unqualified(&self.table, expr, columns).to_string();
        let field = |column: &ColumnDef| column.field().with_nullable(true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let mut view = self.session.view()?;
        let condition = Condition::plan(&mut view, &self.table, &schema, &sql)?;
        let used = condition.expr.column_refs();
        let is_used = |index: &usize| used.iter().any(|c| c.name == columns[*index].name);
        let used = (0..columns.len()).filter(is_used).collect();
        self.list.push(Check { name, sql, columns: used });
        Ok(())
    }

    /// A table constraint, when it is a CHECK.
    pub(crate) fn add_constraint(
        &mut self,
        constraint: &TableConstraint,
        columns: &[ColumnDef],
    ) -> Result<bool> {
        match constraint {
            TableConstraint::Check(check) if check.enforced != Some(false) => {
                self.add(check.name.as_ref(), &check.expr, columns).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// The check of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let is = |check: &Check| {
            check.name.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        self.list.iter().position(is)
    }
}

/// `column` for `table.column`, so that the table can be renamed.
pub(crate) fn unqualified(of: &str, expr: &Expr, columns: &[ColumnDef]) -> Expr {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut expr = expr.clone();
    build::rewrite_exprs(&mut expr, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let [table, rest @ ..] = parts.as_slice()
            && table.value.eq_ignore_ascii_case(of)
            && find_name(&names, &table.value).is_none()
        {
            *part = match rest {
                [column] => Expr::Identifier(column.clone()),
                _ => Expr::CompoundIdentifier(rest.to_vec()),
            };
        }
    });
    expr
}

/// The checks after a column got another name.
pub(crate) fn renamed(checks: &[Check], column: usize, old: &str, new: &str) -> Result<Vec<Check>> {
    let rename = |check: &Check| match check.columns.contains(&column) {
        true => Ok(Check { sql: renamed_text(&check.sql, old, new)?, ..check.clone() }),
        false => Ok(check.clone()),
    };
    checks.iter().map(rename).collect()
}

/// The text of an expression after a column that it reads got another name.
pub(crate) fn renamed_text(sql: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = build::parse_expr(sql)?;
    let fix = |ident: &mut Ident| {
        if ident.value.eq_ignore_ascii_case(old) {
            *ident = Ident::with_quote('"', new);
        }
    };
    build::rewrite_exprs(&mut expr, |part| match part {
        Expr::Identifier(ident) => fix(ident),
        // The first part is the column, what follows are fields of it.
        Expr::CompoundIdentifier(parts) => parts.iter_mut().take(1).for_each(fix),
        _ => {}
    });
    Ok(expr.to_string())
}
