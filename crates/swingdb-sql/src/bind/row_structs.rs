//! `SELECT t FROM t`, `SELECT to_json(t) FROM t`: a row as a STRUCT of its columns.
//!
//! The name of the relation is an item of the SELECT list, or an argument of a function that is
//! one. A column of that name wins.

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, Statement,
};
use swingdb_common::error::Result;

use crate::ast::build;
use crate::ast::build::reference;
use crate::ast::names::written_name;
use crate::bind::columns::{all_of, each_select};
use crate::bind::lookahead::Lookahead;
use crate::bind::struct_stars::relation_names;
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
    let mut relations = None;
    let mut columns: Option<Vec<Column>> = None;
    let mut row = |name: &Ident| {
        let relations = relations.get_or_insert_with(|| relation_names(from));
        if !relations.contains(&name.value.to_lowercase()) {
            return None;
        }
        // What cannot be planned is an error of the whole statement.
        let all = || all_of(planner, around, from).unwrap_or_default();
        struct_of(name, columns.get_or_insert_with(all))
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

/// The columns of a relation as a STRUCT.
fn struct_of(relation: &Ident, columns: &[Column]) -> Option<Expr> {
    let alike = |name: &str| relation.value.eq_ignore_ascii_case(name);
    if columns.iter().any(|column| alike(&column.name)) {
        return None;
    }
    let own = columns
        .iter()
        .filter(|column| column.relation.as_ref().is_some_and(|relation| alike(relation.table())));
    let fields = own.flat_map(|column| [build::text(&column.name), reference(column)]);
    let fields = fields.collect::<Vec<_>>();
    (!fields.is_empty()).then(|| build::call("named_struct", fields))
}
