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
pub(crate) mod unnested_order;
pub(crate) mod windows;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, Interval,
    LimitClause, ObjectName, OrderByExpr, Query, Select, SelectItem, SetExpr, Statement, Subscript,
    TableFactor, TableWithJoins, TypedString, UnaryOperator, Value, VisitorMut, visit_expressions,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::types::arrow_types::enum_type;
use swingdb_functions::json::to_json::{AS_JSON, TRY_AS_JSON};
use swingdb_functions::nested::parts::{AS_PARTS, TRY_AS_PARTS, places};
use swingdb_functions::text::enums::{AS_ENUM, TRY_AS_ENUM};
use swingdb_functions::text::like_pattern::LIKE_PATTERN;
use swingdb_functions::text::uuids::{AS_UUID, TRY_AS_UUID};

use crate::ast::build;
use crate::ast::build::{DOUBLE, call, cast, is_named, text};
use crate::ast::walk::walk_mut;
use crate::desugar::relations::Relations;

/// The operators that stand for IS DISTINCT FROM and its opposite: what they compare is settled
/// where operators are planned.
pub(crate) const DISTINCT_FROM: &str = "is distinct from";
pub(crate) const NOT_DISTINCT_FROM: &str = "is not distinct from";

fn compared(expr: &Expr) -> Option<Expr> {
    let (left, operator, right) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, DISTINCT_FROM, right),
        Expr::IsNotDistinctFrom(left, right) => (left, NOT_DISTINCT_FROM, right),
        _ => return None,
    };
    let operator = BinaryOperator::Custom(operator.to_string());
    Some(build::binary(left.as_ref().clone(), operator, right.as_ref().clone()))
}

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
            .and_then(|()| unnested_order::rewrite(query));
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
                as_doubles(cells.collect());
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

    /// `-2 ^ 2` is 4: the sign belongs to the 2, though the parser reads the power first. The sign
    /// of an interval goes for all its parts: the engine would put it before the first one.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr
            && matches!(operand.as_ref(), Expr::Interval(_))
        {
            let interval = std::mem::replace(operand.as_mut(), Expr::value(Value::Null));
            **operand = Expr::Nested(Box::new(interval));
        }
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr
            && let Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } = operand.as_ref()
        {
            let negative = Expr::UnaryOp { op: UnaryOperator::Minus, expr: left.clone() };
            *expr = Expr::BinaryOp {
                left: Box::new(negative),
                op: BinaryOperator::BitwiseXor,
                right: right.clone(),
            };
        }
        complement_of_sum(expr);
        let result = row_members::value(expr);
        self.keep(result.map(|new| new.into_iter().for_each(|new| *expr = new)))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Array(array) = expr {
            as_doubles(array.elem.iter_mut().collect());
            if !array.elem.iter().all(is_literal) {
                *expr = call("make_array", std::mem::take(&mut array.elem));
            }
        }
        rows_of_expressions(expr);
        escapes(expr);
        open_slices(expr);
        unordered(expr);
        intervals::rewrite(expr);
        let ordered = match expr {
            Expr::Function(call) => constants::settle(call),
            _ => Ok(()),
        };
        let result = ordered.and_then(|()| expression(expr));
        self.keep(result.map(|new| new.into_iter().for_each(|new| *expr = new)))
    }
}

/// `(a + 1, b)`: the engine takes such a row where a column or a value comes first.
fn rows_of_expressions(expr: &mut Expr) {
    if let Expr::Tuple(values) = expr
        && !matches!(
            values.first(),
            None | Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
        )
    {
        *expr = Expr::Struct { values: std::mem::take(values), fields: Vec::new() };
    }
}

/// Decimals beside a number with an exponent are DOUBLE as it is: the engine would turn them all
/// into decimals, which do not hold every DOUBLE.
fn as_doubles(values: Vec<&mut Expr>) {
    fn is_double(expr: &Expr) -> bool {
        match expr {
            Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_double(expr),
            Expr::Cast { data_type, .. } => matches!(data_type, DataType::Double(_)),
            _ => false,
        }
    }
    fn is_decimal(expr: &Expr) -> bool {
        match expr {
            Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_decimal(expr),
            Expr::Value(value) => {
                matches!(&value.value, Value::Number(digits, _) if digits.contains('.'))
            }
            _ => false,
        }
    }
    if values.iter().any(|value| is_double(value)) {
        for value in values.into_iter().filter(|value| is_decimal(value)) {
            *value = cast(std::mem::replace(value, build::null()), DOUBLE);
        }
    }
}

/// Whether it is a value that is written, or a list of such.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_literal(expr),
        Expr::Cast { expr, data_type: DataType::Double(_), .. } => is_literal(expr),
        Expr::Array(array) => array.elem.iter().all(is_literal),
        _ => false,
    }
}

/// The function that an operator stands for.
fn function_of(operator: &BinaryOperator) -> Option<&'static str> {
    match operator {
        BinaryOperator::HashArrow => Some("json_extract"),
        BinaryOperator::LongArrow => Some("json_extract_string"),
        BinaryOperator::PGStartsWith => Some("starts_with"),
        BinaryOperator::PGOverlap => Some("list_has_any"),
        _ => None,
    }
}

fn expression(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
            Some(call("power", [left.as_ref().clone(), right.as_ref().clone()]))
        }
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => compared(expr),
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
            Some(call("bitwise_not", [expr.as_ref().clone()]))
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char: None } => {
            let (open, close) = (text("^(?:"), text(")\\z"));
            let whole = build::binary(open, BinaryOperator::StringConcat, pattern.as_ref().clone());
            let whole = build::binary(whole, BinaryOperator::StringConcat, close);
            let found = call("regexp_like", [expr.as_ref().clone(), whole]);
            Some(match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                false => found,
            })
        }
        Expr::BinaryOp { left, op: BinaryOperator::MyIntegerDivide, right } => {
            let (left, right) = (left.as_ref().clone(), right.as_ref().clone());
            Some(build::binary(left, BinaryOperator::DuckIntegerDivide, right))
        }
        Expr::BinaryOp { left, op, right } if function_of(op).is_some() => {
            function_of(op).map(|name| call(name, [left.as_ref().clone(), right.as_ref().clone()]))
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            let args = [time_zone.as_ref().clone(), timestamp.as_ref().clone()];
            Some(call("at_time_zone", args))
        }
        Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified::rewritten(expr)?,
        Expr::Cast { .. } => checked_cast(expr),
        Expr::TypedString(TypedString {
            data_type: data_type @ DataType::Enum(..), value, ..
        }) => {
            let list = enum_type(data_type)?.map(|values| values.list()).unwrap_or_default();
            Some(call(AS_ENUM, [Expr::Value(value.clone()), text(&list)]))
        }
        Expr::TypedString(TypedString { data_type: DataType::Uuid, value, .. }) => {
            Some(call(AS_UUID, [Expr::Value(value.clone())]))
        }
        Expr::TypedString(TypedString {
            data_type: DataType::JSON | DataType::JSONB,
            value,
            ..
        }) => Some(call(AS_JSON, [Expr::Value(value.clone())])),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.contains(['e', 'E']) => {
                Some(cast(text(digits), DOUBLE))
            }
            _ => None,
        },
        Expr::Interval(Interval { value, leading_field: Some(field), .. }) => {
            interval(value, field)
        }
        _ => None,
    })
}

/// A cast to what is text to the engine, and has to be looked at.
fn checked_cast(cast: &Expr) -> Option<Expr> {
    let Expr::Cast { kind, expr, data_type, .. } = cast else { return None };
    let safe = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
    if let Some(found) = registered::rewritten(expr, data_type, safe) {
        return Some(found);
    }
    match data_type {
        DataType::JSON | DataType::JSONB => {
            Some(call(if safe { TRY_AS_JSON } else { AS_JSON }, [expr.as_ref().clone()]))
        }
        DataType::Uuid => {
            Some(call(if safe { TRY_AS_UUID } else { AS_UUID }, [expr.as_ref().clone()]))
        }
        DataType::Enum(..) => {
            let list = enum_type(data_type).ok().flatten()?.list();
            let name = if safe { TRY_AS_ENUM } else { AS_ENUM };
            Some(call(name, [expr.as_ref().clone(), text(&list)]))
        }
        other => {
            let places = places(other)?;
            let name = if safe { TRY_AS_PARTS } else { AS_PARTS };
            Some(call(name, [cast.clone(), text(&places)]))
        }
    }
}

/// `INTERVAL 2 DAY`, `INTERVAL (n) DAY`.
fn interval(value: &Expr, field: &DateTimeField) -> Option<Expr> {
    match value {
        // Bounds of window frames are understood as text only.
        Expr::Value(number) => match &number.value {
            Value::Number(digits, _) => Some(Expr::Interval(Interval {
                value: Box::new(text(digits)),
                leading_field: Some(field.clone()),
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            })),
            _ => None,
        },
        Expr::Nested(number) => {
            let unit = text(&format!(" {}", field.to_string().to_lowercase()));
            let number = cast(number.as_ref().clone(), DataType::Varchar(None));
            let words = build::binary(number, BinaryOperator::StringConcat, unit);
            Some(cast(words, DataType::Interval { fields: None, precision: None }))
        }
        _ => None,
    }
}

/// A pattern whose escape character is another, or none, becomes one with backslashes.
fn escapes(expr: &mut Expr) {
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr
    else {
        return;
    };
    let Some(Value::SingleQuotedString(escape)) = escape_char.as_ref().map(|e| &e.value) else {
        return;
    };
    if !matches!(pattern.as_ref(), Expr::Value(_)) && escape != "\\" {
        // One that is known only when it runs.
        let with = text(escape);
        let given = std::mem::replace(pattern.as_mut(), build::null());
        **pattern = call(LIKE_PATTERN, [given, with]);
        *escape_char = None;
        return;
    }
    let (Expr::Value(pattern), mut escape) = (pattern.as_mut(), escape.chars()) else { return };
    let (Value::SingleQuotedString(pattern), escape, None) =
        (&mut pattern.value, escape.next(), escape.next())
    else {
        return;
    };
    if escape == Some('\\') {
        return;
    }
    let mut plain = String::with_capacity(pattern.len() + 2);
    let mut given = pattern.chars();
    while let Some(char) = given.next() {
        match char {
            _ if Some(char) == escape => {
                // A pattern that ends with it is refused later.
                let Some(next) = given.next() else { return };
                plain.extend(['\\', next]);
            }
            '\\' => plain.push_str("\\\\"),
            _ => plain.push(char),
        }
    }
    *pattern = plain;
    *escape_char = None;
}

/// `~2 + 1` is `~(2 + 1)`, though the parser reads the sum last.
fn complement_of_sum(expr: &mut Expr) {
    let mut first = &mut *expr;
    while let Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, .. } = first
    {
        first = left;
    }
    let Expr::UnaryOp { op: op @ UnaryOperator::BitwiseNot, expr: operand } = first else { return };
    let op = *op;
    *first = std::mem::replace(operand, build::null());
    let sum = Box::new(std::mem::replace(expr, build::null()));
    *expr = Expr::UnaryOp { op, expr: sum };
}

/// The greatest value, the least and those between are the same in any order.
fn unordered(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    from_the_greatest(function);
    let Function { name, args: FunctionArguments::List(list), .. } = function else { return };
    const NAMES: [&str; 5] = ["max", "min", "quantile", "quantile_cont", "quantile_disc"];
    if NAMES.iter().any(|plain| is_named(name, plain)) {
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    }
}

/// `quantile_cont(x, f ORDER BY x DESC)` is `percentile_cont(f) WITHIN GROUP (ORDER BY x DESC)`.
fn from_the_greatest(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), FunctionArg::Unnamed(_)] =
        list.args.as_slice()
    else {
        return;
    };
    let named = |plain: &str| is_named(&function.name, plain);
    let percentile = match (named("quantile_cont"), named("quantile_disc")) {
        (true, _) => "percentile_cont",
        (_, true) => "percentile_disc",
        _ => return,
    };
    let orders = list.clauses.iter().filter_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => Some(keys.as_slice()),
        _ => None,
    });
    if let [[key]] = orders.collect::<Vec<_>>().as_slice()
        && key.options.asc == Some(false)
    {
        function.within_group = vec![OrderByExpr { expr: value.clone(), ..(*key).clone() }];
        function.name = ObjectName::from(vec![Ident::new(percentile)]);
        list.args.remove(0);
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    }
}

/// `list[2:]`: what is behind the end does not matter. `list[:2:-1]` begins at the end.
fn open_slices(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) = access
        {
            let (first, behind) = (|| build::integer(1), || build::integer(i32::MAX as usize));
            let last = || Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(first()) };
            let by = |forwards: Expr, backwards: Expr| match stride.as_ref() {
                None | Some(Expr::Value(_)) => forwards,
                Some(stride) if is_negative(stride) => backwards,
                Some(stride) => {
                    let zero = build::integer(0);
                    let is_negative = build::binary(stride.clone(), BinaryOperator::Lt, zero);
                    build::case(vec![(is_negative, backwards), (build::boolean(true), forwards)])
                }
            };
            lower_bound.get_or_insert_with(|| by(first(), last()));
            upper_bound.get_or_insert_with(|| by(behind(), first()));
        }
    }
}

fn is_negative(expr: &Expr) -> bool {
    matches!(expr, Expr::UnaryOp { op: UnaryOperator::Minus, .. })
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
