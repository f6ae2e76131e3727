//! `x > ANY (SELECT ...)`, `x <= ALL (SELECT ...)` and the like.
//!
//! `x = ANY` is IN and `x <> ALL` is NOT IN. Any other comparison with ANY holds when it holds with
//! the least element (`>`, `>=`), the greatest (`<`, `<=`) or one of the two (`<>`); when it does
//! not, it is unknown if `x` or an element is NULL and false otherwise, and always false without
//! elements. ALL is the opposite comparison with ANY, negated. Of a list it is the other way round:
//! the engine knows ALL.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator as Op, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableAliasColumnDef, UnaryOperator, Value,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::call;

/// The comparison in another form; `None` when it is one with all of a list, or membership of a
/// written one, which the engine knows.
pub(crate) fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return Ok(None),
    };
    let Some(query) = subquery(right) else {
        let known = all || (*op == Op::Eq && is_written(right));
        return if known { Ok(None) } else { of_list(left, op, right).map(Some) };
    };
    let op = if all { opposite(op)? } else { op.clone() };
    let any = match op {
        Op::Eq => {
            return Ok(Some(Expr::InSubquery {
                expr: left.clone(),
                subquery: Box::new(query.clone()),
                negated: all,
            }));
        }
        op => any(left, &op, query)?,
    };
    let whole = build::nested(any);
    Ok(Some(match all {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(whole) },
        false => whole,
    }))
}

/// `x = ANY (list)`, which is unknown where no element is equal and one is NULL, which the engine
/// forgets. Membership stays as it is, and is what is left where a list has no NULL.
fn of_list(left: &Expr, op: &Op, list: &Expr) -> Result<Expr> {
    if *op == Op::Eq {
        let has = call("array_has", [list.clone(), left.clone()]);
        let null = call("array_position", [list.clone(), build::null()]);
        let unknown = build::case(vec![
            (Expr::IsNotNull(Box::new(null)), build::null()),
            (build::boolean(true), build::boolean(false)),
        ]);
        // Nothing is among no elements.
        let empty = call("empty", [list.clone()]);
        let member = build::binary(has, Op::Or, unknown);
        let found = vec![(empty, build::boolean(false)), (build::boolean(true), member)];
        return Ok(build::nested(build::case(found)));
    }
    let all = Expr::AllOp {
        left: Box::new(left.clone()),
        compare_op: opposite(op)?,
        right: Box::new(list.clone()),
    };
    Ok(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(build::nested(all)) })
}

/// Whether this is a list of written values, none of which is NULL.
fn is_written(list: &Expr) -> bool {
    let is_value =
        |expr: &Expr| matches!(expr, Expr::Value(value) if !matches!(value.value, Value::Null));
    matches!(list, Expr::Array(list) if list.elem.iter().all(is_value))
}

fn subquery(right: &Expr) -> Option<&Query> {
    match right {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

fn opposite(op: &Op) -> Result<Op> {
    Ok(match op {
        Op::Eq => Op::NotEq,
        Op::NotEq => Op::Eq,
        Op::Lt => Op::GtEq,
        Op::LtEq => Op::Gt,
        Op::Gt => Op::LtEq,
        Op::GtEq => Op::Lt,
        other => return Err(unknown(other)),
    })
}

fn unknown(op: &Op) -> Error {
    Error::unsupported(format!("the operator {op} with ANY or ALL"))
}

fn any(left: &Expr, op: &Op, query: &Query) -> Result<Expr> {
    let with = |bound: &str| -> Result<Expr> {
        Ok(build::binary(left.clone(), op.clone(), aggregate(query, |e| call(bound, [e]))?))
    };
    let holds = match op {
        Op::Gt | Op::GtEq => with("min")?,
        Op::Lt | Op::LtEq => with("max")?,
        Op::NotEq => build::binary(with("min")?, Op::Or, with("max")?),
        other => return Err(unknown(other)),
    };
    let rows = aggregate(query, |_| call("count", [build::integer(1)]))?;
    let nulls = aggregate(query, |e| {
        build::binary(call("count", [build::integer(1)]), Op::Minus, call("count", [e]))
    })?;
    let null = build::binary(
        Expr::IsNull(Box::new(build::nested(left.clone()))),
        Op::Or,
        build::binary(nulls, Op::Gt, build::integer(0)),
    );
    Ok(build::case(vec![
        (holds, build::boolean(true)),
        (build::binary(rows, Op::Eq, build::integer(0)), build::boolean(false)),
        (null, build::null()),
        (build::boolean(true), build::boolean(false)),
    ]))
}

/// The subquery with `of` its one column instead of the column. A query that is more than FROM and
/// WHERE is put below another one.
fn aggregate(query: &Query, of: impl FnOnce(Expr) -> Expr) -> Result<Expr> {
    const NAME: &str = "quantified";
    const COLUMN: &str = "element";
    let mut whole = query.clone();
    if let SetExpr::Select(select) = whole.body.as_mut()
        && let Some(element) = plain(query, select)
    {
        select.projection = vec![SelectItem::UnnamedExpr(of(element))];
        whole.order_by = None;
        return Ok(Expr::Subquery(Box::new(whole)));
    }
    let name = Ident::new(NAME);
    let mut alias = build::alias(&name);
    let column = Ident::new(COLUMN);
    alias.columns = vec![TableAliasColumnDef { name: column, data_type: None }];
    let inner = build::derived(whole, Some(alias));
    let element = of(build::field(&name, COLUMN));
    let query =
        build::select(vec![SelectItem::UnnamedExpr(element)], vec![build::from(inner)], None)?;
    Ok(Expr::Subquery(Box::new(query)))
}

/// The element of a SELECT of one expression that has neither aggregates nor anything behind WHERE.
fn plain(query: &Query, select: &Select) -> Option<Expr> {
    let sorted_only = query.limit_clause.is_none()
        && !matches!(query.order_by.as_ref().map(|o| &o.kind), Some(OrderByKind::All(_)));
    let ungrouped = matches!(&select.group_by,
        GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty());
    let bare = !select.from.is_empty()
        && select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none();
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let mut calls = false;
    build::rewrite_exprs(&mut expr.clone(), |part| calls |= matches!(part, Expr::Function(_)));
    (sorted_only && ungrouped && bare && !calls).then(|| expr.clone())
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn equality_is_membership() {
        assert_eq!(
            rewritten("SELECT 1 FROM t WHERE a = ANY (SELECT b FROM s)").unwrap(),
            "SELECT 1 FROM t WHERE a IN (SELECT b FROM s)"
        );
        assert_eq!(
            rewritten("SELECT 1 FROM t WHERE a <> ALL (SELECT b FROM s)").unwrap(),
            "SELECT 1 FROM t WHERE a NOT IN (SELECT b FROM s)"
        );
        let list = "SELECT 1 = ANY([1, 2])";
        assert_eq!(rewritten(list).unwrap(), "SELECT 1 = ANY([1, 2])");
    }

    #[test]
    fn bounds_stand_for_all_elements() {
        let some = rewritten("SELECT a > ANY (SELECT b FROM s WHERE c)").unwrap();
        assert!(some.contains("a > ((SELECT min(b) FROM s WHERE c))"), "{some}");
        let all = rewritten("SELECT a >= ALL (SELECT b FROM s)").unwrap();
        assert!(
            all.starts_with("SELECT NOT (CASE WHEN a < ((SELECT min(b)")
                || all.starts_with("SELECT NOT (CASE WHEN a < ((SELECT max(b)"),
            "{all}"
        );
        assert!(all.contains("max(b)"), "{all}");
        let grouped = rewritten("SELECT a < ANY (SELECT sum(b) FROM s GROUP BY c)").unwrap();
        assert!(grouped.contains("FROM (SELECT sum(b) FROM s GROUP BY c) AS quantified"));
    }
}
