//! Names of casts that clash: `SELECT CAST(at AS DATE), at, count(*) FROM t GROUP BY 1, 2`, or
//! `SELECT max(CAST(at AS DATE)), max(at) FROM t`.
//!
//! The query engine names `CAST(at AS DATE)` after what is cast, `at`, and then refuses two keys or
//! two aggregates of one name. [`tell_apart`] gives each such cast its text for a name
//! ([`named_cast`](crate::nodes::named_cast)). What columns are called in the result is settled
//! before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, Statement, VisitorMut,
};

use crate::ast::build;
use crate::ast::walk::walk_mut;
use crate::nodes::named_cast::NAMED_CAST;

/// Gives casts that would make two keys or calls of one name names of their own.
pub(crate) fn tell_apart(statement: &mut Statement) {
    // Neither walk ever breaks.
    let mut finder = Finder::default();
    let _ = walk_mut(statement, &mut finder);
    if !finder.clashes.is_empty() {
        let clashes = finder.clashes;
        let mut renamer = Renamer { clashes, around: Vec::new() };
        let _ = walk_mut(statement, &mut renamer);
    }
}

/// Finds the casts of keys and calls that differ in their casts only.
#[derive(Default)]
struct Finder {
    clashes: BTreeSet<String>,
}

/// Expressions of one name: what they are as written, and the casts in them.
#[derive(Default)]
struct Named {
    texts: BTreeSet<String>,
    casts: BTreeSet<String>,
}

impl VisitorMut for Finder {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let (keys, grouped) = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => (keys.as_slice(), !keys.is_empty()),
            GroupByExpr::All(_) => (&[][..], true),
        };
        let items = select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        let mut names: BTreeMap<String, Named> = BTreeMap::new();
        for expr in items.chain(keys).chain(&select.having) {
            if grouped {
                note(expr, &mut names);
            }
            build::rewrite_exprs(&mut expr.clone(), |part| {
                if matches!(part, Expr::Function(_)) {
                    note(part, &mut names);
                }
            });
        }
        let several = names.into_values().filter(|named| named.texts.len() > 1);
        self.clashes.extend(several.flat_map(|named| named.casts));
        ControlFlow::Continue(())
    }
}

fn note(expr: &Expr, names: &mut BTreeMap<String, Named>) {
    let (mut bare, mut casts) = (expr.clone(), BTreeSet::new());
    build::rewrite_exprs(&mut bare, |part| {
        if let Expr::Cast { expr, .. } = part {
            *part = expr.as_ref().clone();
        }
    });
    build::rewrite_exprs(&mut expr.clone(), |part| {
        if matches!(part, Expr::Cast { .. }) {
            casts.insert(part.to_string());
        }
    });
    let named = names.entry(bare.to_string()).or_default();
    named.texts.insert(expr.to_string());
    named.casts.extend(casts);
}

struct Renamer {
    clashes: BTreeSet<String>,
    /// The casts around what is visited, as they were written.
    around: Vec<String>,
}

impl VisitorMut for Renamer {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Cast { .. }) {
            self.around.push(expr.to_string());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if !matches!(expr, Expr::Cast { .. }) {
            return ControlFlow::Continue(());
        }
        let Some(text) = self.around.pop() else { return ControlFlow::Continue(()) };
        if self.clashes.contains(&text) {
            let cast = std::mem::replace(expr, build::null());
            *expr = build::call(NAMED_CAST, [cast, build::text(&text)]);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn renamed(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        tell_apart(&mut statements[0]);
        statements[0].to_string()
    }

    #[test]
    fn equal_casts_stay_equal_and_different_ones_differ() {
        assert_eq!(
            renamed("SELECT CAST(a AS DATE), CAST(a AS INT) GROUP BY CAST(a AS DATE), 2"),
            "SELECT named_cast(CAST(a AS DATE), 'CAST(a AS DATE)'), \
             named_cast(CAST(a AS INT), 'CAST(a AS INT)') \
             GROUP BY named_cast(CAST(a AS DATE), 'CAST(a AS DATE)'), 2"
        );
        assert_eq!(
            renamed("SELECT t.a, CAST(t.a AS DATE) AS d GROUP BY 1, 2 ORDER BY CAST(t.a AS DATE)"),
            "SELECT t.a, named_cast(CAST(t.a AS DATE), 'CAST(t.a AS DATE)') AS d GROUP BY 1, 2 \
             ORDER BY named_cast(CAST(t.a AS DATE), 'CAST(t.a AS DATE)')"
        );
    }

    #[test]
    fn casts_of_casts_have_names_of_their_own() {
        assert_eq!(
            renamed("SELECT CAST(CAST(a AS INT) AS DATE), CAST(a AS INT) GROUP BY 1, 2"),
            "SELECT named_cast(CAST(named_cast(CAST(a AS INT), 'CAST(a AS INT)') AS DATE), \
             'CAST(CAST(a AS INT) AS DATE)'), named_cast(CAST(a AS INT), 'CAST(a AS INT)') \
             GROUP BY 1, 2"
        );
    }

    #[test]
    fn calls_are_told_apart_too() {
        assert_eq!(
            renamed("SELECT max(CAST(a AS DATE)), 1 + max(a) FROM t"),
            "SELECT max(named_cast(CAST(a AS DATE), 'CAST(a AS DATE)')), 1 + max(a) FROM t"
        );
        assert_eq!(
            renamed("SELECT sum(a) FROM t HAVING sum(CAST(a AS DOUBLE)) > 1"),
            "SELECT sum(a) FROM t \
             HAVING sum(named_cast(CAST(a AS DOUBLE), 'CAST(a AS DOUBLE)')) > 1"
        );
    }

    #[test]
    fn nothing_else_changes() {
        for sql in [
            "SELECT a, CAST(a AS DATE) FROM t",
            "SELECT CAST(a AS DATE), count(*) FROM t GROUP BY 1",
            "SELECT CAST(a AS DATE) FROM t GROUP BY CAST(a AS DATE)",
            "SELECT a, CAST(b AS DATE) FROM t GROUP BY 1, 2",
            "SELECT max(CAST(a AS DATE)), min(a), max(CAST(b AS DATE)) FROM t",
        ] {
            assert_eq!(renamed(sql), sql);
        }
    }
}
