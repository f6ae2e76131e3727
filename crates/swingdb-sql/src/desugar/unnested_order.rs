//! `SELECT unnest(l) FROM t ORDER BY id`: an order by what is not selected, beside `unnest`.
//!
//! The engine adds such columns below a projection, and cannot where lists are unnested in between.
//! So the query becomes `SELECT * EXCLUDE (o) FROM (SELECT unnest(l), id AS o FROM t) ORDER BY o`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, GroupByExpr, ObjectName, OrderByKind, Query, Select, SelectItem,
    SetExpr, Visit, Visitor, WildcardAdditionalOptions,
};
use swingdb_common::error::Result;
use swingdb_common::hidden;

use crate::ast::build;
use crate::ast::build::is_named;
use crate::ast::names::quoted;
use crate::ast::select_items;

/// No user's column, and no relation, is called so.
const KEY: &str = hidden!("order");
const UNNEST: &str = "unnest";

/// Rewrites a query, where it has such an order.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    let Some(order) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(selected) = selected(select) else { return Ok(()) };
    if keys.iter().all(|key| names(&key.expr).iter().all(|name| selected.contains(&name.name))) {
        return Ok(());
    }
    let mut added = Vec::new();
    for key in keys {
        let is_shown = |name: &Name| !name.qualified && selected.contains(&name.name);
        if select_items::number(&key.expr).is_some() || names(&key.expr).iter().all(is_shown) {
            continue;
        }
        let name = quoted(&format!("{KEY}{}", added.len()));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        added.push(ObjectName::from(vec![name]));
    }
    let options = WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(added)),
        ..Default::default()
    };
    build::show_of(query, vec![SelectItem::Wildcard(options)], &quoted(KEY))
}

/// The names that an order may have as they are, of a query that unnests. None where the rows are
/// others than those of its FROM, or all columns are selected.
fn selected(select: &Select) -> Option<HashSet<String>> {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if is_grouped || select.distinct.is_some() || select.having.is_some() {
        return None;
    }
    let (mut selected, mut unnests) = (HashSet::new(), false);
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return None,
        };
        unnests |= calls_unnest(expr);
        let column = match expr {
            Expr::Identifier(column) => Some(column),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        selected.extend(name.or(column).map(|name| name.value.to_lowercase()));
    }
    unnests.then_some(selected)
}

/// Whether an expression unnests a list.
pub(super) fn calls_unnest(expr: &Expr) -> bool {
    /// In how many subqueries it is.
    struct Search(usize);
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if self.0 == 0 && is_named(&call.name, UNNEST) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Search(0)).is_break()
}

/// A name in an expression.
pub(super) struct Name {
    pub(super) name: String,
    qualified: bool,
}

/// The names of columns in an expression.
pub(super) fn names(expr: &Expr) -> Vec<Name> {
    struct Search(Vec<Name>);
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let parts = match expr {
                Expr::Identifier(name) => std::slice::from_ref(name),
                Expr::CompoundIdentifier(parts) => parts.as_slice(),
                _ => return ControlFlow::Continue(()),
            };
            let qualified = parts.len() > 1;
            let name = parts.last().map(|name| name.value.to_lowercase());
            self.0.extend(name.map(|name| Name { name, qualified }));
            ControlFlow::Continue(())
        }
    }
    let mut search = Search(Vec::new());
    let _ = expr.visit(&mut search);
    search.0
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn an_order_by_what_is_not_selected() {
        let found = rewritten("SELECT unnest(l) AS x FROM t ORDER BY id, x, t.k DESC LIMIT 2");
        let found = found.unwrap().replace('\u{1}', "");
        assert_eq!(
            found,
            "SELECT * EXCLUDE (\"order0\", \"order1\") FROM (SELECT unnest(l) AS x, \
             id AS \"order0\", t.k AS \"order1\" FROM t) AS \"order\" \
             ORDER BY \"order0\", x, \"order1\" DESC LIMIT 2"
        );
        for same in [
            "SELECT id, unnest(l) AS x FROM t ORDER BY t.id, x",
            "SELECT unnest(l) AS x, * FROM t ORDER BY id",
            "SELECT unnest(l) FROM t ORDER BY 1",
            "SELECT id FROM t ORDER BY k",
        ] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
    }
}
