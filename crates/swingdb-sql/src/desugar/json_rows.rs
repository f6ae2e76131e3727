//! `FROM json_each(j)` and `FROM json_tree(j)`: the parts of a JSON value as rows.
//!
//! `FROM t, json_each(t.j)` is `FROM t, LATERAL (SELECT json_column_of_row(row, 'key') AS key, ...
//! FROM (SELECT unnest(json_each_rows(t.j)) AS row) AS rows) AS json_each`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Select, SetExpr, Statement, TableAlias,
    TableFactor, VisitorMut,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;
use swingdb_functions::json::rows::{COLUMN_OF_ROW, COLUMNS, rows_of};

use crate::ast::build;
use crate::ast::names::name_of;
use crate::ast::walk::walk_mut;

/// The name of a row.
const ROW: &str = hidden!("row");
/// The name of all rows.
const ROWS: &str = hidden!("rows");

/// Writes these relations out.
pub(crate) fn expand(statement: &mut Statement) -> Result<()> {
    let mut rows = Rows { failed: None };
    // Breaks only with an error, which the visitor keeps.
    let _ = walk_mut(statement, &mut rows);
    rows.failed.map_or(Ok(()), Err)
}

struct Rows {
    failed: Option<Error>,
}

impl VisitorMut for Rows {
    type Break = ();

    /// Only behind other relations it is LATERAL: the first one refers to the query around.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for (place, from) in select.from.iter_mut().enumerate() {
            let first = (place > 0).then_some(&mut from.relation);
            let others = from.joins.iter_mut().map(|join| &mut join.relation);
            for factor in first.into_iter().chain(others) {
                if is_rows(factor)
                    && let TableFactor::Derived { lateral, .. } = factor
                {
                    *lateral = true;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let written = match factor {
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                written_out(name, &args.args, alias)
            }
            TableFactor::Function { name, args, alias, .. } => written_out(name, args, alias),
            _ => Ok(None),
        };
        match written {
            Ok(Some(new)) => *factor = new,
            Ok(None) => {}
            Err(error) => {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a relation has been written out here.
fn is_rows(factor: &TableFactor) -> bool {
    let TableFactor::Derived { subquery, .. } = factor else { return false };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return false };
    let name = select.from.first().and_then(|from| name_of(&from.relation));
    name.is_some_and(|name| name.value == ROWS)
}

fn written_out(
    name: &ObjectName,
    args: &[FunctionArg],
    alias: &Option<TableAlias>,
) -> Result<Option<TableFactor>> {
    let [part] = name.0.as_slice() else { return Ok(None) };
    let Some(name) = part.as_ident() else { return Ok(None) };
    let Some(function) = rows_of(&name.value) else { return Ok(None) };
    let args = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
        _ => Err(Error::plan(format!("{name} takes JSON as text, and perhaps a path"))),
    });
    let rows = build::call(function, args.collect::<Result<Vec<_>>>()?);
    let rows = build::item(build::call("unnest", [rows]), ROW);
    let rows = build::derived(
        build::select(vec![rows], Vec::new(), None)?,
        Some(build::alias(&Ident::with_quote('"', ROWS))),
    );
    let row = Expr::Identifier(Ident::with_quote('"', ROW));
    let columns = COLUMNS.iter().map(|column| {
        build::item(build::call(COLUMN_OF_ROW, [row.clone(), build::text(column)]), *column)
    });
    let columns = build::select(columns.collect(), vec![build::from(rows)], None)?;
    Ok(Some(build::derived(columns, Some(alias.clone().unwrap_or_else(|| build::alias(name))))))
}
