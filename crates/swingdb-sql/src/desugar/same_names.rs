//! Tables of one name in one FROM clause: [`tell_tables_apart`].
//!
//! To the query engine `t` is also what `other.t` is called, and of two relations that a name may
//! mean it takes the first: `FROM t JOIN other.t ON t.id = other.t.id` would join `t` with itself.
//! So where tables of several schemas or databases have the same name, those that are written with
//! a schema or database get an alias, and so does what is written about them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement,
    TableAlias, TableFactor, TableWithJoins, VisitorMut,
};

use crate::ast::walk::walk_mut;
use crate::ast::{build, names};

/// Gives tables aliases that have the name of another in the same FROM clause. Binding does it
/// once. A query derived from a bound statement may join more tables, and so passes again
/// ([`derived`](crate::planner::derived)).
pub(crate) fn tell_tables_apart(statement: &mut Statement) {
    // Never breaks, so the result says nothing.
    let _ = walk_mut(statement, &mut Homonyms::default());
}

/// A table by its parts, in lower case, and the alias it has got.
type Named = (Vec<String>, Option<Ident>);

#[derive(Default)]
struct Homonyms {
    /// What can be seen, the innermost last.
    seen: Vec<Named>,
    /// How many of them were there before each query around.
    queries: Vec<usize>,
}

impl Homonyms {
    /// The alias of what the first parts of a path name, and how many parts they are.
    fn alias_of(&self, path: &[Ident]) -> Option<(&Ident, usize)> {
        let names = |parts: &[String]| {
            parts.len() < path.len()
                && parts.iter().zip(path).all(|(part, ident)| *part == ident.value.to_lowercase())
        };
        let (parts, alias) = self.seen.iter().rev().find(|(parts, _)| names(parts))?;
        alias.as_ref().map(|alias| (alias, parts.len()))
    }

    fn rename_wildcard(&self, item: &mut SelectItem) {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) =
            item
        else {
            return;
        };
        let mut path = idents(name);
        // As if a column followed.
        path.push(Ident::new("*"));
        if let Some((alias, _)) = self.alias_of(&path) {
            *name = ObjectName::from(vec![alias.clone()]);
        }
    }
}

impl VisitorMut for Homonyms {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries.push(self.seen.len());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.seen.truncate(self.queries.pop().unwrap_or_default());
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // What the other side of a UNION sees.
        self.seen.truncate(self.queries.last().copied().unwrap_or_default());
        let mut paths = Vec::new();
        each_factor(&mut select.from, &mut |factor| paths.extend(name_of(factor).map(lower)));
        let own = &mut self.seen;
        each_table(&mut select.from, &mut |name, alias| {
            let path = lower(name);
            let same = |other: &&Vec<String>| other.last() == path.last() && **other != path;
            if path.len() < 2 {
                return;
            }
            if paths.iter().find(same).is_some() {
                // A dot would make two parts of it again.
                let parts = idents(name).into_iter().rev().map(|part| part.value);
                let given = Ident::with_quote('"', parts.collect::<Vec<_>>().join(" of "));
                *alias = Some(build::alias(&given));
                own.push((path, Some(given)));
            } else {
                own.push((path, None));
            }
        });
        let mut projection = std::mem::take(&mut select.projection);
        projection.iter_mut().for_each(|item| self.rename_wildcard(item));
        select.projection = projection;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr
            && let Some((alias, count)) = self.alias_of(path)
        {
            let alias = alias.clone();
            path.splice(..count, [alias]);
        }
        ControlFlow::Continue(())
    }
}

/// Calls `f` with the name of each table of a FROM clause that has no alias, and the alias to give.
fn each_table(
    from: &mut [TableWithJoins],
    f: &mut dyn FnMut(&ObjectName, &mut Option<TableAlias>),
) {
    each_factor(from, &mut |factor| {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && alias.is_none()
        {
            f(name, alias);
        }
    });
}

fn each_factor(from: &mut [TableWithJoins], f: &mut dyn FnMut(&mut TableFactor)) {
    for TableWithJoins { relation, joins } in from {
        let joined = joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    each_factor(std::slice::from_mut(table_with_joins), f);
                }
                other => f(other),
            }
        }
    }
}

/// What a relation is called: its alias, or else its name with all its parts.
fn name_of(factor: &TableFactor) -> Option<ObjectName> {
    let called = names::name_of(factor)?;
    match factor {
        TableFactor::Table { name, alias: None, .. } => Some(name.clone()),
        _ => Some(ObjectName::from(vec![called.clone()])),
    }
}

fn idents(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(|part| part.as_ident().cloned()).collect()
}

fn lower(name: impl std::borrow::Borrow<ObjectName>) -> Vec<String> {
    idents(name.borrow()).into_iter().map(|part| part.value.to_lowercase()).collect()
}
