//! Queries of WITH that hide others of the same name around them.
//!
//! In `WITH a AS (...) SELECT * FROM (WITH a AS (...) SELECT * FROM a)` the inner query reads the
//! inner `a`. The engine has one query for each name that can be seen, and refuses a second. So the
//! inner one gets a name of its own; where it is read, its old name is the alias.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Statement, TableFactor, VisitMut, VisitorMut,
};

use crate::ast::build;
use crate::ast::walk::walk_mut;

/// Gives queries of WITH other names that hide one around them.
pub(crate) fn tell_withs_apart(statement: &mut Statement) {
    let mut names = Names::default();
    // Neither breaks, so the results say nothing.
    let _ = walk_mut(statement, &mut names);
    if names.repeated {
        let _ = walk_mut(statement, &mut Apart { taken: names.all, levels: Vec::new() });
    }
}

/// The names of all queries of WITH, in lower case, and whether one is there twice.
#[derive(Default)]
struct Names {
    all: BTreeSet<String>,
    repeated: bool,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for name in names_of(query) {
            self.repeated |= !self.all.insert(name);
        }
        ControlFlow::Continue(())
    }
}

fn names_of(query: &Query) -> Vec<String> {
    let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
    ctes.map(|cte| cte.alias.name.value.to_lowercase()).collect()
}

struct Apart {
    /// Names that are in use.
    taken: BTreeSet<String>,
    /// The queries around, the outermost first.
    levels: Vec<Level>,
}

/// The WITH clause of a query.
struct Level {
    names: Vec<String>,
    recursive: bool,
    /// How many queries directly inside have been entered: those of the clause are the first.
    entered: usize,
}

impl Level {
    /// The names that the query entered last sees.
    fn visible(&self) -> &[String] {
        let inside = self.entered <= self.names.len();
        let before = self.entered.saturating_sub(usize::from(!self.recursive));
        if inside { &self.names[..before] } else { &self.names }
    }
}

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(around) = self.levels.last_mut() {
            around.entered += 1;
        }
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.levels.push(Level { names: names_of(query), recursive, entered: 0 });
        ControlFlow::Continue(())
    }

    /// From the innermost outwards, so that a name means this query's wherever it is left.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(own) = self.levels.pop() else { return ControlFlow::Continue(()) };
        for (place, name) in own.names.iter().enumerate() {
            let hides = self.levels.iter().any(|level| level.visible().contains(name));
            let is_only = own.names.iter().filter(|other| *other == name).count() == 1;
            if hides && is_only {
                let new = self.new_name(name);
                rename(query, place, name, &new, own.recursive);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Apart {
    fn new_name(&mut self, name: &str) -> Ident {
        let mut number = 2_usize;
        loop {
            let new = format!("{name} {number}");
            if self.taken.insert(new.clone()) {
                return Ident::with_quote('"', new);
            }
            number += 1;
        }
    }
}

/// Renames the query of WITH at a place, and what reads it.
fn rename(query: &mut Query, place: usize, old: &str, new: &Ident, recursive: bool) {
    let Some(mut with) = query.with.take() else { return };
    for (at, cte) in with.cte_tables.iter_mut().enumerate() {
        if at == place {
            cte.alias.name = new.clone();
        }
        if at > place || (at == place && recursive) {
            read_as(cte.query.as_mut(), old, new);
        }
    }
    read_as(query, old, new);
    query.with = Some(with);
}

/// Lets what reads a relation read another one under the same name.
fn read_as<T: VisitMut>(tree: &mut T, old: &str, new: &Ident) {
    struct Reader<'a> {
        old: &'a str,
        new: &'a Ident,
    }
    impl VisitorMut for Reader<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, alias, args: None, .. } = factor
                && let [part] = name.0.as_slice()
                && let Some(called) = part.as_ident()
                && called.value.to_lowercase() == self.old
            {
                if alias.is_none() {
                    *alias = Some(build::alias(called));
                }
                *name = ObjectName::from(vec![self.new.clone()]);
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks, so the result says nothing.
    let _ = walk_mut(tree, &mut Reader { old, new });
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn apart(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        tell_withs_apart(&mut statements[0]);
        statements[0].to_string()
    }

    #[test]
    fn the_inner_one_gets_another_name() {
        for (given, expected) in [
            (
                "WITH a AS (SELECT 1) \
                 SELECT * FROM (WITH A AS (SELECT * FROM a) SELECT A.x FROM A)",
                "WITH a AS (SELECT 1) \
                 SELECT * FROM (WITH \"a 2\" AS (SELECT * FROM a) SELECT A.x FROM \"a 2\" AS A)",
            ),
            (
                "WITH a AS (SELECT 1), b AS (WITH a AS (SELECT 5) SELECT * FROM a AS c) \
                 SELECT * FROM a, b",
                "WITH a AS (SELECT 1), b AS (WITH \"a 2\" AS (SELECT 5) \
                 SELECT * FROM \"a 2\" AS c) SELECT * FROM a, b",
            ),
            (
                "WITH RECURSIVE a AS (WITH a AS (SELECT 2) SELECT * FROM a) SELECT * FROM a",
                "WITH RECURSIVE a AS (WITH \"a 2\" AS (SELECT 2) SELECT * FROM \"a 2\" AS a) \
                 SELECT * FROM a",
            ),
        ] {
            assert_eq!(apart(given), expected);
        }
        for same in [
            "WITH a AS (SELECT 1) SELECT * FROM a, (WITH b AS (SELECT 2) SELECT * FROM b)",
            "SELECT (WITH a AS (SELECT 1) SELECT * FROM a), (WITH a AS (SELECT 2) SELECT * FROM a)",
            "WITH b AS (WITH a AS (SELECT 5) SELECT * FROM a), a AS (SELECT 1) SELECT * FROM a, b",
        ] {
            assert_eq!(apart(same), same);
        }
    }
}
