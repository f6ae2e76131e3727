//! `x.upper().left(2)`: functions behind the value that they are called with first, as in DuckDB.
//!
//! It becomes `left(upper(x), 2)`. What is before a function may be a column, a literal, or
//! anything in brackets. The name of a schema or database before the name of a macro stays that.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    VisitMut, VisitorMut,
};
use swingdb_store::MacroKind;

use crate::ast::build::null;
use crate::ast::walk::walk_mut;
use crate::bind::catalogs::Catalogs;

/// Puts values into the brackets of the functions behind them.
pub(crate) fn unchain<T: VisitMut>(view: &Catalogs, tree: &mut T) {
    // Never breaks, so the result says nothing.
    let _ = walk_mut(tree, &mut Chains { view });
}

struct Chains<'a> {
    view: &'a Catalogs,
}

impl VisitorMut for Chains<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                if let Some(value) = self.value_before(function) {
                    put_first(function, value);
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let value = std::mem::replace(root.as_mut(), null());
                *expr = called(value, std::mem::take(access_chain));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Chains<'_> {
    /// The column in `t.x.upper()`, which then is a function without anything before its name.
    fn value_before(&self, function: &mut Function) -> Option<Expr> {
        let names: Option<Vec<Ident>> =
            function.name.0.iter().map(|part| part.as_ident().cloned()).collect();
        let mut names = names.filter(|names| names.len() > 1)?;
        let spelled: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
        let is_macro = [MacroKind::Scalar, MacroKind::Table]
            .into_iter()
            .any(|kind| self.view.find_macro(&spelled, kind, None).is_some());
        if is_macro || !has_list(function) {
            return None;
        }
        function.name = ObjectName::from(vec![names.pop()?]);
        Some(match names.len() {
            1 => Expr::Identifier(names.remove(0)),
            _ => Expr::CompoundIdentifier(names),
        })
    }
}

/// A value with what is behind it, in which calls are calls with what is before them.
fn called(value: Expr, chain: Vec<AccessExpr>) -> Expr {
    let (mut value, mut before) = (value, Vec::new());
    for access in chain {
        match access {
            AccessExpr::Dot(Expr::Function(mut function)) if has_list(&function) => {
                put_first(&mut function, accessed(value, std::mem::take(&mut before)));
                value = Expr::Function(function);
            }
            other => before.push(other),
        }
    }
    accessed(value, before)
}

/// `value.field[1]`
fn accessed(value: Expr, access_chain: Vec<AccessExpr>) -> Expr {
    let is_name = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
    match value {
        value if access_chain.is_empty() => value,
        Expr::Identifier(first) if access_chain.iter().all(is_name) => {
            let names = access_chain.into_iter().filter_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
                _ => None,
            });
            Expr::CompoundIdentifier(std::iter::once(first).chain(names).collect())
        }
        value => Expr::CompoundFieldAccess { root: Box::new(value), access_chain },
    }
}

fn has_list(function: &Function) -> bool {
    matches!(function.args, FunctionArguments::List(_))
}

fn put_first(function: &mut Function, value: Expr) {
    if let FunctionArguments::List(list) = &mut function.args {
        list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    }
}
