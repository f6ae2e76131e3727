//! Clauses of a UNION in a WITH RECURSIVE that the query engine does not read.
//!
//! The engine takes each UNION of a WITH RECURSIVE for a recursion, and reads neither LIMIT nor
//! ORDER BY of it. Of a UNION that does not name itself they count: [`settle`] puts a query around
//! it. Of one that names itself they are [refused](crate::text::clauses) when it is parsed.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, Values};

use crate::ast::build;
use crate::ast::walk::reads;

/// Keeps what is ordered or cut in a WITH RECURSIVE, and does not name itself, whole.
pub(crate) fn settle(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for cte in &mut with.cte_tables {
        let is_union = matches!(*cte.query.body, SetExpr::SetOperation { .. });
        let is_cut = cte.query.order_by.is_some()
            || cte.query.limit_clause.is_some()
            || cte.query.fetch.is_some();
        if is_union && is_cut && !reads(&cte.query.body, &cte.alias.name.value) {
            let around = build::query(SetExpr::Values(no_rows()));
            let inner = std::mem::replace(&mut *cte.query, around);
            *cte.query.body = SetExpr::Query(Box::new(inner));
        }
    }
}

fn no_rows() -> Values {
    Values { explicit_row: false, value_keyword: false, rows: Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn a_union_that_does_not_name_itself_stays_whole() {
        let recursive = "WITH RECURSIVE c (x) AS \
                         (SELECT 1 UNION ALL SELECT x + 1 FROM C WHERE x < 5) SELECT x FROM c";
        assert_eq!(rewritten(recursive).unwrap(), recursive);
        let other = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 2 LIMIT 1) SELECT x FROM c";
        assert_eq!(
            rewritten(other).unwrap(),
            "WITH RECURSIVE c (x) AS ((SELECT 1 UNION ALL SELECT 2 LIMIT 1)) SELECT x FROM c"
        );
    }
}
