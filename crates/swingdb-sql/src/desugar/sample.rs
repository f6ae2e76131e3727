//! `TABLESAMPLE`, which the engine would ignore.
//!
//! A share is the rows for which `random()` is below it, as BERNOULLI means; SYSTEM, which may take
//! neighbours together, gets the same. A number of rows is that many in random order. REPEATABLE
//! puts the hash of a row's number and the seed for `random()`: the same rows give the same
//! sample.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    SelectItem, TableFactor, TableSample, TableSampleKind, TableSampleSeed, TableSampleUnit, Value,
    WildcardAdditionalOptions, WindowSpec, WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::{DOUBLE, call, cast, text};

enum Amount {
    Rows(Expr),
    Percent(Expr),
}

/// Puts a query that takes a sample for a table that has the clause.
pub(crate) fn rewrite(factor: &mut TableFactor) -> Result<()> {
    let (sample, alias) = match factor {
        TableFactor::Table { sample, alias, name, .. } if sample.is_some() => {
            let named = name.0.last().and_then(|part| part.as_ident()).cloned();
            (sample.take(), alias.take().or_else(|| named.as_ref().map(build::alias)))
        }
        TableFactor::Derived { sample, alias, .. } => (sample.take(), alias.clone()),
        _ => return Ok(()),
    };
    let Some(kind) = sample else { return Ok(()) };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        kind;
    let draw = drawn(sample.seed.as_ref())?;
    let is_repeatable = sample.seed.is_some();
    let amount = amount(*sample)?;
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let relation = build::from(factor.clone());
    let query = match amount {
        Amount::Percent(percent) => {
            let hundred = Expr::Value(Value::Number("100.0".into(), false).with_empty_span());
            let share = build::binary(percent, BinaryOperator::Divide, hundred);
            let chosen = build::binary(draw, BinaryOperator::Lt, share);
            if is_repeatable {
                let mut query = build::select(vec![all], vec![relation], None)?;
                build::select_of(&mut query)?.qualify = Some(chosen);
                query
            } else {
                build::select(vec![all], vec![relation], Some(chosen))?
            }
        }
        Amount::Rows(rows) => {
            let mut query = build::select(vec![all], vec![relation], None)?;
            let order = OrderByExpr {
                expr: draw,
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

/// A number from 0 to 1 for each row.
fn drawn(seed: Option<&TableSampleSeed>) -> Result<Expr> {
    let Some(TableSampleSeed { modifier: _, value }) = seed else { return Ok(call("random", [])) };
    if !matches!(value.value, Value::Number(..)) {
        return Err(Error::plan(format!("REPEATABLE needs a number, and has {value}")));
    }
    let mut row = call("row_number", []);
    if let Expr::Function(function) = &mut row {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by: Vec::new(),
            window_frame: None,
        }));
    }
    let hash = cast(call("hash", [Expr::Value(value.clone()), row]), DOUBLE);
    // How many hashes there are.
    let all = cast(text("18446744073709551616"), DOUBLE);
    Ok(build::binary(hash, BinaryOperator::Divide, all))
}

fn amount(sample: TableSample) -> Result<Amount> {
    if sample.bucket.is_some() || sample.offset.is_some() {
        return Err(Error::unsupported("TABLESAMPLE with BUCKET or OFFSET"));
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
    use crate::desugar::tests::rewritten;

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
        assert_eq!(
            rewritten("SELECT a FROM t TABLESAMPLE (5 PERCENT) REPEATABLE (7)").unwrap(),
            "SELECT a FROM (SELECT * FROM t \
             QUALIFY ((CAST(hash(7, row_number() OVER ()) AS DOUBLE)) \
             / (CAST('18446744073709551616' AS DOUBLE))) < (5 / 100.0)) AS t"
        );
        let no_seed = "SELECT a FROM t TABLESAMPLE (5 ROWS) REPEATABLE ('x')";
        assert!(crate::text::parser::parse(no_seed).is_err());
        for same in ["SELECT a FROM t", "SELECT a FROM main.t", "SELECT a FROM t AS x"] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
    }
}
