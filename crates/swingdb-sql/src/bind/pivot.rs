//! PIVOT: a column for each value, as in DuckDB.
//!
//! `PIVOT t ON s USING sum(x) GROUP BY g` is
//! `SELECT g, sum(x) FILTER (WHERE s::VARCHAR = 'a') AS a, ... FROM t GROUP BY g`. Values are
//! compared and sorted as text, NULL is none of them, and of several columns there is each
//! combination of their values. Without GROUP BY the groups are all columns that the PIVOT does
//! not mention; without ON, all rows are one.
//!
//! **Cycle.** The walk calls both forms, which ask it for the queries around them.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    Query, SelectItem, TableAliasColumnDef, TableFactor, UnaryOperator, Value,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::build;
use crate::ast::build::{call, cast, text};
use crate::ast::pivot::{Clauses, name_of};
use crate::ast::walk::rewrite_own_exprs;
use crate::bind::columns::all_of;
use crate::bind::pivots::Turner;

/// Columns that a PIVOT may have.
const MAX_COLUMNS: usize = 10_000;

/// What a PIVOT consists of.
struct Pivot {
    /// What is spread out, with the values that are named.
    on: Vec<(Expr, Option<Vec<Expr>>)>,
    /// Aggregates, and the names given to them.
    using: Vec<(Expr, Option<String>)>,
    groups: Vec<Ident>,
}

/// A value as text, and its part in the names of columns.
struct Spread {
    value: Option<String>,
    name: String,
}

/// The query for a PIVOT.
pub(crate) fn turned(turner: &Turner<'_>, factor: &TableFactor) -> Result<TableFactor> {
    let TableFactor::Pivot { table, alias, .. } = factor else {
        return Err(Error::internal("no PIVOT"));
    };
    let pivot = parse(Clauses::of(factor).ok_or_else(usage)?)?;
    let from = build::from(table.as_ref().clone());
    let source = all_of(turner.planner, &turner.around, std::slice::from_ref(&from))?;
    let source: Vec<String> = source.into_iter().map(|column| column.name).collect();
    let mentioned = mentioned(&pivot, &source)?;
    let groups: Vec<String> = match pivot.groups.is_empty() {
        true if pivot.on.is_empty() => Vec::new(),
        true => source.iter().filter(|name| !mentioned.contains(*name)).cloned().collect(),
        false => {
            let found = pivot.groups.iter().map(|name| find(&source, name));
            found.collect::<Result<_>>()?
        }
    };
    let mut spread = Vec::with_capacity(pivot.on.len());
    for (on, values) in &pivot.on {
        spread.push(values_of(turner, table, on, values.as_deref())?);
    }
    let mut items: Vec<SelectItem> =
        groups.iter().map(|name| build::item(column(name), name.as_str())).collect();
    items.extend(columns(turner, &pivot, &spread)?);
    if items.is_empty() {
        return Err(Error::plan(
            "PIVOT: there are no values, and so no columns; name some with IN",
        ));
    }
    let mut query = build::select(items, vec![from], None)?;
    let by = groups.iter().map(|name| column(name)).collect();
    build::select_of(&mut query)?.group_by = GroupByExpr::Expressions(by, Vec::new());
    Ok(build::derived(query, alias.clone()))
}

pub(crate) fn column(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

/// The column that a name means.
pub(crate) fn find(source: &[String], name: &Ident) -> Result<String> {
    let exact = source.iter().find(|column| **column == name.value);
    let same = |column: &&String| column.eq_ignore_ascii_case(&name.value);
    let found = exact.or_else(|| source.iter().find(same));
    found.cloned().ok_or_else(|| Error::not_found(ObjectKind::Column, &name.value, source))
}

fn usage() -> Error {
    Error::plan("PIVOT: write PIVOT t ON column [IN (values)] USING sum(x) [GROUP BY columns]")
}

/// What the clauses say.
fn parse(clauses: Clauses) -> Result<Pivot> {
    let on = clauses.on.into_iter().map(|on| match on {
        Expr::InList { expr, list, negated: false } => (*expr, Some(list)),
        Expr::InSubquery { expr, subquery, negated: false } => {
            (*expr, Some(vec![Expr::Subquery(subquery)]))
        }
        other => (other, None),
    });
    let groups = clauses.groups.into_iter().map(|group| match group {
        Expr::Identifier(name) => Ok(name),
        _ => Err(Error::plan("GROUP BY of a PIVOT takes names of columns")),
    });
    let mut pivot = Pivot {
        on: on.collect(),
        using: clauses.using.iter().map(name_of).collect(),
        groups: groups.collect::<Result<_>>()?,
    };
    if pivot.using.is_empty() && !pivot.on.is_empty() {
        let star = FunctionArg::Unnamed(FunctionArgExpr::Wildcard);
        let mut count = call("count", []);
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut count {
            list.args.push(star);
        }
        pivot.using.push((count, None));
    }
    Ok(pivot)
}

/// The names of a source's columns that ON and USING mention.
fn mentioned(pivot: &Pivot, source: &[String]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for (expr, _) in &pivot.on {
        let before = found.len();
        found.extend(names_in(expr, source));
        if found.len() == before && names_in(expr, source).is_empty() {
            let mut names = Vec::new();
            rewrite_own_exprs(&mut expr.clone(), &mut |part| {
                if let Expr::Identifier(name) = part {
                    names.push(name.clone());
                }
            });
            return Err(match names.first() {
                Some(name) => Error::not_found(ObjectKind::Column, &name.value, source),
                None => Error::plan(format!("PIVOT ON {expr}, which is no column")),
            });
        }
    }
    for (expr, _) in &pivot.using {
        found.extend(names_in(expr, source));
    }
    Ok(found)
}

/// The columns that an expression mentions.
pub(crate) fn names_in(expr: &Expr, source: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    rewrite_own_exprs(&mut expr.clone(), &mut |part| {
        let name = match part {
            Expr::Identifier(name) => Some(&*name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(Ok(name)) = name.map(|name| find(source, name))
            && !found.contains(&name)
        {
            found.push(name);
        }
    });
    found
}

/// The values of one part of ON.
fn values_of(
    turner: &Turner<'_>,
    table: &TableFactor,
    on: &Expr,
    values: Option<&[Expr]>,
) -> Result<Vec<Spread>> {
    let plain = |text: String| Spread { value: Some(text.clone()), name: shown(&text) };
    match values {
        None => Ok(ask(turner, distinct(table, on)?)?.into_iter().map(plain).collect()),
        Some([Expr::Subquery(query)]) => {
            let name = Ident::new("q");
            let mut alias = build::alias(&name);
            let value = TableAliasColumnDef { name: Ident::new("v"), data_type: None };
            alias.columns.push(value);
            let source = build::from(build::derived(query.as_ref().clone(), Some(alias)));
            let item = build::item(as_text(column("v")), "v");
            let mut seen = BTreeSet::new();
            let all = ask(turner, build::select(vec![item], vec![source], None)?)?;
            Ok(all.into_iter().filter(|v| seen.insert(v.clone())).map(plain).collect())
        }
        Some(values) => {
            let mut seen = BTreeSet::new();
            let mut all = Vec::with_capacity(values.len());
            for value in values {
                let (expr, name) = name_of(value);
                let value = constant(turner, &expr)?;
                if !seen.insert(value.clone()) {
                    return Err(Error::plan(format!("PIVOT: {expr} is twice in IN")));
                }
                let text = value.as_deref().map_or_else(|| "NULL".to_string(), shown);
                all.push(Spread { value, name: name.unwrap_or(text) });
            }
            Ok(all)
        }
    }
}

/// A value in the name of a column.
fn shown(text: &str) -> String {
    if text.is_empty() { "''".to_string() } else { text.to_string() }
}

fn as_text(expr: Expr) -> Expr {
    cast(expr, DataType::Varchar(None))
}

/// `SELECT DISTINCT on FROM table`, as text and in order.
fn distinct(table: &TableFactor, on: &Expr) -> Result<Query> {
    let item = build::item(as_text(on.clone()), "v");
    let known = Expr::IsNotNull(Box::new(build::nested(on.clone())));
    let mut query = build::select(vec![item], vec![build::from(table.clone())], Some(known))?;
    build::select_of(&mut query)?.distinct = Some(Distinct::Distinct);
    let options = OrderByOptions { asc: None, nulls_first: None };
    let first = OrderByExpr { expr: build::integer(1), options, with_fill: None };
    let kind = OrderByKind::Expressions(vec![first]);
    query.order_by = Some(OrderBy { kind, interpolate: None });
    Ok(query)
}

/// The answer to a query about values.
fn ask(turner: &Turner<'_>, mut query: Query) -> Result<Vec<String>> {
    let has_parameter = {
        let mut found = false;
        build::rewrite_exprs(&mut query, |expr| {
            found |= matches!(expr, Expr::Value(v) if matches!(v.value, Value::Placeholder(_)));
        });
        found
    };
    if has_parameter {
        return Err(Error::unsupported(
            "PIVOT of a source with parameters; name the values: ON column IN (...)",
        ));
    }
    let sources = build::select_of(&mut query)?.from.clone();
    query.with = turner.around.needed_by(&sources);
    let answer = if turner.in_view { None } else { turner.planner.ask(query)? };
    answer.ok_or_else(|| {
        Error::plan(
            "PIVOT in a view names its values, as columns of views do not depend on rows: \
             ON column IN ('a', 'b')",
        )
    })
}

/// A constant as text.
fn constant(turner: &Turner<'_>, expr: &Expr) -> Result<Option<String>> {
    match expr {
        Expr::Value(value) if value.value == Value::Null => return Ok(None),
        Expr::Identifier(name) => return Ok(Some(name.value.clone())),
        _ => {}
    }
    if let Some(text) = literal(expr) {
        return Ok(Some(text));
    }
    let item = build::item(as_text(expr.clone()), "v");
    Ok(ask(turner, build::select(vec![item], Vec::new(), None)?)?.into_iter().next())
}

fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => Some(format!("-{text}")),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The aggregates for each combination of values.
fn columns(turner: &Turner<'_>, pivot: &Pivot, spread: &[Vec<Spread>]) -> Result<Vec<SelectItem>> {
    let count = spread.iter().map(Vec::len).fold(pivot.using.len(), usize::saturating_mul);
    if count > MAX_COLUMNS {
        return Err(Error::unsupported(format!(
            "PIVOT into {count} columns, which are more than {MAX_COLUMNS}"
        )));
    }
    let mut combinations: Vec<(Vec<Expr>, Vec<&str>)> = vec![(Vec::new(), Vec::new())];
    for ((on, _), values) in pivot.on.iter().zip(spread) {
        let extended = combinations.iter().flat_map(|(conditions, names)| {
            values.iter().map(move |value| {
                let (mut conditions, mut names) = (conditions.clone(), names.clone());
                conditions.push(is(on, value.value.as_deref()));
                names.push(value.name.as_str());
                (conditions, names)
            })
        });
        combinations = extended.collect();
    }
    let mut items = Vec::with_capacity(count);
    for (conditions, names) in combinations {
        let base = names.join("_");
        for (aggregate, alias) in &pivot.using {
            let own = alias.clone().unwrap_or_else(|| aggregate.to_string());
            let name = match (alias, pivot.using.len()) {
                _ if base.is_empty() => own,
                (None, 1) => base.clone(),
                _ => format!("{base}_{own}"),
            };
            items.push(build::item(filtered(turner, aggregate, &conditions)?, name));
        }
    }
    Ok(items)
}

/// Whether what is spread out has this value.
fn is(on: &Expr, value: Option<&str>) -> Expr {
    match value {
        None => Expr::IsNull(Box::new(build::nested(on.clone()))),
        Some(value) => build::binary(as_text(on.clone()), BinaryOperator::Eq, text(value)),
    }
}

/// An expression whose aggregate takes only rows for which all conditions hold.
fn filtered(turner: &Turner<'_>, expr: &Expr, conditions: &[Expr]) -> Result<Expr> {
    let is_known =
        |call: &Function| turner.planner.is_aggregate(&call.name.to_string().to_lowercase());
    let (mut known, mut has_window) = (false, false);
    rewrite_own_exprs(&mut expr.clone(), &mut |part| {
        if let Expr::Function(call) = part {
            known |= is_known(call);
            has_window |= call.over.is_some();
        }
    });
    if has_window {
        return Err(Error::plan("USING of a PIVOT takes no window functions"));
    }
    let mut expr = expr.clone();
    let mut found = known;
    if known {
        rewrite_own_exprs(&mut expr, &mut |part| {
            if let Expr::Function(call) = part
                && is_known(call)
            {
                restrict(call, conditions);
            }
        });
    } else if let Expr::Function(call) = &mut expr {
        // Under another name, which later rewrites know.
        restrict(call, conditions);
        found = true;
    }
    if found { Ok(expr) } else { Err(Error::plan(format!("USING {expr} is no aggregate: sum(x)"))) }
}

fn restrict(call: &mut Function, conditions: &[Expr]) {
    let all =
        call.filter.take().map(|filter| *filter).into_iter().chain(conditions.iter().cloned());
    let all: Vec<Expr> = all.collect();
    if !all.is_empty() {
        call.filter = Some(Box::new(build::all(all)));
    }
}
