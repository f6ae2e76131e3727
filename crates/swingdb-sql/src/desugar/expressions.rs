//! Operators, casts, calls and literals that the engine refuses, or takes for something else.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, Interval, ObjectName,
    OrderByExpr, Subscript, TypedString, UnaryOperator, Value,
};
use swingdb_common::error::Result;
use swingdb_common::types::arrow_types::enum_type;
use swingdb_functions::json::to_json::{AS_JSON, TRY_AS_JSON};
use swingdb_functions::nested::parts::{AS_PARTS, TRY_AS_PARTS, places};
use swingdb_functions::text::enums::{AS_ENUM, TRY_AS_ENUM};
use swingdb_functions::text::like_pattern::LIKE_PATTERN;
use swingdb_functions::text::uuids::{AS_UUID, TRY_AS_UUID};

use crate::ast::build;
use crate::ast::build::{DOUBLE, call, cast, is_named, text};
use crate::desugar::{constants, intervals, quantified, registered};
use crate::text::statement_forms::OPEN_END;

/// The operators that stand for IS DISTINCT FROM and its opposite: what they compare is settled
/// where operators are planned.
pub(crate) const DISTINCT_FROM: &str = "is distinct from";
pub(crate) const NOT_DISTINCT_FROM: &str = "is not distinct from";

/// What has to change before the parts of an expression do: the parser binds some signs otherwise.
///
/// `-2 ^ 2` is 4: the sign belongs to the 2, though the parser reads the power first. The sign of
/// an interval goes for all its parts: the engine would put it before the first one.
pub(crate) fn regroup(expr: &mut Expr) {
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
}

/// An expression whose parts have been rewritten.
pub(crate) fn rewrite(expr: &mut Expr) -> Result<()> {
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
    if let Expr::Function(call) = expr {
        constants::settle(call)?;
    }
    if let Some(new) = expression(expr)? {
        *expr = new;
    }
    Ok(())
}

fn compared(expr: &Expr) -> Option<Expr> {
    let (left, operator, right) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, DISTINCT_FROM, right),
        Expr::IsNotDistinctFrom(left, right) => (left, NOT_DISTINCT_FROM, right),
        _ => return None,
    };
    let operator = BinaryOperator::Custom(operator.to_string());
    Some(build::binary(left.as_ref().clone(), operator, right.as_ref().clone()))
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
pub(crate) fn as_doubles(values: Vec<&mut Expr>) {
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

/// NULLs and texts in a column of VALUES beside UUIDs, JSON or values of an ENUM are such, too: the
/// engine tells the texts that these are from others, and refuses a list of both.
pub(crate) fn as_marked(values: Vec<&mut Expr>) {
    const DRAWN: [&str; 4] = ["gen_random_uuid", "uuid", "uuidv4", "uuidv7"];
    let marks = |value: &Expr| -> Option<(&'static str, Vec<Expr>)> {
        let Expr::Function(function) = value else { return None };
        let name = function.name.to_string().to_ascii_lowercase();
        if [AS_UUID, TRY_AS_UUID].contains(&name.as_str()) || DRAWN.contains(&name.as_str()) {
            return Some((AS_UUID, Vec::new()));
        }
        if [AS_JSON, TRY_AS_JSON].contains(&name.as_str()) {
            return Some((AS_JSON, Vec::new()));
        }
        if ![AS_ENUM, TRY_AS_ENUM].contains(&name.as_str()) {
            return None;
        }
        let FunctionArguments::List(list) = &function.args else { return None };
        let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(names))] = list.args.as_slice() else {
            return None;
        };
        Some((AS_ENUM, vec![names.clone()]))
    };
    let Some((function, more)) = values.iter().find_map(|value| marks(value)) else { return };
    let is_plain = |value: &Expr| match value {
        Expr::Value(value) => matches!(value.value, Value::Null | Value::SingleQuotedString(_)),
        _ => false,
    };
    for value in values.into_iter().filter(|value| is_plain(value)) {
        let plain = std::mem::replace(value, build::null());
        *value = call(function, std::iter::once(plain).chain(more.clone()).collect::<Vec<_>>());
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
        BinaryOperator::AtArrow => Some("list_has_all"),
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
        Expr::BinaryOp { left, op: BinaryOperator::ArrowAt, right } => {
            Some(call("list_has_all", [right.as_ref().clone(), left.as_ref().clone()]))
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

/// `list[2:]`: what is behind the end does not matter. `list[:2:-1]` begins at the end, and
/// `list[2:-:-1]` ends at the beginning.
fn open_slices(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) = access
        {
            let is_open = |end: &mut Expr| {
                matches!(end, Expr::Identifier(end)
                    if end.quote_style.is_some() && end.value == OPEN_END)
            };
            _ = upper_bound.take_if(is_open);
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
