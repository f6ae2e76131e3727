//! Putting arguments in the body of a macro for its parameters.
//!
//! A name without anything before it that is a parameter is the argument; so is the first part of
//! `p.field`, where no relation of the body is called `p`. Parameters of a lambda hide those of the
//! macro. One that an argument mentions gets another name, so that `x` in
//! `list_transform(l, x -> x + by)` is not what a caller means by the `x` that he gives for `by`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArgumentClause, FunctionArguments, Ident, LambdaFunction,
    OrderByExpr, Subscript, Value, VisitMut, VisitorMut, WindowType,
};

use crate::ast::build;
use crate::ast::walk::walk_mut;
use crate::bind::macros::call::Values;

/// Puts `values` in a body whose relations are called `relations`, in lower case.
pub(crate) fn substitute<T: VisitMut>(body: &mut T, values: &Values, relations: &BTreeSet<String>) {
    let mut mentioned = BTreeSet::new();
    for value in values.values() {
        build::rewrite_exprs(&mut value.clone(), |expr| match expr {
            Expr::Identifier(name) => {
                mentioned.insert(name.value.to_lowercase());
            }
            Expr::CompoundIdentifier(parts) => {
                mentioned.extend(parts.first().map(|name| name.value.to_lowercase()));
            }
            _ => {}
        });
    }
    // Never breaks.
    let _ = walk_mut(body, &mut Substitution { values, relations, mentioned, lambdas: Vec::new() });
}

/// A parameter of a lambda: its name in lower case, and the one it has got.
type Hidden = (String, Option<Ident>);

struct Substitution<'a> {
    values: &'a Values,
    relations: &'a BTreeSet<String>,
    /// Names in the arguments, in lower case.
    mentioned: BTreeSet<String>,
    /// The parameters of the lambdas around what is visited, the outermost first.
    lambdas: Vec<Vec<Hidden>>,
}

impl Substitution<'_> {
    fn enter(&mut self, lambda: &mut LambdaFunction) {
        use datafusion::sql::sqlparser::ast::OneOrManyWithParens as Params;
        let depth = self.lambdas.len();
        let hide = |name: &mut Ident| {
            let old = name.value.to_lowercase();
            let new = self
                .mentioned
                .contains(&old)
                .then(|| Ident::with_quote('"', format!("{} ({})", name.value, depth + 1)));
            if let Some(new) = &new {
                name.clone_from(new);
            }
            (old, new)
        };
        let hidden = match &mut lambda.params {
            Params::One(param) => vec![hide(&mut param.name)],
            Params::Many(params) => params.iter_mut().map(|p| hide(&mut p.name)).collect(),
        };
        self.lambdas.push(hidden);
    }

    /// The parameter of a lambda that a name means here.
    fn hidden(&self, name: &Ident) -> Option<&Hidden> {
        let name = name.value.to_lowercase();
        self.lambdas.iter().rev().flatten().find(|(old, _)| *old == name)
    }

    fn value(&self, name: &Ident) -> Option<Expr> {
        self.values.get(&name.value.to_lowercase()).cloned().map(operand)
    }

    /// What a name means; `None`: itself.
    fn meant(&self, name: &Ident) -> Option<Expr> {
        match self.hidden(name) {
            Some((_, new)) => new.clone().map(Expr::Identifier),
            None => self.value(name),
        }
    }

    /// What a name with others behind it means.
    fn member(&self, parts: &[Ident]) -> Option<Expr> {
        let (first, fields) = parts.split_first()?;
        if let Some((_, new)) = self.hidden(first) {
            let renamed = new
                .clone()
                .map(|new| std::iter::once(new).chain(fields.iter().cloned()).collect::<Vec<_>>());
            return renamed.map(Expr::CompoundIdentifier);
        }
        if self.relations.contains(&first.value.to_lowercase()) {
            return None;
        }
        let root = Box::new(Expr::Nested(Box::new(self.value(first)?)));
        let field = |field: &Ident| {
            let name = Value::SingleQuotedString(field.value.clone()).with_empty_span();
            AccessExpr::Subscript(Subscript::Index { index: Expr::Value(name) })
        };
        Some(Expr::CompoundFieldAccess { root, access_chain: fields.iter().map(field).collect() })
    }
}

impl VisitorMut for Substitution<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.enter(lambda);
        }
        ControlFlow::Continue(())
    }

    /// What is put in is not visited any more.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let meant = match expr {
            Expr::Identifier(name) => self.meant(name),
            Expr::CompoundIdentifier(parts) => self.member(parts),
            Expr::Lambda(_) => {
                self.lambdas.pop();
                None
            }
            Expr::Function(function) => {
                no_places(function);
                None
            }
            _ => None,
        };
        if let Some(meant) = meant {
            *expr = meant;
        }
        ControlFlow::Continue(())
    }
}

/// The engine takes a number in the ORDER BY of a function for the place of a column.
fn no_places(function: &mut Function) {
    let no_place = |by: &mut OrderByExpr| {
        by.expr = never_a_place(std::mem::replace(&mut by.expr, build::null()))
    };
    if let FunctionArguments::List(list) = &mut function.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(order) = clause {
                order.iter_mut().for_each(no_place);
            }
        }
    }
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        window.order_by.iter_mut().for_each(no_place);
    }
}

/// A number as an expression that stands for no place in a list.
pub(crate) fn never_a_place(expr: Expr) -> Expr {
    match expr {
        Expr::Value(value) => Expr::Nested(Box::new(Expr::Value(value))),
        other => other,
    }
}

/// An expression as a part of another: in brackets, unless it holds together by itself.
pub(crate) fn operand(expr: Expr) -> Expr {
    match expr {
        whole @ (Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::CompoundFieldAccess { .. }
        | Expr::Value(_)
        | Expr::TypedString { .. }
        | Expr::Interval(_)
        | Expr::Array(_)
        | Expr::Dictionary(_)
        | Expr::Map(_)
        | Expr::Tuple(_)
        | Expr::Function(_)
        | Expr::Lambda(_)
        | Expr::Case { .. }
        | Expr::Cast { .. }
        | Expr::Subquery(_)
        | Expr::Nested(_)) => whole,
        other => Expr::Nested(Box::new(other)),
    }
}
