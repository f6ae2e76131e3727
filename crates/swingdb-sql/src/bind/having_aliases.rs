//! Names of the SELECT list in HAVING: `SELECT g, sum(x) AS x FROM t GROUP BY g HAVING x > 5`.
//!
//! The engine takes the column of a table where there is one, and refuses it if no group has a
//! single value of it. So the expression is put where the name stands, unless rows are grouped by a
//! column of that name. Arguments of aggregates are columns of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Query, Select, SelectItem, Statement, VisitorMut,
};

use crate::ast::walk::walk_mut;
use crate::bind::lookahead::Lookahead;
use crate::bind::reused_aliases::is_volatile;

/// Writes the names of all HAVING clauses of a statement out. Functions have the engine's names.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) {
    let is_aggregate =
        |call: &Function| planner.is_aggregate(&call.name.to_string().to_ascii_lowercase());
    // Never breaks, so the result says nothing.
    let _ = walk_mut(statement, &mut Selects { is_aggregate: &is_aggregate });
}

struct Selects<'a> {
    is_aggregate: &'a dyn Fn(&Function) -> bool,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(mut having) = select.having.take() {
            let mut names =
                Names { meant: meant(select), is_aggregate: self.is_aggregate, inside: 0 };
            let _ = walk_mut(&mut having, &mut names);
            select.having = Some(having);
        }
        ControlFlow::Continue(())
    }
}

/// What names of the SELECT list stand for, by their small letters.
fn meant(select: &Select) -> BTreeMap<String, Expr> {
    let keys = keys(select);
    let mut meant = BTreeMap::new();
    for item in &select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = alias.value.to_lowercase();
        if !keys.contains(&name) && !is_volatile(expr) {
            meant.entry(name).or_insert_with(|| expr.clone());
        }
    }
    meant
}

/// The names of columns by which rows are grouped.
fn keys(select: &Select) -> BTreeSet<String> {
    let selected = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let by: Vec<&Expr> = match &select.group_by {
        GroupByExpr::Expressions(by, _) => by.iter().collect(),
        GroupByExpr::All(_) => selected.collect(),
    };
    let name = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.to_lowercase()),
        _ => None,
    };
    let mut keys = BTreeSet::new();
    for expr in by {
        match expr {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                keys.extend(sets.iter().flatten().filter_map(name));
            }
            expr => keys.extend(name(expr)),
        }
    }
    keys
}

struct Names<'a> {
    meant: BTreeMap<String, Expr>,
    is_aggregate: &'a dyn Fn(&Function) -> bool,
    /// How many aggregates, lambdas and queries it is inside of.
    inside: usize,
}

impl Names<'_> {
    /// Whether names in it are those of other columns, or of parameters.
    fn has_own(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Function(call) => (self.is_aggregate)(call),
            expr => matches!(expr, Expr::Lambda(_)),
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.inside += usize::from(self.has_own(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.has_own(expr) {
            self.inside -= 1;
        } else if let Expr::Identifier(name) = expr
            && self.inside == 0
            && let Some(meant) = self.meant.get(&name.value.to_lowercase())
        {
            *expr = Expr::Nested(Box::new(meant.clone()));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn expanded(sql: &str) -> String {
        let mut parsed = Parser::parse_sql(&DIALECT, sql).unwrap();
        let Statement::Query(query) = &mut parsed[0] else { panic!("{sql}") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("{sql}") };
        let is_aggregate = |call: &Function| call.name.to_string() == "sum";
        let _ = Selects { is_aggregate: &is_aggregate }.post_visit_select(select);
        select.having.as_ref().unwrap().to_string()
    }

    #[test]
    fn names_are_written_out_unless_they_are_keys() {
        for (sql, found) in [
            ("SELECT g, sum(x) AS x FROM t GROUP BY g HAVING X > 5", "(sum(x)) > 5"),
            ("SELECT sum(x) AS x FROM t HAVING sum(x) > abs(x)", "sum(x) > abs((sum(x)))"),
            ("SELECT sum(x) AS g FROM t GROUP BY t.g HAVING g > 1", "g > 1"),
            ("SELECT g, sum(x) AS g FROM t GROUP BY ALL HAVING g > 1", "g > 1"),
            ("SELECT sum(x) AS g FROM t GROUP BY ROLLUP (g, h) HAVING g > 1", "g > 1"),
            ("SELECT random() AS x FROM t HAVING x > 1", "x > 1"),
            ("SELECT sum(x) AS x FROM t HAVING (SELECT x) > 1", "(SELECT x) > 1"),
        ] {
            assert_eq!(expanded(sql), found, "{sql}");
        }
    }
}
