//! Queries: WITH, SELECT, set operations, joins, ORDER BY, LIMIT.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Distinct, ExceptSelectItem, ExcludeSelectItem, Expr, ExprWithAlias,
    ExprWithAliasAndOrderBy, Fetch, GroupByExpr, IdentWithAlias, Join, JoinConstraint,
    JoinOperator, LimitClause, NamedWindowDefinition, NamedWindowExpr, Offset, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, PipeOperator, Query, RenameSelectItem,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier, TableWithJoins, Values, WildcardAdditionalOptions, With,
    visit_expressions,
};
use swingdb_common::error::{Error, Result};

use crate::ast::asof;
use crate::ast::walk::reads;
use crate::text::clauses::{expression, none_of, relation};

pub(crate) fn query(node: &Query) -> Result<()> {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = node;
    none_of(
        "SELECT",
        &[
            (!locks.is_empty(), "FOR UPDATE and FOR SHARE; no statement waits for a reader"),
            (for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
            (settings.is_some(), "SETTINGS; write SET name = value before"),
            (format_clause.is_some(), "FORMAT; write COPY (SELECT ...) TO 'file'"),
        ],
    )?;
    if let Some(with) = with {
        with_clause(with)?;
    }
    set_expr(body)?;
    if let Some(order_by) = order_by {
        order(order_by)?;
    }
    if let Some(limit) = limit_clause {
        limit_of(limit)?;
    }
    if let Some(Fetch { with_ties, percent, quantity: _ }) = fetch {
        none_of("FETCH", &[(*with_ties, "WITH TIES"), (*percent, "PERCENT")])?;
    }
    pipe_operators.iter().try_for_each(pipe)
}

fn with_clause(node: &With) -> Result<()> {
    let With { with_token: _, recursive, cte_tables } = node;
    for cte in cte_tables {
        // MATERIALIZED and its opposite say how often a query is computed, and not what it means.
        let Cte { alias, query, from, materialized: _, closing_paren_token: _ } = cte;
        relation::alias(alias)?;
        none_of("WITH", &[(from.is_some(), "FROM behind a query")])?;
        if *recursive {
            recursion(&alias.name.value, query)?;
        }
    }
    Ok(())
}

/// The engine takes the two sides of a recursive query's UNION, and nothing else of it. What LIMIT,
/// OFFSET and ORDER BY of it mean is not settled in SQL; DuckDB and PostgreSQL refuse them too.
fn recursion(name: &str, node: &Query) -> Result<()> {
    if !is_union(&node.body) || !reads(&node.body, name) {
        return Ok(());
    }
    if let SetExpr::Query(bracketed) = node.body.as_ref() {
        recursion(name, bracketed)?;
    }
    let Query {
        with,
        body: _,
        order_by,
        limit_clause,
        fetch,
        // Refused in every query.
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators,
    } = node;
    none_of(
        "WITH RECURSIVE",
        &[
            (with.is_some(), "WITH inside of the recursive query; name its queries before it"),
            (order_by.is_some(), "ORDER BY of the recursive query; write it behind the query"),
            (
                limit_clause.is_some() || fetch.is_some(),
                "LIMIT and OFFSET of the recursive query; write them behind the query",
            ),
            (!pipe_operators.is_empty(), "|> behind the recursive query"),
        ],
    )
}

/// Whether it is a UNION, be it in brackets.
fn is_union(node: &SetExpr) -> bool {
    match node {
        SetExpr::SetOperation { op, .. } => *op == SetOperator::Union,
        SetExpr::Query(query) => is_union(&query.body),
        _ => false,
    }
}

fn set_expr(node: &SetExpr) -> Result<()> {
    match node {
        SetExpr::Select(_) | SetExpr::Query(_) => Ok(()),
        SetExpr::SetOperation { left, op, set_quantifier, right } => {
            set_operation(*op, *set_quantifier)?;
            set_expr(left)?;
            set_expr(right)
        }
        SetExpr::Values(Values { explicit_row: _, value_keyword: _, rows: _ }) => Ok(()),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => Ok(()),
        other => Err(Error::unsupported(format!("the query {other}"))),
    }
}

fn set_operation(op: SetOperator, quantifier: SetQuantifier) -> Result<()> {
    match (op, quantifier) {
        (SetOperator::Union, _)
        | (
            SetOperator::Intersect | SetOperator::Except,
            SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None,
        ) => Ok(()),
        (op, quantifier) => Err(Error::unsupported(format!("{op} {quantifier}"))),
    }
}

pub(crate) fn select(node: &Select) -> Result<()> {
    let Select {
        select_token: _,
        // A comment.
        optimizer_hints: _,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = node;
    none_of(
        "SELECT",
        &[
            (select_modifiers.is_some(), "HIGH_PRIORITY, SQL_NO_CACHE and their like"),
            (top.is_some(), "TOP; write LIMIT"),
            (exclude.is_some(), "EXCLUDE behind the list; write * EXCLUDE (...)"),
            (into.is_some(), "INTO; write CREATE TABLE name AS SELECT ..."),
            (!lateral_views.is_empty(), "LATERAL VIEW; write unnest(...)"),
            (prewhere.is_some(), "PREWHERE; write WHERE"),
            (!connect_by.is_empty(), "CONNECT BY; write WITH RECURSIVE"),
            (!cluster_by.is_empty(), "CLUSTER BY"),
            (!distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!sort_by.is_empty(), "SORT BY; write ORDER BY"),
            (value_table_mode.is_some(), "AS STRUCT and AS VALUE"),
        ],
    )?;
    match distinct {
        None | Some(Distinct::All | Distinct::Distinct | Distinct::On(_)) => {}
    }
    projection.iter().try_for_each(select_item)?;
    from.iter().try_for_each(table_with_joins)?;
    group(group_by)?;
    for NamedWindowDefinition(_, window) in named_window {
        match window {
            NamedWindowExpr::NamedWindow(_) => {}
            NamedWindowExpr::WindowSpec(window) => expression::window(window)?,
        }
    }
    Ok(())
}

fn group(node: &GroupByExpr) -> Result<()> {
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = node;
    match modifiers.first() {
        None => Ok(()),
        Some(modifier) => Err(Error::unsupported(format!(
            "GROUP BY ... {modifier}; write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS"
        ))),
    }
}

pub(crate) fn select_item(node: &SelectItem) -> Result<()> {
    match node {
        SelectItem::UnnamedExpr(_) => Ok(()),
        SelectItem::ExprWithAlias { expr: _, alias: _ } => Ok(()),
        SelectItem::Wildcard(options) => wildcard(options),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(_)
            | SelectItemQualifiedWildcardKind::Expr(_),
            options,
        ) => wildcard(options),
        other @ SelectItem::ExprWithAliases { expr: _, aliases: _ } => {
            Err(Error::unsupported(format!("several names for one expression: {other}")))
        }
    }
}

pub(crate) fn wildcard(node: &WildcardAdditionalOptions) -> Result<()> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = node;
    match opt_exclude {
        None | Some(ExcludeSelectItem::Single(_) | ExcludeSelectItem::Multiple(_)) => {}
    }
    if let Some(ExceptSelectItem { first_element: _, additional_elements: _ }) = opt_except {}
    if let Some(ReplaceSelectItem { items }) = opt_replace {
        for item in items {
            let ReplaceSelectElement { expr: _, column_name: _, as_keyword: _ } = item.as_ref();
        }
    }
    let renamed = match opt_rename {
        None => &[][..],
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several,
    };
    for IdentWithAlias { ident: _, alias: _ } in renamed {}
    none_of(
        "SELECT *",
        &[
            // What is understood here has become COLUMNS(...) already.
            (opt_ilike.is_some(), "ILIKE in this place; write COLUMNS('pattern')"),
            (opt_alias.is_some(), "AS name"),
        ],
    )
}

pub(crate) fn table_with_joins(node: &TableWithJoins) -> Result<()> {
    let TableWithJoins { relation: _, joins } = node;
    joins.iter().try_for_each(join)
}

fn join(node: &Join) -> Result<()> {
    // GLOBAL CROSS is what POSITIONAL has become.
    let Join { relation: _, global, join_operator } = node;
    use JoinOperator as J;
    match join_operator {
        J::AsOf { match_condition, constraint } => asof_join(match_condition, constraint),
        J::CrossJoin(JoinConstraint::None) if *global => Ok(()),
        _ if *global => Err(Error::unsupported("GLOBAL before a join")),
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::Semi(on)
        | J::LeftSemi(on)
        | J::RightSemi(on)
        | J::Anti(on)
        | J::LeftAnti(on)
        | J::RightAnti(on) => constraint(on),
        J::CrossJoin(JoinConstraint::None) => Ok(()),
        J::CrossJoin(_) => Err(Error::plan("CROSS JOIN takes no condition; write JOIN ... ON")),
        _ => {
            let text = node.to_string();
            Err(Error::unsupported(format!("this kind of join: {}", text.trim_start())))
        }
    }
}

fn asof_join(match_condition: &Expr, node: &JoinConstraint) -> Result<()> {
    if asof::kind(match_condition).is_none() {
        return Err(Error::unsupported("MATCH_CONDITION; write ON a.k = b.k AND a.t >= b.t"));
    }
    match node {
        JoinConstraint::On(_) | JoinConstraint::Using(_) => Ok(()),
        JoinConstraint::Natural | JoinConstraint::None => Err(Error::plan(
            "ASOF JOIN needs a condition: ON a.k = b.k AND a.t >= b.t, or USING (k, t)",
        )),
    }
}

fn constraint(node: &JoinConstraint) -> Result<()> {
    match node {
        JoinConstraint::On(_) | JoinConstraint::Using(_) | JoinConstraint::Natural => Ok(()),
        JoinConstraint::None => {
            Err(Error::plan("JOIN without ON or USING; write CROSS JOIN for all pairs of rows"))
        }
    }
}

fn order(node: &OrderBy) -> Result<()> {
    let OrderBy { kind, interpolate } = node;
    none_of("ORDER BY", &[(interpolate.is_some(), "INTERPOLATE")])?;
    match kind {
        OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => Ok(()),
        OrderByKind::Expressions(keys) => keys.iter().try_for_each(order_key),
    }
}

/// A key of an ORDER BY, wherever that stands.
pub(crate) fn order_key(node: &OrderByExpr) -> Result<()> {
    let OrderByExpr { expr: _, options, with_fill } = node;
    let OrderByOptions { asc: _, nulls_first: _ } = options;
    none_of("ORDER BY", &[(with_fill.is_some(), "WITH FILL")])
}

fn limit_of(node: &LimitClause) -> Result<()> {
    match node {
        LimitClause::LimitOffset { limit, offset, limit_by } => {
            limit.as_ref().map_or(Ok(()), |limit| without_query("LIMIT", limit))?;
            if let Some(Offset { value, rows: _ }) = offset {
                without_query("OFFSET", value)?;
            }
            none_of("LIMIT", &[(!limit_by.is_empty(), "BY")])
        }
        LimitClause::OffsetCommaLimit { offset, limit } => {
            without_query("OFFSET", offset)?;
            without_query("LIMIT", limit)
        }
    }
}

/// How many rows there may be is known before the query begins.
fn without_query(clause: &str, number: &Expr) -> Result<()> {
    let is_query = visit_expressions(number, |part| match part {
        Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match is_query {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::unsupported(format!(
            "{clause} (SELECT ...); write SET VARIABLE n = (SELECT ...), and {clause} \
             getvariable('n')"
        ))),
    }
}

/// What stands behind `|>`.
fn pipe(node: &PipeOperator) -> Result<()> {
    match node {
        PipeOperator::Limit { expr: _, offset: _ } | PipeOperator::Where { expr: _ } => Ok(()),
        PipeOperator::OrderBy { exprs } => exprs.iter().try_for_each(order_key),
        PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
            exprs.iter().try_for_each(select_item)
        }
        PipeOperator::As { alias: _ } => Ok(()),
        PipeOperator::Union { set_quantifier, queries: _ } => {
            set_operation(SetOperator::Union, *set_quantifier)
        }
        PipeOperator::Intersect { set_quantifier, queries: _ } => {
            set_operation(SetOperator::Intersect, *set_quantifier)
        }
        PipeOperator::Except { set_quantifier, queries: _ } => {
            set_operation(SetOperator::Except, *set_quantifier)
        }
        PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
            full_table_exprs.iter().chain(group_by_expr).try_for_each(|part| {
                let ExprWithAliasAndOrderBy { expr, order_by } = part;
                let ExprWithAlias { expr: _, alias: _ } = expr;
                let OrderByOptions { asc, nulls_first } = order_by;
                let ordered = asc.is_some() || nulls_first.is_some();
                none_of("|> AGGREGATE", &[(ordered, "ASC and DESC; write |> ORDER BY")])
            })
        }
        PipeOperator::Join(node) => join(node),
        other => Err(Error::unsupported(format!("|> {other}"))),
    }
}
