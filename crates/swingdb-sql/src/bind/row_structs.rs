//! `SELECT t FROM t`, `SELECT to_json(t) FROM t`: a row as a STRUCT of its columns.
//!
//! The name of the relation is an item of the SELECT list, or an argument of a function that is
//! one. A column of that name wins.

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, Statement,
    TableFactor, TableWithJoins,
};
use swingdb_common::error::Result;

use crate::ast::build;
use crate::ast::names::{name_of, written_name};
use crate::bind::columns::{all_of, each_select, names_of};
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;

/// Puts structs for the names of relations.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    each_select(statement, &mut |around, select| {
        expand_items(planner, around, select);
        Ok(())
    })
}

fn expand_items(planner: &dyn Lookahead, around: &Withs, select: &mut Select) {
    let Select { projection, from, .. } = select;
    let mut columns: Option<Vec<Column>> = None;
    let mut row = |name: &Ident| {
        let factor = relation(from, name)?;
        // What cannot be planned is an error of the whole statement.
        let all = || all_of(planner, around, from).unwrap_or_default();
        let alike = |column: &Column| name.value.eq_ignore_ascii_case(&column.name);
        if columns.get_or_insert_with(all).iter().any(alike) {
            return None;
        }
        // Those of the relation itself: USING shows a column of two relations once.
        let names = names_of(planner, around, factor)?;
        let fields =
            names.iter().flat_map(|column| [build::text(column), build::field(name, column)]);
        Some(build::call("named_struct", fields))
    };
    for item in projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let mut changed = expr.clone();
        let mut found = false;
        for place in places(&mut changed) {
            let Expr::Identifier(name) = place else { continue };
            if let Some(new) = row(name) {
                *place = new;
                found = true;
            }
        }
        if !found {
            continue;
        }
        let name = Ident::with_quote('"', written_name(expr));
        *expr = changed;
        if let SelectItem::UnnamedExpr(expr) = item {
            let expr = std::mem::replace(expr, build::null());
            *item = SelectItem::ExprWithAlias { expr, alias: name };
        }
    }
}

/// Where the name of a relation may stand.
fn places(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::Identifier(_) => vec![expr],
        Expr::Function(function) => match &mut function.args {
            FunctionArguments::List(list) => {
                let args = list.args.iter_mut().filter_map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                    _ => None,
                });
                args.collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The relation of a FROM clause that has a name there.
fn relation<'a>(from: &'a [TableWithJoins], name: &Ident) -> Option<&'a TableFactor> {
    let mut open: Vec<&TableFactor> = Vec::new();
    let parts = |from: &'a TableWithJoins| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    };
    open.extend(from.iter().flat_map(parts));
    while let Some(factor) = open.pop() {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                open.extend(parts(table_with_joins.as_ref()));
            }
            factor => {
                if name_of(factor)
                    .is_some_and(|found| found.value.eq_ignore_ascii_case(&name.value))
                {
                    return Some(factor);
                }
            }
        }
    }
    None
}
