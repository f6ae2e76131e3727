//! Renames subquery relations that shadow outer ones.
//!
//! In `SELECT ... FROM t WHERE a IN (SELECT b FROM s AS t WHERE ...)` the inner `t` shadows the
//! outer one. The query engine makes one join of both queries. Columns of both are called `t.a` in
//! that join, and the engine mixes them up. So an inner relation that shadows an outer one gets a
//! unique name in the syntax tree, and references to it use that name. A column that the inner
//! relation does not have is the outer one's, as in DuckDB.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, VisitorMut,
};

use crate::ast::build;
use crate::ast::names::{CATALOG, SCHEMA, last, name_of};
use crate::ast::walk::walk_mut;
use crate::bind::columns::names_of;
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;

/// Gives relations of subqueries that hide others names of their own.
pub(crate) fn show_hidden(planner: &dyn Lookahead, statement: &mut Statement) {
    show(&|around, factor| names_of(planner, around, factor), statement);
}

/// The columns of a relation inside of queries with these WITH clauses, if they are known.
type ColumnsOf<'a> = dyn Fn(&Withs, &TableFactor) -> Option<Vec<String>> + 'a;

fn show(columns_of: &ColumnsOf<'_>, statement: &mut Statement) {
    // Neither walk ever breaks.
    let mut own = Own { depth: 0, names: BTreeSet::new() };
    let _ = walk_mut(statement, &mut own);
    let mut renamer =
        Renamer { columns_of, around: vec![own.names], withs: Withs::default(), renamed: 0 };
    let _ = walk_mut(statement, &mut renamer);
}

/// The relations that a statement has beside its queries: what it changes, and from what.
struct Own {
    depth: usize,
    names: BTreeSet<String>,
}

impl VisitorMut for Own {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.depth == 0 {
            self.names.extend(name_of(factor).map(folded));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if self.depth == 0 {
            self.names.extend(last(relation).map(folded));
        }
        ControlFlow::Continue(())
    }
}

struct Renamer<'a> {
    columns_of: &'a ColumnsOf<'a>,
    /// The relations of each query around what is visited, the outermost first.
    around: Vec<BTreeSet<String>>,
    withs: Withs,
    renamed: usize,
}

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut names = BTreeSet::new();
        each_factor(&mut query.body, &mut |factor| names.extend(name_of(factor).map(folded)));
        self.around.push(names);
        self.withs.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.around.pop();
        self.withs.leave();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query)
            | Expr::Exists { subquery: query, .. }
            | Expr::InSubquery { subquery: query, .. } => self.rename_in(query),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Renamer<'_> {
    /// Renames what hides something in a subquery, and in the queries of its FROM clause first:
    /// what is left of a name then means the relation of this query.
    fn rename_in(&mut self, query: &mut Query) {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.rename_in(&mut cte.query);
        }
        self.withs.enter_below(query);
        let mut found = Vec::new();
        each_factor(&mut query.body, &mut |factor| {
            if let TableFactor::Derived { subquery, .. } = factor {
                self.rename_in(subquery);
            }
            let hides = |name: &&Ident| {
                let name = folded(name);
                self.around.iter().any(|names| names.contains(&name))
            };
            let Some(old) = name_of(factor).filter(hides).cloned() else { return };
            self.renamed += 1;
            let new = Ident::with_quote('"', format!("{} ({})", old.value, self.renamed + 1));
            let columns = (self.columns_of)(&self.withs, factor);
            found.push(Renamed { path: path_of(factor), old, new: new.clone(), columns });
            set_name(factor, new);
        });
        self.withs.leave();
        for renamed in &mut found {
            let _ = walk_mut(query, renamed);
        }
    }
}

/// A relation that has got another name.
struct Renamed {
    /// What may stand before its old name: the schema, or the database and the schema.
    path: Vec<String>,
    old: Ident,
    new: Ident,
    columns: Option<Vec<String>>,
}

impl Renamed {
    /// How many of these names, which stand before a column's, say the relation.
    fn qualifiers(&self, names: &[&Ident]) -> usize {
        let is_old = |name: &Ident| name.value.eq_ignore_ascii_case(&self.old.value);
        let said = |count: usize| {
            let from = self.path.len().checked_sub(count);
            let path = from.map(|from| &self.path[from..]);
            let given = names.get(..count);
            given.zip(path).is_some_and(|(given, path)| {
                given.iter().zip(path).all(|(g, p)| g.value.eq_ignore_ascii_case(p))
            }) && names.get(count).is_some_and(|name| is_old(name))
        };
        (0..=self.path.len()).find(|count| said(*count)).map_or(0, |count| count + 1)
    }

    /// Whether it has a column of this name, as far as is known.
    fn has(&self, column: &Ident) -> bool {
        let is = |name: &String| name.eq_ignore_ascii_case(&column.value);
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(is))
    }

    fn rename(&self, name: &mut ObjectName) {
        let names = name.0.iter().filter_map(ObjectNamePart::as_ident).collect::<Vec<_>>();
        let count = self.qualifiers(&names);
        if count > 0 && names.len() == name.0.len() {
            name.0.splice(..count, [ObjectNamePart::Identifier(self.new.clone())]);
        }
    }
}

impl VisitorMut for Renamed {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(kind, _) = item
                && let SelectItemQualifiedWildcardKind::ObjectName(name) = kind
            {
                self.rename(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) => {
                let names = parts[..parts.len().saturating_sub(1)].iter().collect::<Vec<_>>();
                let count = self.qualifiers(&names);
                if count > 0 && self.has(&parts[count]) {
                    parts.splice(..count, [self.new.clone()]);
                }
            }
            Expr::QualifiedWildcard(name, _) => self.rename(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Calls `found` with each relation of the FROM clauses of a query, those in brackets too.
fn each_factor(body: &mut SetExpr, found: &mut dyn FnMut(&mut TableFactor)) {
    match body {
        SetExpr::Select(select) => {
            for from in &mut select.from {
                factor(&mut from.relation, found);
                from.joins.iter_mut().for_each(|join| factor(&mut join.relation, found));
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            each_factor(left, found);
            each_factor(right, found);
        }
        SetExpr::Query(query) => each_factor(&mut query.body, found),
        _ => {}
    }
}

fn factor(relation: &mut TableFactor, found: &mut dyn FnMut(&mut TableFactor)) {
    match relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            factor(&mut table_with_joins.relation, found);
            table_with_joins.joins.iter_mut().for_each(|join| factor(&mut join.relation, found));
        }
        other => found(other),
    }
}

/// What may stand before the name of a relation.
fn path_of(factor: &TableFactor) -> Vec<String> {
    match factor {
        TableFactor::Table { name, alias: None, .. } => {
            let idents = name.0.iter().filter_map(ObjectNamePart::as_ident);
            let given = idents.map(|ident| ident.value.clone()).collect::<Vec<_>>();
            let missing = 3_usize.saturating_sub(given.len());
            let own = [CATALOG, SCHEMA].into_iter().take(missing).map(str::to_string);
            let mut path = own.chain(given).collect::<Vec<_>>();
            path.pop();
            path
        }
        _ => Vec::new(),
    }
}

fn set_name(factor: &mut TableFactor, new: Ident) {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => match alias {
            Some(TableAlias { name, .. }) => *name = new,
            None => *alias = Some(build::alias(&new)),
        },
        _ => {}
    }
}

fn folded(name: &Ident) -> String {
    name.value.to_lowercase()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn shown(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        show(&|_, _| Some(vec!["a".into(), "b".into(), "c".into()]), &mut statements[0]);
        statements[0].to_string()
    }

    #[test]
    fn what_hides_another_gets_a_name() {
        for (sql, expected) in [
            (
                "SELECT t.a FROM t, x WHERE t.a IN (SELECT t.b FROM v AS t WHERE t.c = x.c)",
                "SELECT t.a FROM t, x WHERE t.a IN \
                 (SELECT \"t (2)\".b FROM v AS \"t (2)\" WHERE \"t (2)\".c = x.c)",
            ),
            (
                "SELECT 1 FROM t WHERE EXISTS (SELECT t.*, c FROM t WHERE main.t.c = 1 AND T.b)",
                "SELECT 1 FROM t WHERE EXISTS (SELECT \"t (2)\".*, c FROM t AS \"t (2)\" \
                 WHERE \"t (2)\".c = 1 AND \"t (2)\".b)",
            ),
            (
                "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM s AS t WHERE t.a = t.d)",
                "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM s AS \"t (2)\" \
                 WHERE \"t (2)\".a = t.d)",
            ),
            (
                "DELETE FROM t WHERE a = (SELECT max(t.a) FROM t ORDER BY t.b)",
                "DELETE FROM t WHERE a = (SELECT max(\"t (2)\".a) FROM t AS \"t (2)\" \
                 ORDER BY \"t (2)\".b)",
            ),
        ] {
            assert_eq!(shown(sql), expected);
        }
    }

    #[test]
    fn the_innermost_comes_first() {
        assert_eq!(
            shown(
                "SELECT (SELECT t.a FROM t WHERE t.b IN (SELECT t.c FROM (SELECT t.c FROM t) AS t))
                 FROM t"
            ),
            "SELECT (SELECT \"t (4)\".a FROM t AS \"t (4)\" WHERE \"t (4)\".b IN \
             (SELECT \"t (3)\".c FROM (SELECT \"t (2)\".c FROM t AS \"t (2)\") AS \"t (3)\")) \
             FROM t"
        );
    }

    #[test]
    fn others_stay() {
        for same in [
            "SELECT t.a FROM (SELECT t.a FROM t) AS t JOIN s ON t.a = s.a",
            "SELECT t.a FROM t WHERE t.a IN (SELECT s.t.a FROM s)",
            "WITH t AS (SELECT t.a FROM t) SELECT t.a FROM t UNION SELECT t.a FROM t",
        ] {
            assert_eq!(shown(same), same);
        }
    }
}
