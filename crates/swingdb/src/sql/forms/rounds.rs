//! Clauses of a recursive query that the query engine does not read.
//!
//! `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5)`: what LIMIT, OFFSET
//! and ORDER BY of a query that names itself mean is not settled in SQL; DuckDB and PostgreSQL
//! refuse them, and so does [`settle`]. Of a UNION that does not name itself they count. The engine
//! takes each UNION of a WITH RECURSIVE for a recursion, so these get a query around them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, SetExpr, Values, VisitorMut};

use crate::error::{Error, Result};
use crate::sql::visit::walk_mut;
use crate::sql::write::ast;

/// Refuses recursive queries of a WITH that are ordered or cut; others that are stay whole.
pub(super) fn settle(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    for cte in &mut with.cte_tables {
        let name = &cte.alias.name;
        let Some(clause) = clause_of_union(&cte.query) else { continue };
        if names(&cte.query.body, &name.value) {
            return Err(Error::unsupported(format!(
                "{clause} of the recursive query {name}; write it in the query that reads {name}: \
                 SELECT ... FROM {name} {clause} ..."
            )));
        }
        if matches!(*cte.query.body, SetExpr::SetOperation { .. }) {
            let around = ast::query(SetExpr::Values(no_rows()));
            let inner = std::mem::replace(&mut *cte.query, around);
            *cte.query.body = SetExpr::Query(Box::new(inner));
        }
    }
    Ok(())
}

fn no_rows() -> Values {
    Values { explicit_row: false, value_keyword: false, rows: Vec::new() }
}

/// A clause behind a UNION that orders its rows or leaves some out.
fn clause_of_union(query: &Query) -> Option<&'static str> {
    let inner = match query.body.as_ref() {
        SetExpr::SetOperation { .. } => None,
        SetExpr::Query(inner) => clause_of_union(inner),
        _ => return None,
    };
    inner.or(match query {
        Query { order_by: Some(_), .. } => Some("ORDER BY"),
        Query { limit_clause: Some(_), .. } | Query { fetch: Some(_), .. } => Some("LIMIT"),
        _ => None,
    })
}

/// Whether a query reads what has a name.
fn names(body: &SetExpr, name: &str) -> bool {
    struct Finder<'a>(&'a str);
    impl VisitorMut for Finder<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
            let [part] = relation.0.as_slice() else { return ControlFlow::Continue(()) };
            match part.as_ident().is_some_and(|own| own.value.eq_ignore_ascii_case(self.0)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk_mut(&mut body.clone(), &mut Finder(name)).is_break()
}

#[cfg(test)]
mod tests {
    use super::super::tests::rewritten;

    #[test]
    fn a_recursive_query_is_neither_ordered_nor_cut() {
        let with = |end: &str| {
            rewritten(&format!(
                "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM C{end})
                 SELECT x FROM c"
            ))
        };
        for end in [" LIMIT 5", " OFFSET 1", " ORDER BY 1", " FETCH FIRST 3 ROWS ONLY"] {
            assert!(with(end).is_err(), "{end}");
        }
        assert!(with(" WHERE x < 5").is_ok());
        let other = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 2 LIMIT 1) SELECT x FROM c";
        assert_eq!(
            rewritten(other).unwrap(),
            "WITH RECURSIVE c (x) AS ((SELECT 1 UNION ALL SELECT 2 LIMIT 1)) SELECT x FROM c"
        );
    }
}
