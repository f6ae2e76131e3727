//! `(SELECT sum(x) FROM unnest(t.l) u(x))`: a list of the rows outside, first in a FROM.
//!
//! The engine unnests it as a relation of its own, which no subquery can be freed of. So it is made
//! a query, `FROM (SELECT unnest(t.l) AS u) u(x)`, which can be. Behind other relations, as in
//! `FROM t, unnest(t.l) u(x)`, it stays.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, TableFactor, Visit, Visitor, visit_expressions,
};
use swingdb_common::error::Result;

use crate::ast::build;

const UNNEST: &str = "unnest";

/// Makes a query of it.
pub(crate) fn derive(select: &mut Select) -> Result<()> {
    let Some(first) = select.from.first_mut() else { return Ok(()) };
    let TableFactor::UNNEST {
        alias,
        array_exprs,
        with_offset: false,
        with_ordinality: false,
        with_offset_alias: None,
    } = &mut first.relation
    else {
        return Ok(());
    };
    let [list] = array_exprs.as_mut_slice() else { return Ok(()) };
    if !has_columns(list) {
        return Ok(());
    }
    let name = alias.as_ref().map_or(UNNEST, |alias| &alias.name.value).to_string();
    let list = std::mem::replace(list, build::null());
    let item = build::item(build::call(UNNEST, [list]), name);
    first.relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(build::select(vec![item], Vec::new(), None)?),
        alias: alias.take(),
        sample: None,
    };
    Ok(())
}

/// Whether an expression has columns, other than those of subqueries in it.
fn has_columns(expr: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let is_column = |part: &Expr| matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let found = visit_expressions(expr, |part| match is_column(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break() && expr.visit(&mut Queries).is_continue()
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn a_list_of_the_rows_outside_is_a_query() {
        for (given, expected) in [
            (
                "SELECT (SELECT sum(x) FROM UNNEST(t.l) AS u (x)) FROM t",
                "SELECT (SELECT sum(x) FROM (SELECT unnest(t.l) AS \"u\") AS u (x)) FROM t",
            ),
            ("SELECT x FROM t, UNNEST(t.l) AS u (x)", "SELECT x FROM t, UNNEST(t.l) AS u (x)"),
            ("SELECT x FROM UNNEST([1, 2]) AS u (x)", "SELECT x FROM UNNEST([1, 2]) AS u (x)"),
        ] {
            assert_eq!(rewritten(given).unwrap(), expected);
        }
    }
}
