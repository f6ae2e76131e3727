//! `ASOF`, `SEMI` and `ANTI JOIN`, which the engine does not know under these names.
//!
//! An ASOF JOIN becomes an ordinary join with a function around its condition, of which
//! [`analyze::asof`](crate::analyze::asof) makes the join again. [`ast::asof`](crate::ast::asof)
//! describes the node of the parser; [`bind::using_joins`](crate::bind::using_joins) has written
//! out USING. `SEMI JOIN` and `ANTI JOIN` are the engine's `LEFT SEMI JOIN` and `LEFT ANTI JOIN`.

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, TableWithJoins};
use swingdb_common::error::{Error, Result};

use crate::ast::asof::{self, Kind};
use crate::ast::build::call;
use crate::nodes::asof::MARK;

/// Gives a chain of joins the engine's operators.
pub(crate) fn rewrite(from: &mut TableWithJoins) -> Result<()> {
    for join in &mut from.joins {
        let operator = match &join.join_operator {
            JoinOperator::Semi(on) => JoinOperator::LeftSemi(on.clone()),
            JoinOperator::Anti(on) => JoinOperator::LeftAnti(on.clone()),
            JoinOperator::AsOf { match_condition, constraint: JoinConstraint::On(condition) } => {
                let on = JoinConstraint::On(call(MARK, [condition.clone()]));
                match asof::kind(match_condition) {
                    Some(Kind::Left) => JoinOperator::Left(on),
                    _ => JoinOperator::Join(on),
                }
            }
            JoinOperator::AsOf { .. } => {
                return Err(Error::unsupported("ASOF JOIN with USING in brackets; write ON"));
            }
            _ => continue,
        };
        join.join_operator = operator;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

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
    }
}
