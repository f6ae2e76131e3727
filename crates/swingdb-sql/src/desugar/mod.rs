//! Short forms: what the query engine refuses, or takes for something else, rewritten in the syntax
//! tree into forms it plans right.
//!
//! A pass of this stage sees one statement. What it has to know of columns, such as those that a
//! `*` shows, it is told through [`relations::Relations`]. Forms that need the catalogs are
//! written out in [`bind`](super::bind), forms that the parser does not take in
//! [`text`](super::text::forms).
//!
//! | this | becomes |
//! |---|---|
//! | `x > ANY (SELECT ...)`, `ALL` | [`quantified`]: comparisons with the least or greatest |
//! | `a ASOF JOIN b ON a.t >= b.t` | [`joins`]: `a JOIN b ON asof_join(a.t >= b.t)` |
//! | `a SEMI JOIN b`, `ANTI` | [`joins`]: `a LEFT SEMI JOIN b` |
//! | `(a, b) IN (SELECT c, d ...)` | [`row_members`]: `EXISTS (... c = a AND d = b)` |
//! | `t TABLESAMPLE 10 PERCENT` | [`sample`]: a query with `random()` |
//! | `(expr).field` | [`members`]: `(expr)['field']` |
//! | `FROM range(3)` | [`series`]: `FROM range(3) AS range (range)` |
//! | `FROM json_each(j)` | [`json_rows`]: a query that takes a list of rows apart |
//! | `json_transform(j, '{"a": "INT"}')` | [`json_transform`]: `TRY_CAST(... AS STRUCT(a INT))` |
//! | `x SIMILAR TO 'a+'` | `regexp_like` of the whole text; the engine looks for a part |
//! | `x LIKE 'a$%' ESCAPE '$'` | `x LIKE 'a\\%'`: the engine knows the backslash only |
//! | `s ^@ 'a'` | `starts_with(s, 'a')` |
//! | `l && m` | `list_has_any(l, m)` |
//! | `a IS DISTINCT FROM b` | an operator, which is planned as other comparisons are |
//! | `[a, (SELECT 1)]` | `make_array(a, (SELECT 1))`: a list forgets the query around it |
//! | `list[2:]`, `list[:2]` | `list[2:2147483647]`, `list[1:2]` |
//! | `7 // 2` | `7 / 2`, which is whole for whole numbers |
//! | `json -> 'a'`, `json ->> 'a'` | `json_extract(json, 'a')`, `json_extract_string(json, 'a')` |
//! | `CAST(x AS JSON)`, `JSON '{}'` | `as_json(x)`, which checks text |
//! | `'t'::regclass`, `x::oid` | [`registered`]: `regclass('t')`, `CAST(x AS BIGINT)` |
//! | `2 ^ 3`, `2 ** 3` | `power(2, 3)`, as in PostgreSQL and DuckDB; the engine means XOR |
//! | `~x + 1` | `bitwise_not(x + 1)` |
//! | `quantile_disc(x, 0.5 ORDER BY y)`, `max` | without it; the engine means that of `y` |
//! | `quantile_disc(x, 0.1 ORDER BY x DESC)` | `percentile_disc(0.1) WITHIN GROUP (...)` |
//! | `INTERVAL (n) DAY` | the interval that the text `n days` means |
//! | `INTERVAL '1 day 02:03'` | [`intervals`]: `INTERVAL '1 day 2 hours 3 minutes'` |
//! | `x AT TIME ZONE 'Asia/Tokyo'` | `at_time_zone('Asia/Tokyo', x)` |
//! | `1e300` | the DOUBLE, as in DuckDB; the engine takes it for a DECIMAL |
//! | `ORDER BY ALL` | [`order_by_all`]: `ORDER BY 1, 2` |
//! | `GROUP BY ()` | `HAVING count(1) >= 0`: one group, also of no rows |
//! | `SELECT 42 HAVING true` | `HAVING count(1) >= 0 AND true`: the same |
//! | `GROUP BY ROLLUP ((a, b), c)` | [`grouping_sets`]: `GROUPING SETS ((a, b, c), (a, b), ())` |
//! | `WITH` that hides another around it | [`inner_withs`]: under another name |
//! | `ORDER BY 'x'`, `list(x ORDER BY 1)` | [`constants`]: an error; `list(x ORDER BY (1))` |
//! | `SELECT DISTINCT ON (a) ... ORDER BY b` | [`distinct_on`]: `QUALIFY row_number() ... = 1` |
//! | `SELECT unnest(l) FROM t ORDER BY id` | [`unnested_order`]: of a query that has `id`, too |
//! | `SELECT -a AS a, unnest(l) FROM t` | [`unnested_names`]: with another name below |
//! | `(SELECT x FROM unnest(t.l) u(x))` | [`correlated_lists`]: `FROM (SELECT unnest(t.l) ...)` |
//! | `(a + 1, b)` | a STRUCT literal; the engine takes it where a column comes first |
//! | `FETCH FIRST 3 ROWS ONLY` | `LIMIT 3` |
//! | `SELECT ... LIMIT 40%` | [`limit_percent`]: a query around it, with `row_number()` |
//! | `sum(x) OVER (w ORDER BY x)` | [`windows`]: with the PARTITION BY of the window `w` |
//!
//! What is refused here is what the engine would otherwise take for something else without a word.

pub(crate) mod cast_names;
pub(crate) mod constants;
pub(crate) mod correlated_lists;
pub(crate) mod distinct_on;
pub(crate) mod expressions;
pub(crate) mod grouping_sets;
pub(crate) mod inner_withs;
pub(crate) mod intervals;
pub(crate) mod joins;
pub(crate) mod json_rows;
pub(crate) mod json_transform;
pub(crate) mod limit_percent;
pub(crate) mod members;
pub(crate) mod order_by_all;
pub(crate) mod quantified;
pub(crate) mod recursive_unions;
pub(crate) mod registered;
pub(crate) mod relations;
pub(crate) mod row_members;
pub(crate) mod same_names;
pub(crate) mod sample;
pub(crate) mod series;
pub(crate) mod tries;
pub(crate) mod unnested_names;
pub(crate) mod unnested_order;
pub(crate) mod windows;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, LimitClause, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, TableWithJoins, VisitorMut, visit_expressions,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::call;
use crate::ast::walk::walk_mut;
use crate::desugar::relations::Relations;

/// Applies all rewrites of the [module documentation](self). Names must be resolved.
pub(crate) fn rewrite(relations: &mut dyn Relations, statement: &mut Statement) -> Result<()> {
    let mut rewriter = Rewriter { relations, failed: None };
    // Breaks only with an error, which the rewriter keeps.
    let _ = walk_mut(statement, &mut rewriter);
    match rewriter.failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct Rewriter<'a> {
    relations: &'a mut dyn Relations,
    failed: Option<Error>,
}

impl Rewriter<'_> {
    fn keep(&mut self, result: Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let shared = limit_percent::rewrite(query);
        self.keep(shared)?;
        self.relations.enter(query);
        recursive_unions::settle(query);
        let relations = &*self.relations;
        let stars = |item: &SelectItem, from: &[TableWithJoins]| relations.columns_of(item, from);
        let result = order_by_all::rewrite(query, &stars)
            .and_then(|()| constants::check(query))
            .and_then(|()| fetch(query))
            .and_then(|()| windows::rewrite(query))
            .and_then(|()| distinct_on::rewrite(query, &stars))
            .and_then(|()| unnested_order::rewrite(query))
            .and_then(|()| unnested_names::rewrite(query));
        self.keep(result)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        one_group(select);
        let conditions = select.selection.iter_mut().chain(&mut select.having);
        let result = conditions
            .into_iter()
            .try_for_each(row_members::in_condition)
            .and_then(|()| grouping_sets::rewrite(select))
            .and_then(|()| correlated_lists::derive(select))
            .and_then(|()| select.from.iter_mut().try_for_each(joins::rewrite));
        self.keep(result)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.relations.leave();
        if let SetExpr::Values(values) = query.body.as_mut() {
            let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or_default();
            for column in 0..width {
                let cells = values.rows.iter_mut().filter_map(|row| row.content.get_mut(column));
                let mut cells = cells.collect::<Vec<_>>();
                expressions::as_marked(cells.iter_mut().map(|cell| &mut **cell).collect());
                expressions::as_doubles(cells);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let result = match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => joins::rewrite(table_with_joins),
            _ => sample::rewrite(factor),
        };
        self.keep(result)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        expressions::regroup(expr);
        let result = row_members::value(expr);
        self.keep(result.map(|new| new.into_iter().for_each(|new| *expr = new)))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let result = expressions::rewrite(expr);
        self.keep(result)
    }
}

/// `GROUP BY ()` is one group, also of no rows, and so a condition on an aggregate is. The engine
/// knows that of HAVING with an aggregate in it.
fn one_group(select: &mut Select) {
    let GroupByExpr::Expressions(by, modifiers) = &mut select.group_by else { return };
    let before = by.len();
    by.retain(|expr| !matches!(expr, Expr::Tuple(parts) if parts.is_empty()));
    if !by.is_empty() || !modifiers.is_empty() {
        return;
    }
    if before == 0 && select.having.as_ref().is_none_or(calls_something) {
        return;
    }
    let mut count =
        build::binary(call("count", [build::integer(1)]), BinaryOperator::GtEq, build::integer(0));
    if let Some(having) = select.having.take() {
        count = build::all([count, having]);
    }
    select.having = Some(count);
}

fn calls_something(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `OFFSET 2 FETCH FIRST 3 ROWS ONLY` is `LIMIT 3 OFFSET 2`.
fn fetch(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        return Err(Error::unsupported("FETCH ... WITH TIES and FETCH ... PERCENT"));
    }
    let rows = fetch.quantity.unwrap_or_else(|| build::integer(1));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
            Ok(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            Ok(())
        }
        Some(_) => Err(Error::plan("a query has either LIMIT or FETCH, not both")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    /// Knows of no relation.
    pub(crate) struct Unknown;

    impl Relations for Unknown {
        fn enter(&mut self, _query: &Query) {}

        fn leave(&mut self) {}

        fn names_of(&self, _factor: &TableFactor) -> Option<Vec<String>> {
            None
        }

        fn columns_of(&self, _item: &SelectItem, _from: &[TableWithJoins]) -> Option<Vec<Expr>> {
            None
        }
    }

    pub(crate) fn rewritten(sql: &str) -> Result<String> {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        rewrite(&mut Unknown, &mut statements[0])?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn operators_and_intervals() {
        assert_eq!(rewritten("SELECT 2 * 3 ^ 2").unwrap(), "SELECT 2 * power(3, 2)");
        assert_eq!(rewritten("SELECT -2 ^ a ^ 2").unwrap(), "SELECT power(power(-2, a), 2)");
        assert_eq!(rewritten("SELECT 1 << 2 + 1").unwrap(), "SELECT 1 << 2 + 1");
        assert_eq!(
            rewritten("SELECT INTERVAL 3 DAY").unwrap(),
            "SELECT INTERVAL '0 months 3 days 0 nanoseconds'"
        );
        assert_eq!(
            rewritten("SELECT INTERVAL (a + 1) HOUR FROM t").unwrap(),
            "SELECT CAST((CAST(a + 1 AS VARCHAR)) || ' hour' AS INTERVAL) FROM t"
        );
        assert_eq!(rewritten("SELECT 2 + 7 // 2 * a").unwrap(), "SELECT 2 + 7 // 2 * a");
    }

    #[test]
    fn an_exponent_makes_a_double() {
        let double = rewritten("SELECT 1e300, 15, 1.5").unwrap();
        assert_eq!(double, "SELECT CAST('1e300' AS DOUBLE), 15, 1.5");
        let insert = "INSERT INTO t VALUES (1e3)";
        assert_eq!(rewritten(insert).unwrap(), "INSERT INTO t VALUES (CAST('1e3' AS DOUBLE))");
        assert_eq!(
            rewritten("VALUES (1e3, 1.5), (-2.5, [1, 0.5, -1e3])").unwrap(),
            "VALUES (CAST('1e3' AS DOUBLE), 1.5), \
             (CAST(-2.5 AS DOUBLE), [1, CAST(0.5 AS DOUBLE), -CAST('1e3' AS DOUBLE)])"
        );
    }

    #[test]
    fn all_columns_in_their_order() {
        assert_eq!(
            rewritten("SELECT a, sum(b) AS c FROM t ORDER BY ALL DESC").unwrap(),
            "SELECT a, sum(b) AS c FROM t ORDER BY 1 DESC, 2 DESC"
        );
        let stars = "SELECT * FROM t ORDER BY ALL";
        assert_eq!(rewritten(stars).unwrap(), stars);
    }

    #[test]
    fn fetch_is_limit() {
        assert_eq!(
            rewritten("SELECT 1 OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY").unwrap(),
            "SELECT 1 LIMIT 3 OFFSET 2 ROWS"
        );
        assert_eq!(rewritten("SELECT 1 FETCH FIRST ROW ONLY").unwrap(), "SELECT 1 LIMIT 1");
        assert!(rewritten("SELECT 1 FETCH FIRST 3 ROWS WITH TIES").is_err());
    }
}
