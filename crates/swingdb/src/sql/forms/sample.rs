//! `TABLESAMPLE`, which the engine would ignore.
//!
//! A share is the rows for which `random()` is below it, as BERNOULLI means; SYSTEM, which may take
//! neighbours together, gets the same. A number of rows is that many in random order.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    SelectItem, TableFactor, TableSample, TableSampleKind, TableSampleUnit, Value,
    WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, Result};

use super::call;
use crate::sql::write::ast;

enum Amount {
    Rows(Expr),
    Percent(Expr),
}

/// Puts a query that takes a sample for a table that has the clause.
pub(super) fn rewrite(factor: &mut TableFactor) -> Result<()> {
    let (sample, alias) = match factor {
        TableFactor::Table { sample, alias, name, .. } if sample.is_some() => {
            let named = name.0.last().and_then(|part| part.as_ident()).cloned();
            (sample.take(), alias.take().or_else(|| named.as_ref().map(ast::alias)))
        }
        TableFactor::Derived { sample, alias, .. } => (sample.take(), alias.clone()),
        _ => return Ok(()),
    };
    let Some(kind) = sample else { return Ok(()) };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        kind;
    let amount = amount(*sample)?;
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let random = || call("random", []);
    let relation = ast::from(factor.clone());
    let query = match amount {
        Amount::Percent(percent) => {
            let hundred = Expr::Value(Value::Number("100.0".into(), false).with_empty_span());
            let share = ast::binary(percent, BinaryOperator::Divide, hundred);
            let chosen = ast::binary(random(), BinaryOperator::Lt, share);
            ast::select(vec![all], vec![relation], Some(chosen))?
        }
        Amount::Rows(rows) => {
            let mut query = ast::select(vec![all], vec![relation], None)?;
            let order = OrderByExpr {
                expr: random(),
                options: OrderByOptions { asc: None, nulls_first: None },
                with_fill: None,
            };
            let kind = OrderByKind::Expressions(vec![order]);
            query.order_by = Some(OrderBy { kind, interpolate: None });
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
            query
        }
    };
    *factor =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}

fn amount(sample: TableSample) -> Result<Amount> {
    if sample.seed.is_some() || sample.bucket.is_some() || sample.offset.is_some() {
        return Err(Error::unsupported("TABLESAMPLE with REPEATABLE, BUCKET or OFFSET"));
    }
    let Some(quantity) = sample.quantity else {
        return Err(Error::plan("TABLESAMPLE needs a number of rows or a percentage"));
    };
    if !matches!(quantity.value, Expr::Value(_)) {
        let given = quantity.value;
        return Err(Error::plan(format!("TABLESAMPLE needs a number, and has {given}")));
    }
    Ok(match (quantity.unit, sample.name) {
        (Some(TableSampleUnit::Percent), _) | (None, Some(_)) => Amount::Percent(quantity.value),
        (Some(TableSampleUnit::Rows) | None, _) => Amount::Rows(quantity.value),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::rewritten;

    #[test]
    fn shares_and_rows() {
        assert_eq!(
            rewritten("SELECT x.a FROM main.t AS x TABLESAMPLE BERNOULLI (10)").unwrap(),
            "SELECT x.a FROM (SELECT * FROM main.t WHERE (random()) < (10 / 100.0)) AS x"
        );
        assert_eq!(
            rewritten("SELECT t.a FROM main.t TABLESAMPLE 5 ROWS").unwrap(),
            "SELECT t.a FROM (SELECT * FROM main.t ORDER BY random() LIMIT 5) AS t"
        );
        assert!(rewritten("SELECT a FROM t TABLESAMPLE 5 PERCENT REPEATABLE (1)").is_err());
        for same in ["SELECT a FROM t", "SELECT a FROM main.t", "SELECT a FROM t AS x"] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
    }
}
