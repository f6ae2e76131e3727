//! Functions under the names DuckDB's users know.
//!
//! Most are another spelling of what the query engine has, so they are rewritten in the syntax
//! tree: each is a template in which `$1`, `$2` ... stand for the arguments. A function the engine
//! has under that name is never rewritten.

pub(crate) mod clauses;
pub(crate) mod null_treatment;
pub(crate) mod once;
pub(crate) mod ordered_windows;
pub(crate) mod template;
pub(crate) mod templates;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use swingdb_common::error::{Error, Result};
use swingdb_functions::nested::structs::NAMED;
use swingdb_functions::text::captures;

use crate::ast::build;
use crate::ast::build::call;
use crate::ast::walk::walk_mut;
use crate::bind::functions::template::{Known, instantiate};
use crate::bind::functions::templates::{OF_NOW, OURS, PART, PARTS, RENAMES, TAIL, TEMPLATES};

/// The names of the function that computes an aggregate of a list.
const AGGREGATES_OF_LISTS: [&str; 4] =
    ["list_aggregate", "list_aggr", "array_aggregate", "array_aggr"];

/// Functions of a type that there is none of.
const OF_UNIONS: [&str; 3] = ["union_value", "union_extract", "union_tag"];

/// Rewrites the functions of a statement that the engine knows under another name.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T, known: Known<'_>) -> Result<()> {
    struct Rewriter<'a> {
        known: Known<'a>,
        result: Result<()>,
    }
    impl VisitorMut for Rewriter<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match rewritten(expr, self.known) {
                Ok(Some(new)) => *expr = new,
                Ok(None) => {}
                Err(error) => {
                    self.result = Err(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut rewriter = Rewriter { known, result: Ok(()) };
    // Breaks only with an error, which the rewriter keeps.
    let _ = walk_mut(tree, &mut rewriter);
    rewriter.result
}

/// Whether the rewriter gives a call of this name a meaning, whatever functions the engine has.
pub fn is_taken(name: &str) -> bool {
    AGGREGATES_OF_LISTS.contains(&name)
        || NAMED.contains(&name)
        || name == "struct_pack"
        || OF_NOW.iter().any(|(names, _)| names.contains(&name))
        || RENAMES.iter().any(|(from, _)| *from == name)
        || TEMPLATES.iter().any(|(names, _, _)| names.contains(&name))
}

/// The names that stand for other expressions, each with the text of what it stands for.
pub(crate) fn stand_ins() -> impl Iterator<Item = (&'static str, &'static str)> {
    let each = |names: &'static [&'static str], text: &'static str| {
        names.iter().map(move |name| (*name, text))
    };
    let of_lists = AGGREGATES_OF_LISTS.iter().map(|name| (*name, "list_*"));
    TEMPLATES
        .iter()
        .flat_map(move |(names, _, text)| each(names, text))
        .chain(OF_NOW.iter().flat_map(move |(names, text)| each(names, text)))
        .chain(RENAMES.iter().copied())
        .chain(of_lists)
        .chain([("struct_pack", "named_struct")])
}

fn rewritten(expr: &Expr, known: Known<'_>) -> Result<Option<Expr>> {
    let function = match expr {
        Expr::Function(function) => function,
        Expr::Extract { field, expr, .. } => return extracted(field, expr, known),
        Expr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
            let args = [Some(expr), Some(from), substring_for.as_ref()].into_iter().flatten();
            let call = call("substr", args.map(|arg| (**arg).clone()).collect::<Vec<_>>());
            return rewritten(&call, known);
        }
        _ => return Ok(None),
    };
    let [part] = function.name.0.as_slice() else { return Ok(None) };
    let Some(name) = part.as_ident().filter(|ident| ident.quote_style.is_none()) else {
        return Ok(None);
    };
    let name = name.value.to_ascii_lowercase();
    if OF_UNIONS.contains(&name.as_str()) && !(known.any)(&name) {
        return Err(Error::unsupported(format!(
            "{name}: there is no UNION type; a STRUCT with a field for each kind of value does"
        )));
    }
    if let Some(new) = mode_within(&name, function).or_else(|| quantile_within(&name, function)) {
        return Ok(Some(new));
    }
    if name == "struct_pack" && !(known.any)(&name) {
        return Ok(struct_pack(function));
    }
    if let Some(new) = groups_with_names(&name, function) {
        return Ok(Some(new));
    }
    if NAMED.contains(&name.as_str()) {
        return Ok(named_fields(function));
    }
    if let Some(template) = of_now(&name, function) {
        return instantiate(template, &[], function, known).map(Some);
    }
    let Some((args, plain)) = arguments(function) else {
        return Ok(renamed(&name, function, known));
    };
    if !plain && let Some(new) = renamed(&name, function, known) {
        return Ok(Some(new));
    }
    let fill = |template: &str, args: &[Expr]| instantiate(template, args, function, known);
    if let Some((template, of)) = for_these(&name, &args) {
        return fill(template, of).map(Some);
    }
    // The engine's own takes any value, whatever the order is.
    let is_ours = OURS.contains(&name.as_str()) || name == "any_value" && !plain;
    if !is_ours && (known.any)(&name) {
        return Ok(None);
    }
    if AGGREGATES_OF_LISTS.contains(&name.as_str()) {
        return Ok(list_aggregate(function, &args, known));
    }
    let template = TEMPLATES
        .iter()
        .find(|(names, count, _)| names.contains(&name.as_str()) && *count == args.len());
    let Some((_, _, template)) = template else { return Ok(renamed(&name, function, known)) };
    fill(template, &args).map(Some)
}

/// What the clock of the session shows; brackets may be missing.
fn of_now(name: &str, function: &Function) -> Option<&'static str> {
    let is_bare = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let (_, template) = OF_NOW.iter().find(|(names, _)| is_bare && names.contains(&name))?;
    Some(template)
}

/// The error for a call of a function that exists with another number of arguments; `None` where no
/// function is so named.
pub(crate) fn unknown_count(name: &str, args: &FunctionArguments) -> Option<Error> {
    let FunctionArguments::List(list) = args else { return None };
    let mut counts: Vec<usize> = TEMPLATES
        .iter()
        .filter(|(names, _, _)| names.contains(&name))
        .map(|(_, count, _)| *count)
        .collect();
    if AGGREGATES_OF_LISTS.contains(&name) {
        counts.push(2);
    }
    counts.sort_unstable();
    counts.dedup();
    let (last, first) = counts.split_last()?;
    let first = first.iter().map(|count| format!("{count}, ")).collect::<String>();
    let takes = match first.strip_suffix(", ") {
        None => last.to_string(),
        Some(first) => format!("{first} or {last}"),
    };
    let plural = if takes == "1" { "" } else { "s" };
    let given = list.args.len();
    Some(Error::plan(format!("{name}(...) takes {takes} argument{plural}, and has {given} here")))
}

/// `mode() WITHIN GROUP (ORDER BY x)` is `mode(x ORDER BY x)`.
fn mode_within(name: &str, function: &Function) -> Option<Expr> {
    let [key] = function.within_group.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if name != "mode" || !list.args.is_empty() {
        return None;
    }
    let mut call = function.clone();
    let mut list = list.clone();
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone()))];
    list.clauses = vec![FunctionArgumentClause::OrderBy(std::mem::take(&mut call.within_group))];
    call.args = FunctionArguments::List(list);
    Some(Expr::Function(call))
}

/// `percentile_cont(0.9) WITHIN GROUP (ORDER BY x) OVER (...)` is `quantile_cont(x, 0.9) OVER
/// (...)`: the engine does not take both clauses.
fn quantile_within(name: &str, function: &Function) -> Option<Expr> {
    let to = match name {
        "percentile_cont" => "quantile_cont",
        "percentile_disc" => "quantile_disc",
        _ => return None,
    };
    let (Some(_), [key]) = (&function.over, function.within_group.as_slice()) else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(fraction))] = list.args.as_slice() else {
        return None;
    };
    let fraction = match (key.options.asc, to) {
        (Some(false), "quantile_cont") => {
            let one = Expr::Value(Value::Number("1".into(), false).with_empty_span());
            build::binary(one, BinaryOperator::Minus, Expr::Nested(Box::new(fraction.clone())))
        }
        // The greatest value that is not above a share of the rows is another one from that side.
        (Some(false), _) => return None,
        _ => fraction.clone(),
    };
    let mut call = function.clone();
    call.name = vec![Ident::new(to)].into();
    call.within_group = Vec::new();
    let args = [key.expr.clone(), fraction].map(FunctionArgExpr::Expr);
    let mut list = list.clone();
    list.args = args.map(FunctionArg::Unnamed).to_vec();
    call.args = FunctionArguments::List(list);
    Some(Expr::Function(call))
}

fn renamed(name: &str, function: &Function, known: Known<'_>) -> Option<Expr> {
    let (_, to) = RENAMES.iter().find(|(from, _)| *from == name && !(known.any)(name))?;
    let mut call = function.clone();
    call.name = vec![Ident::new(*to)].into();
    Some(Expr::Function(call))
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The arguments of a call, and whether they are all that is in its brackets: neither DISTINCT nor
/// ORDER BY nor the like is.
fn arguments(function: &Function) -> Option<(Vec<Expr>, bool)> {
    let list = match &function.args {
        FunctionArguments::List(list) => list,
        // `current_user` and its like are called without parentheses.
        FunctionArguments::None => return Some((Vec::new(), true)),
        FunctionArguments::Subquery(_) => return None,
    };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
    Some((args.collect::<Option<_>>()?, plain))
}

/// `list_aggregate(l, 'min')` is `list_min(l)`.
fn list_aggregate(function: &Function, args: &[Expr], known: Known<'_>) -> Option<Expr> {
    // A further one is that of `string_agg`.
    let (list, aggregate, more) = match args {
        [list, aggregate] => (list, aggregate, None),
        [list, aggregate, more] => (list, aggregate, Some(more)),
        _ => return None,
    };
    let aggregate = literal(aggregate)?;
    let mut call = function.clone();
    call.name = vec![Ident::new(format!("list_{}", aggregate.to_ascii_lowercase()))].into();
    let FunctionArguments::List(arguments) = &mut call.args else { return None };
    let args = std::iter::once(list).chain(more).cloned().map(FunctionArgExpr::Expr);
    arguments.args = args.map(FunctionArg::Unnamed).collect();
    let known = Known { any: &|_| false, ..known };
    rewritten(&Expr::Function(call.clone()), known).ok()?.or(Some(Expr::Function(call)))
}

/// Whether it is a number that is written without a sign.
fn is_whole_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(..), .. }))
}

/// `extract(decade FROM x)` and `extract('year' FROM x)` are calls of `date_part`.
fn extracted(field: &DateTimeField, of: &Expr, known: Known<'_>) -> Result<Option<Expr>> {
    let text = field.to_string();
    let part = text.trim_matches('\'');
    let named = Value::SingleQuotedString(part.to_string()).with_empty_span();
    let call = call("date_part", vec![Expr::Value(named), of.clone()]);
    let new = rewritten(&call, known)?;
    let is_quoted = part.len() < text.len();
    Ok(new.or_else(|| is_quoted.then_some(call)))
}

/// The template of a call that the engine has as well, but not for these arguments, and those of
/// them that it takes.
fn for_these<'a>(name: &str, args: &'a [Expr]) -> Option<(&'static str, &'a [Expr])> {
    match (name, args) {
        ("date_part" | "datepart", [_, of @ ..]) => Some((part_of(PARTS, args)?, of)),
        ("substr" | "substring", [_, place]) if !is_whole_number(place) => Some((TAIL, args)),
        ("substr" | "substring", [_, place, length])
            if !is_whole_number(place) || !is_whole_number(length) =>
        {
            Some((PART, args))
        }
        _ => None,
    }
}

/// What stands for the part of a date or time that the first argument names.
fn part_of(parts: &[(&[&str], &'static str)], args: &[Expr]) -> Option<&'static str> {
    let [part, _] = args else { return None };
    let part = literal(part)?;
    let is_named = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(part));
    parts.iter().find(|(names, _)| is_named(names)).map(|(_, stands)| *stands)
}

/// `struct_pack(a := 1, b := 2)`.
fn struct_pack(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let named = list.args.iter().all(|arg| matches!(arg, FunctionArg::Named { .. }));
    let mut call = named.then(|| with_names(function))??;
    call.name = vec![Ident::new("named_struct")].into();
    Some(Expr::Function(call))
}

/// `regexp_extract(text, pattern, ['year', 'month'], options)`, with the names as arguments.
fn groups_with_names(name: &str, function: &Function) -> Option<Expr> {
    let (_, named) = captures::NAMES.iter().find(|(known, _)| *known == name)?;
    let (args, _) = arguments(function)?;
    let (text, pattern, names, options) = match args.as_slice() {
        [text, pattern, Expr::Array(names)] => (text, pattern, names, None),
        [text, pattern, Expr::Array(names), options] => (text, pattern, names, Some(options)),
        _ => return None,
    };
    let none = || Expr::Value(Value::SingleQuotedString(String::new()).with_empty_span());
    let options = options.cloned().unwrap_or_else(none);
    let args = [text.clone(), pattern.clone(), options].into_iter().chain(names.elem.clone());
    let mut call = function.clone();
    call.name = vec![Ident::new(*named)].into();
    let FunctionArguments::List(list) = &mut call.args else { return None };
    list.args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Some(Expr::Function(call))
}

/// `struct_insert(s, a := 1, b := 2)`.
fn named_fields(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let named = list.args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. }));
    named.then(|| with_names(function))?.map(Expr::Function)
}

/// The call with the name of each argument that has one before it, as a text.
fn with_names(function: &Function) -> Option<Function> {
    let mut call = function.clone();
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let mut args = Vec::with_capacity(list.args.len() * 2);
    for arg in std::mem::take(&mut list.args) {
        match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                let name = Value::SingleQuotedString(name.value).with_empty_span();
                for expr in [Expr::Value(name), value] {
                    args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
                }
            }
            arg @ FunctionArg::Unnamed(FunctionArgExpr::Expr(_)) => args.push(arg),
            _ => return None,
        }
    }
    list.args = args;
    Some(call)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn rewritten(sql: &str) -> Result<String> {
        let mut expr = Parser::new(&DIALECT).try_with_sql(sql).unwrap().parse_expr().unwrap();
        let aggregates = |name: &str| ["sum", "avg", "count", "array_agg"].contains(&name);
        rewrite(&mut expr, Known { any: &|name| name == "week", aggregates: &aggregates })?;
        Ok(expr.to_string())
    }

    fn rewrite_text(sql: &str) -> String {
        rewritten(sql).unwrap()
    }

    #[test]
    fn calls_become_what_the_engine_has() {
        assert_eq!(rewrite_text("year(a + 1)"), "date_part('year', (a + 1))");
        assert_eq!(rewrite_text("mod(a, 2) * 3"), "(a % 2) * 3");
        assert_eq!(
            rewrite_text("count_if(x > 1) OVER (ORDER BY y)"),
            "count(CASE WHEN (x > 1) THEN 1 END) OVER (ORDER BY y)"
        );
        assert_eq!(rewrite_text("date_part('Weekday', a)"), "date_part('dow', a)");
        assert_eq!(rewrite_text("extract(decade FROM a)"), "decade(a)");
        assert_eq!(rewrite_text("extract('year' FROM a)"), "date_part('year', a)");
        assert_eq!(rewrite_text("struct_pack(a := 1)"), "named_struct('a', 1)");
    }

    #[test]
    fn conditions_and_windows_are_those_of_the_aggregates() {
        assert_eq!(
            rewrite_text("geomean(a) FILTER (WHERE b > $1)"),
            "exp(avg(ln(a)) FILTER (WHERE (b > $1)))"
        );
        assert_eq!(
            rewrite_text("weighted_avg(sum(a), b) OVER ()"),
            "(sum(CAST(sum(a) AS DOUBLE) * b) OVER () / \
             sum(CASE WHEN sum(a) IS NOT NULL THEN CAST(b AS DOUBLE) END) OVER ())"
        );
        for none in ["year(a) FILTER (WHERE b)", "ifnull(a, b) OVER ()", "quarter(a) OVER ()"] {
            assert!(rewritten(none).is_err(), "{none}");
        }
    }

    #[test]
    fn what_is_not_known_stays() {
        assert_eq!(rewrite_text("sum(DISTINCT a)"), "sum(DISTINCT a)");
        assert_eq!(rewrite_text("year(a, b)"), "year(a, b)");
        assert_eq!(rewrite_text("\"year\"(a)"), "\"year\"(a)");
    }

    #[test]
    fn every_template_parses() {
        let of_parts = PARTS.iter().map(|(names, template)| (names, 1, template));
        let all = TEMPLATES.iter().map(|(names, count, template)| (names, *count, template));
        for (names, count, template) in all.chain(of_parts) {
            let name = names[0];
            let args = (0..count).map(|i| Expr::Identifier(Ident::new(format!("a{i}"))));
            let args = args.collect::<Vec<_>>();
            let Expr::Function(call) = call(name, args.clone()) else { unreachable!() };
            let known = Known { any: &|_| false, aggregates: &|_| false };
            let text = instantiate(template, &args, &call, known).unwrap().to_string();
            let left = (1..=9).any(|place| text.contains(&format!("${place}")));
            assert!(!left, "{name}: {text}");
        }
    }
}
