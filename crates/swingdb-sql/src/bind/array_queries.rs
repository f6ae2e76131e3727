//! `array(SELECT i FROM u ORDER BY i)`: the column of a query as a list, in the query's order.
//!
//! It becomes `coalesce((SELECT array_agg(i ORDER BY i) FROM u), [])`. A query that groups, leaves
//! out rows or unites others stands below: `FROM (query) AS q (v, o1)`, with what it is ordered by.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArguments, GroupByExpr, Ident, NullTreatment, ObjectName,
    OrderByExpr, OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement,
    TableAliasColumnDef, TableFactor, Value, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::{call, is_named};
use crate::ast::walk::{rewrite_own_exprs, walk_mut};
use crate::bind::lookahead::Lookahead;
use crate::bind::pivot::column;

/// The name of the values.
const VALUE: &str = "v";

/// Puts lists for `array(SELECT ...)`.
pub(crate) fn collect_arrays(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut collector = Collector { planner, failed: None };
    // Breaks only with an error, which the walk keeps.
    let _ = walk_mut(statement, &mut collector);
    collector.failed.map_or(Ok(()), Err)
}

struct Collector<'a> {
    planner: &'a dyn Lookahead,
    failed: Option<Error>,
}

impl VisitorMut for Collector<'_> {
    type Break = ();

    /// An item keeps the name that its text gives it.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && query_of(expr).is_some()
            {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Some(query) = query_of(expr) else { return ControlFlow::Continue(()) };
        match collected(self.planner, query.clone()) {
            Ok(query) => {
                let none = Expr::Array(Array { elem: Vec::new(), named: false });
                *expr = call("coalesce", [Expr::Subquery(Box::new(query)), none]);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// The query of `array(SELECT ...)`.
fn query_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) => {
            is_named(name, "array").then_some(query)
        }
        _ => None,
    }
}

fn collected(planner: &dyn Lookahead, mut query: Query) -> Result<Query> {
    let order = order_of(&query)?;
    if let Some(value) = plain_value(planner, &query) {
        query.order_by = None;
        let order = order.into_iter().map(|mut by| {
            if is_value(&by.expr, &query) {
                by.expr = value.clone();
            }
            by
        });
        let list = list_of(value.clone(), order.collect());
        build::select_of(&mut query)?.projection = vec![SelectItem::UnnamedExpr(list)];
        return Ok(query);
    }
    // What the query is ordered by becomes columns beside the value.
    let mut alias = build::alias(&Ident::new("q"));
    let mut add = |name: &str| {
        let name = Ident::new(name);
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    };
    add(VALUE);
    let mut keys = Vec::new();
    for (index, mut by) in order.into_iter().enumerate() {
        let is_value = is_value(&by.expr, &query);
        if !is_value && !orders_distinct(&by.expr, &query) {
            return Err(Error::plan(format!(
                "array(SELECT DISTINCT ... ORDER BY {}): only the value orders distinct values",
                by.expr
            )));
        }
        let key = std::mem::replace(&mut by.expr, column(VALUE));
        if let SetExpr::Select(select) = query.body.as_mut()
            && select.distinct.is_none()
            && !is_value
        {
            let name = format!("o{index}");
            select.projection.push(build::item(key, name.as_str()));
            by.expr = column(&name);
            add(&name);
        }
        keys.push(by);
    }
    let list = SelectItem::UnnamedExpr(list_of(column(VALUE), keys));
    build::select(vec![list], vec![build::from(build::derived(query, Some(alias)))], None)
}

fn order_of(query: &Query) -> Result<Vec<OrderByExpr>> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        None => Ok(Vec::new()),
        Some(OrderByKind::Expressions(all)) => Ok(all.clone()),
        Some(OrderByKind::All(options)) => {
            let first = OrderByExpr { expr: build::integer(1), options: *options, with_fill: None };
            Ok(vec![first])
        }
    }
}

/// The value of a query whose rows can be collected as they are.
fn plain_value(planner: &dyn Lookahead, query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let groups = match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let narrowed = query.limit_clause.is_some() || query.fetch.is_some();
    let plain = select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.flavor != SelectFlavor::FromFirstNoSelect;
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let mut aggregates = false;
    rewrite_own_exprs(&mut value.clone(), &mut |part| {
        if let Expr::Function(call) = part {
            let name = call.name.to_string().to_lowercase();
            // Functions that are not known may be aggregates under another name.
            aggregates |= call.over.is_some() || !planner.is_scalar(&name);
        }
    });
    (plain && !groups && !narrowed && !aggregates).then(|| value.clone())
}

/// Whether ORDER BY means the value: by its place or its name.
fn is_value(expr: &Expr, query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return true };
    match (expr, select.projection.first()) {
        (Expr::Value(value), _) => matches!(&value.value, Value::Number(n, _) if n == "1"),
        (Expr::Identifier(name), Some(SelectItem::ExprWithAlias { alias, .. })) => {
            name.value.eq_ignore_ascii_case(&alias.value)
        }
        (expr, Some(SelectItem::UnnamedExpr(value))) => expr == value,
        _ => false,
    }
}

/// Whether a key may order the rows of a query: those of DISTINCT only their value, also with the
/// name of its relation before it.
fn orders_distinct(key: &Expr, query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return true };
    if select.distinct.is_none() {
        return true;
    }
    let value = match select.projection.first() {
        Some(SelectItem::UnnamedExpr(Expr::Identifier(name))) => name,
        _ => return false,
    };
    let Expr::CompoundIdentifier(path) = key else { return false };
    let [.., relation, column] = path.as_slice() else { return false };
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let is_called = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => {
            alias.name.value.eq_ignore_ascii_case(&relation.value)
        }
        TableFactor::Table { name, .. } => is_named_last(name, &relation.value),
        _ => false,
    };
    column.value.eq_ignore_ascii_case(&value.value) && factors.into_iter().any(is_called)
}

fn is_named_last(name: &ObjectName, plain: &str) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|ident| ident.value.eq_ignore_ascii_case(plain))
}

/// `array_agg(value ORDER BY keys)`, marked as the list of this query even if the value is one of
/// the row outside: see [`rewrite`](crate::plan::rewrite).
fn list_of(value: Expr, keys: Vec<OrderByExpr>) -> Expr {
    use datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy;
    let mut list = call("array_agg", [value]);
    if let Expr::Function(Function { args: FunctionArguments::List(args), .. }) = &mut list
        && !keys.is_empty()
    {
        args.clauses.push(OrderBy(keys));
    }
    if let Expr::Function(function) = &mut list {
        function.null_treatment = Some(NullTreatment::RespectNulls);
    }
    list
}
