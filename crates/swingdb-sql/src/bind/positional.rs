//! `a POSITIONAL JOIN b`: the first row of the one side with the first row of the other, and so on;
//! NULLs where a side has no more rows.
//!
//! It is read as `a GLOBAL CROSS JOIN b` (see [`text::asof`](crate::text::asof)). Each side gets
//! the numbers of its rows, which no `*` shows: `(SELECT *, row_number() OVER () AS n FROM a) AS a
//! FULL JOIN (SELECT *, row_number() OVER () AS n FROM b) AS b ON a.n = b.n`.

use datafusion::logical_expr::{Expr as PlanExpr, Join as PlanJoin};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Select,
    SelectItem, Statement, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;

use crate::ast::build;
use crate::ast::names::name_of;
use crate::bind::columns::each_select;
use crate::bind::hidden::POSITION;
use crate::bind::lookahead::Lookahead;
use crate::bind::rowids::write_out_stars;
use crate::bind::with_clauses::Withs;

/// Whether a join of a plan was such a one: it goes by the order of its rows.
pub fn pairs_rows(join: &PlanJoin) -> bool {
    let is_position =
        |expr: &PlanExpr| expr.column_refs().iter().any(|column| column.name == POSITION);
    join.on.iter().any(|(left, right)| is_position(left) || is_position(right))
        || join.filter.iter().any(is_position)
}

/// Writes these joins out.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    each_select(statement, &mut |around, select| expand_in(planner, around, select))
}

fn is_positional(join: &Join) -> bool {
    join.global && matches!(join.join_operator, JoinOperator::CrossJoin(_))
}

/// Whether there is one in a chain of joins, or in brackets inside of it.
fn has_positional(from: &TableWithJoins) -> bool {
    let mut relations =
        std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation));
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_positional(table_with_joins),
        _ => false,
    };
    from.joins.iter().any(is_positional) || relations.any(nested)
}

fn expand_in(planner: &dyn Lookahead, around: &Withs, select: &mut Select) -> Result<()> {
    if !select.from.iter().any(has_positional) {
        return Ok(());
    }
    let mut named = Vec::new();
    let mut count = 0;
    for from in &mut select.from {
        number(from, &mut named, &mut count)?;
    }
    for (schema, table) in named {
        let short = Ident::with_quote('"', &table);
        build::shorten_qualifiers(select, &schema, &table, &short);
    }
    write_out_stars(planner, around, select)
}

/// Joins the sides of a FROM clause by the numbers of their rows. Tables with a schema before their
/// name are put into `named`; `count` counts sides without a name.
fn number(
    from: &mut TableWithJoins,
    named: &mut Vec<(String, String)>,
    count: &mut usize,
) -> Result<()> {
    let relations = std::iter::once(&mut from.relation);
    for factor in relations.chain(from.joins.iter_mut().map(|join| &mut join.relation)) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            number(table_with_joins, named, count)?;
        }
    }
    let behind = from.joins.iter().take_while(|join| is_positional(join)).count();
    if from.joins.iter().skip(behind).any(is_positional) {
        return Err(Error::unsupported(
            "POSITIONAL JOIN behind another join; put that join in a subquery",
        ));
    }
    if behind == 0 {
        return Ok(());
    }
    let mut sides = vec![numbered(&mut from.relation, named, count)?];
    for join in from.joins.iter_mut().take(behind) {
        let side = numbered(&mut join.relation, named, count)?;
        // Behind the end of one side another one may go on.
        let before = match sides.as_slice() {
            [only] => only.clone(),
            all => build::call("coalesce", all.iter().cloned()),
        };
        let same = build::binary(before, BinaryOperator::Eq, side.clone());
        join.join_operator = JoinOperator::FullOuter(JoinConstraint::On(same));
        join.global = false;
        sides.push(side);
    }
    Ok(())
}

/// Gives a side the numbers of its rows; the column that they are in.
fn numbered(
    factor: &mut TableFactor,
    named: &mut Vec<(String, String)>,
    count: &mut usize,
) -> Result<Expr> {
    let called = match name_of(factor) {
        Some(name) => name.clone(),
        None => {
            *count += 1;
            Ident::with_quote('"', format!(hidden!("side {}"), count))
        }
    };
    if let TableFactor::Table { name, alias: None, args: None, .. } = factor
        && let [.., ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)] =
            name.0.as_slice()
    {
        named.push((schema.value.clone(), table.value.clone()));
    }
    let everything = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let numbers = build::item(build::parse_expr("row_number() OVER ()")?, POSITION);
    let rows = build::select(vec![everything, numbers], vec![build::from(factor.clone())], None)?;
    *factor = build::derived(rows, Some(build::alias(&called)));
    Ok(build::field(&called, POSITION))
}
