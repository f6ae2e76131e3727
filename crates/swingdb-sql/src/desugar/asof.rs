//! `ASOF JOIN`, which the parser knows from another database only, with another syntax.
//!
//! `a ASOF JOIN b ON ...` is read as `a GLOBAL JOIN b ON ...`, a word of yet another database that
//! the parser keeps and nobody here uses. From then on that mark is the function around the
//! condition, of which [`analyze::asof`](crate::analyze::asof) makes the join.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, TableWithJoins,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::call;
use crate::ast::names::constraint_mut;
use crate::nodes::asof::MARK;

/// Whether this is an ASOF JOIN whose condition is not marked yet.
pub(crate) fn is_open(join: &Join) -> bool {
    join.global
}

/// Marks the conditions of a chain of joins; USING is left to who knows the columns.
pub(crate) fn mark(from: &mut TableWithJoins) -> Result<()> {
    use JoinOperator as J;
    for join in from.joins.iter_mut().filter(|join| is_open(join)) {
        if !matches!(join.join_operator, J::Join(_) | J::Inner(_) | J::Left(_) | J::LeftOuter(_)) {
            return Err(Error::unsupported(
                "ASOF JOIN of this kind; write ASOF JOIN or ASOF LEFT JOIN, with the sides \
                 exchanged perhaps",
            ));
        }
        match constraint_mut(&mut join.join_operator) {
            Some(JoinConstraint::Using(_)) => {}
            Some(JoinConstraint::On(condition)) => {
                *condition = marked(condition.clone());
                close(join);
            }
            _ => {
                return Err(Error::plan(
                    "ASOF JOIN needs a condition: ON a.k = b.k AND a.t >= b.t, or USING (k, t)",
                ));
            }
        }
    }
    Ok(())
}

/// As [`mark`], of joins in brackets.
pub(crate) fn mark_nested(from: &mut TableWithJoins) -> Result<()> {
    mark(from)?;
    match from.joins.iter().any(is_open) {
        true => Err(Error::unsupported("ASOF JOIN with USING in brackets; write ON")),
        false => Ok(()),
    }
}

/// The condition of `USING (k, t)`: what is said of the last column is `>=`.
pub(crate) fn nearest(mut equal: Vec<Expr>) -> Expr {
    if let Some(Expr::BinaryOp { op, .. }) = equal.last_mut() {
        *op = BinaryOperator::GtEq;
    }
    marked(build::all(equal))
}

/// After the condition has been put for USING.
pub(crate) fn close(join: &mut Join) {
    join.global = false;
}

fn marked(condition: Expr) -> Expr {
    call(MARK, [condition])
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use crate::desugar::tests::rewritten;
    use crate::text::asof::written;
    use crate::text::parser::parse;
    use crate::text::statement::Parsed;

    #[test]
    fn asof_as_it_is_written() {
        let parsed = |sql: &str| match parse(sql).unwrap().pop_front() {
            Some(Parsed::Sql(statement)) => *statement,
            other => panic!("{other:?}"),
        };
        let text = "SELECT 'ASOF JOIN' FROM (a ASOF JOIN b ON a.t < b.t) ASOF LEFT JOIN c \
                    ON a.k = c.k AND a.t >= c.t";
        let mut statement = parsed(text);
        crate::desugar::rewrite(&mut crate::desugar::tests::Unknown, &mut statement).unwrap();
        let marked = "SELECT 'ASOF JOIN' FROM (a JOIN b ON asof_join(a.t < b.t)) LEFT JOIN c \
                      ON asof_join(a.k = c.k AND a.t >= c.t)";
        assert_eq!(statement.to_string(), marked);
        let Statement::Query(query) = statement else { panic!("{statement}") };
        assert_eq!(written(query.as_ref()), text);
        assert!(rewritten("SELECT 1 FROM a GLOBAL FULL JOIN b ON a.t < b.t").is_err());
    }
}
