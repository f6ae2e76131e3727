//! `(a, b) IN (SELECT c, d ...)`: membership of rows among rows.
//!
//! The engine's subqueries of IN have one column. As a condition the membership is an EXISTS with
//! `c = a AND d = b`, which becomes a join by hash. Elsewhere, and negated, NULL matters: a row is
//! unknown to be a member if none is equal and with one the comparison is unknown. A row beside a
//! subquery of one column is a STRUCT among STRUCTs, which the engine knows.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, TableAliasColumnDef,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;

/// What the subquery is called. It is put below another one, so that no name of the row means a
/// column of the subquery.
const NAME: &str = "__row_members";

/// Rewrites what a condition consists of: memberships that need not be told from NULL.
pub(crate) fn in_condition(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::Nested(inner) => in_condition(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left)?;
            in_condition(right)
        }
        Expr::InSubquery { negated, .. } => {
            let negated = *negated;
            let Some(membership) = Membership::of(condition)? else { return Ok(()) };
            *condition = match negated {
                false => exists(membership.equal()?, false),
                true => exists(membership.not_different()?, true),
            };
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The membership as a value; `None` for all other expressions.
pub(crate) fn value(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::InSubquery { negated, .. } = expr else { return Ok(None) };
    let Some(membership) = Membership::of(expr)? else { return Ok(None) };
    Ok(Some(build::nested(build::case(vec![
        (exists(membership.equal()?, false), build::boolean(!*negated)),
        (exists(membership.not_different()?, false), build::null()),
        (build::boolean(true), build::boolean(*negated)),
    ]))))
}

fn exists(subquery: Query, negated: bool) -> Expr {
    Expr::Exists { subquery: Box::new(subquery), negated }
}

/// A row, and the subquery that it may be a row of.
struct Membership<'a> {
    row: &'a [Expr],
    query: &'a Query,
}

impl<'a> Membership<'a> {
    fn of(expr: &'a Expr) -> Result<Option<Self>> {
        let Expr::InSubquery { expr, subquery, .. } = expr else { return Ok(None) };
        let Expr::Tuple(row) = expr.as_ref() else { return Ok(None) };
        match width(&subquery.body) {
            Some(1) => Ok(None),
            Some(found) if found != row.len() => Err(Error::plan(format!(
                "a row of {} values IN a subquery of {found} columns",
                row.len()
            ))),
            _ => Ok(Some(Self { row, query: subquery })),
        }
    }

    /// The rows that are equal.
    fn equal(&self) -> Result<Query> {
        self.rows(|equal| equal)
    }

    /// The rows that are not known to be others.
    fn not_different(&self) -> Result<Query> {
        self.rows(|equal| Expr::IsNotFalse(Box::new(build::nested(equal))))
    }

    fn rows(&self, condition: impl FnOnce(Expr) -> Expr) -> Result<Query> {
        let name = Ident::new(NAME);
        let columns: Vec<String> =
            (1..=self.row.len()).map(|at| format!("__row_member_{at}")).collect();
        let mut alias = build::alias(&name);
        let column =
            |name: &String| TableAliasColumnDef { name: Ident::new(name), data_type: None };
        alias.columns = columns.iter().map(column).collect();
        let inner = build::derived(self.query.clone(), Some(alias));
        let equal = columns.iter().zip(self.row).map(|(column, value)| {
            build::binary(build::field(&name, column), BinaryOperator::Eq, value.clone())
        });
        let condition = condition(build::all(equal));
        let one = vec![SelectItem::UnnamedExpr(build::integer(1))];
        build::select(one, vec![build::from(inner)], Some(condition))
    }
}

/// How many columns a query has, where its text says so.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let named = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(named).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn conditions_are_joins() {
        assert_eq!(
            rewritten("SELECT 1 FROM t WHERE (a, b) IN (SELECT a, b FROM s)").unwrap(),
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM (SELECT a, b FROM s) AS \
             __row_members (__row_member_1, __row_member_2) WHERE \
             (__row_members.\"__row_member_1\" = a) AND (__row_members.\"__row_member_2\" = b))"
        );
    }

    #[test]
    fn widths_that_differ() {
        assert!(rewritten("SELECT (a, b) IN (SELECT 1, 2, 3)").is_err());
        let one = "SELECT (a, b) IN (SELECT c FROM s)";
        assert_eq!(rewritten(one).unwrap(), one);
    }
}
