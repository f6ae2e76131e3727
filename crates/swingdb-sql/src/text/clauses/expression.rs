//! Expressions, calls of functions, windows.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, CaseWhen, CeilFloorKind, DateTimeField, DictionaryField, DuplicateTreatment,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Interval, LambdaFunction, LambdaFunctionParameter, Map, MapEntry,
    OneOrManyWithParens, Subscript, TypedString, WindowFrame, WindowFrameBound, WindowSpec,
    WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::text::clauses::{none_of, query};

pub(crate) fn expression(node: &Expr) -> Result<()> {
    match node {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::InList { expr: _, list: _, negated: _ }
        | Expr::InSubquery { expr: _, subquery: _, negated: _ }
        | Expr::Between { expr: _, negated: _, low: _, high: _ }
        | Expr::BinaryOp { left: _, op: _, right: _ }
        | Expr::SimilarTo { negated: _, expr: _, pattern: _, escape_char: _ }
        | Expr::AnyOp { left: _, compare_op: _, right: _, is_some: _ }
        | Expr::AllOp { left: _, compare_op: _, right: _ }
        | Expr::UnaryOp { op: _, expr: _ }
        | Expr::AtTimeZone { timestamp: _, time_zone: _ }
        | Expr::Extract { field: _, syntax: _, expr: _ }
        | Expr::Position { expr: _, r#in: _ }
        | Expr::Overlay { expr: _, overlay_what: _, overlay_from: _, overlay_for: _ }
        | Expr::Nested(_)
        | Expr::Value(_)
        | Expr::TypedString(TypedString { data_type: _, value: _, uses_odbc_syntax: _ })
        | Expr::Exists { subquery: _, negated: _ }
        | Expr::Subquery(_)
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Named { expr: _, name: _ }
        | Expr::Array(Array { elem: _, named: _ })
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(_, _) => Ok(()),
        Expr::Substring {
            expr: _,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand: _,
        } => Ok(()),
        Expr::Case { case_token: _, end_token: _, operand: _, conditions, else_result: _ } => {
            for CaseWhen { condition: _, result: _ } in conditions {}
            Ok(())
        }
        Expr::Function(call) => function(call),
        other => with_parts(other),
    }
}

/// Those with parts of their own to decide about.
fn with_parts(node: &Expr) -> Result<()> {
    match node {
        Expr::CompoundFieldAccess { root: _, access_chain } => {
            for access in access_chain {
                match access {
                    AccessExpr::Dot(_) | AccessExpr::Subscript(Subscript::Index { index: _ }) => {}
                    AccessExpr::Subscript(Subscript::Slice {
                        lower_bound: _,
                        upper_bound: _,
                        stride: _,
                    }) => {}
                }
            }
            Ok(())
        }
        Expr::Like { negated: _, any, expr: _, pattern: _, escape_char: _ }
        | Expr::ILike { negated: _, any, expr: _, pattern: _, escape_char: _ } => {
            none_of("LIKE", &[(*any, "ANY; write several conditions with OR")])
        }
        Expr::Cast { kind: _, expr: _, data_type: _, array, format } => none_of(
            "CAST",
            &[
                (*array, "ARRAY; write the type with []"),
                (format.is_some(), "FORMAT; write strftime or strptime"),
            ],
        ),
        Expr::Trim { trim_where: _, trim_what: _, expr: _, trim_characters } => {
            // The engine would take the first.
            match trim_characters.as_ref().is_some_and(|characters| characters.len() > 1) {
                true => Err(Error::plan("trim(...) takes a text and the characters to cut off")),
                false => Ok(()),
            }
        }
        Expr::Ceil { expr: _, field } => whole("ceil", field),
        Expr::Floor { expr: _, field } => whole("floor", field),
        Expr::Collate { expr: _, collation } => Err(Error::unsupported(format!(
            "COLLATE {collation} here; text is compared by its bytes. Write COLLATE NOCASE in a \
             comparison, ORDER BY, GROUP BY or DISTINCT of the statement's own query, and \
             lower(...) elsewhere"
        ))),
        Expr::Struct { values: _, fields } => {
            none_of("STRUCT", &[(!fields.is_empty(), "<types>(values); write a cast")])
        }
        Expr::Dictionary(fields) => {
            for DictionaryField { key: _, value: _ } in fields {}
            Ok(())
        }
        Expr::Map(Map { entries }) => {
            for MapEntry { key: _, value: _ } in entries {}
            Ok(())
        }
        // An ASOF LEFT JOIN, see `ast::asof`.
        Expr::OuterJoin(all) if matches!(all.as_ref(), Expr::Wildcard(_)) => Ok(()),
        Expr::Interval(node) => interval(node),
        Expr::Lambda(node) => lambda(node),
        other => Err(Error::unsupported(format!("the expression {other}"))),
    }
}

/// `ceil(x TO DAY)`, `ceil(x, 2)`.
fn whole(name: &str, field: &CeilFloorKind) -> Result<()> {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => Ok(()),
        CeilFloorKind::DateTimeField(unit) => {
            Err(Error::unsupported(format!("{name}(x TO {unit}); write date_trunc")))
        }
        CeilFloorKind::Scale(places) => {
            Err(Error::unsupported(format!("{name}(x, {places}); write round(x, {places})")))
        }
    }
}

fn interval(node: &Interval) -> Result<()> {
    let Interval {
        value: _,
        leading_field: _,
        leading_precision,
        last_field,
        fractional_seconds_precision,
    } = node;
    none_of(
        "INTERVAL",
        &[
            (last_field.is_some(), "TO a second unit; write INTERVAL '1 year 2 months'"),
            (
                leading_precision.is_some() || fractional_seconds_precision.is_some(),
                "a precision in brackets",
            ),
        ],
    )
}

fn lambda(node: &LambdaFunction) -> Result<()> {
    let LambdaFunction { params, body: _, syntax: _ } = node;
    let params = match params {
        OneOrManyWithParens::One(one) => std::slice::from_ref(one),
        OneOrManyWithParens::Many(all) => all,
    };
    params.iter().try_for_each(|LambdaFunctionParameter { name: _, data_type }| {
        none_of("lambda", &[(data_type.is_some(), "a type of a parameter")])
    })
}

/// A call. What its FILTER, OVER, DISTINCT, ORDER BY, WITHIN GROUP and IGNORE NULLS mean depends on
/// the function, see [`clauses`](crate::bind::functions::clauses).
fn function(node: &Function) -> Result<()> {
    let Function {
        name,
        uses_odbc_syntax: _,
        parameters,
        args,
        filter: _,
        null_treatment: _,
        over,
        within_group,
    } = node;
    none_of(
        &format!("{name}(...)"),
        &[(*parameters != FunctionArguments::None, "a second pair of brackets")],
    )?;
    match args {
        FunctionArguments::None | FunctionArguments::Subquery(_) => {}
        FunctionArguments::List(list) => arguments(node, list)?,
    }
    match over {
        None | Some(WindowType::NamedWindow(_)) => {}
        Some(WindowType::WindowSpec(spec)) => window(spec)?,
    }
    within_group.iter().try_for_each(query::order_key)
}

fn arguments(call: &Function, node: &FunctionArgumentList) -> Result<()> {
    let FunctionArgumentList { duplicate_treatment: _, args, clauses } = node;
    args.iter().try_for_each(argument)?;
    counted(call, node)?;
    for clause in clauses {
        match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(_) => {}
            FunctionArgumentClause::OrderBy(keys) => keys.iter().try_for_each(query::order_key)?,
            other => {
                let name = &call.name;
                return Err(Error::unsupported(format!("{name}(... {other})")));
            }
        }
    }
    Ok(())
}

/// `count(*)` has no distinct rows, and of one relation's `t.*` no rows without NULLs.
fn counted(call: &Function, node: &FunctionArgumentList) -> Result<()> {
    let is_count = match call.name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case("count")),
        _ => false,
    };
    match node.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
            if is_count && node.duplicate_treatment == Some(DuplicateTreatment::Distinct) =>
        {
            Err(Error::plan(
                "count(DISTINCT *); write SELECT count(*) FROM (SELECT DISTINCT * FROM t)",
            ))
        }
        [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(of))] if is_count => {
            Err(Error::unsupported(format!(
                "count({of}.*); write count(*), or count({of}.column) for a column without NULLs"
            )))
        }
        _ => Ok(()),
    }
}

/// An argument of a call.
pub(crate) fn argument(node: &FunctionArg) -> Result<()> {
    let (FunctionArg::Unnamed(value)
    | FunctionArg::Named { name: _, arg: value, operator: _ }
    | FunctionArg::ExprNamed { name: _, arg: value, operator: _ }) = node;
    match value {
        FunctionArgExpr::Expr(_)
        | FunctionArgExpr::Wildcard
        | FunctionArgExpr::QualifiedWildcard(_) => Ok(()),
        FunctionArgExpr::WildcardWithOptions(options) => query::wildcard(options),
    }
}

pub(crate) fn window(node: &WindowSpec) -> Result<()> {
    let WindowSpec { window_name: _, partition_by: _, order_by, window_frame } = node;
    order_by.iter().try_for_each(query::order_key)?;
    match window_frame {
        None => Ok(()),
        Some(WindowFrame { units: _, start_bound, end_bound }) => {
            for bound in end_bound.iter().chain([start_bound]) {
                match bound {
                    WindowFrameBound::CurrentRow
                    | WindowFrameBound::Preceding(_)
                    | WindowFrameBound::Following(_) => {}
                }
            }
            Ok(())
        }
    }
}
