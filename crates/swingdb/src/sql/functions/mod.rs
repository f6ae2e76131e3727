//! Functions under the names DuckDB's users know.
//!
//! Most are another spelling of what the query engine has, so they are rewritten in the syntax
//! tree: each is a template in which `$1`, `$2` ... stand for the arguments. A function the engine
//! has under that name is never rewritten.

mod age;
mod bounded;
mod counted;
mod format;
mod json;
mod lists;
mod moments;
mod numbers;
mod operator;
mod replaced;
mod size;
mod texts;

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

pub(crate) use bounded::{BoundedFunctions, MemoryLeft, bounded_expr};

use crate::error::Result;
use crate::sql::dialect::DIALECT;
use crate::sql::visit::walk_mut;
use crate::sql::write::ast;

/// Functions of single rows that the engine lacks; some are aggregates of lists.
pub(crate) fn of_rows(aggregates: &[Arc<AggregateUDF>]) -> impl Iterator<Item = ScalarUDF> {
    let of_values = numbers::functions().chain(format::functions());
    let all = json::functions().chain(texts::functions()).chain(of_values);
    all.chain(age::functions()).chain(lists::functions(aggregates))
}

/// For how many rows a function computes: one, where all arguments are constants.
fn rows_of(args: &ScalarFunctionArgs) -> usize {
    if is_constant(args) { 1 } else { args.number_rows }
}

fn is_constant(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// What a function has [computed](rows_of): a constant of constants, else a column.
fn as_given(args: &ScalarFunctionArgs, found: ArrayRef) -> DfResult<ColumnarValue> {
    Ok(match is_constant(args) {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
        false => ColumnarValue::Array(found),
    })
}

/// Aggregates that the engine lacks.
pub(crate) fn of_groups() -> impl Iterator<Item = AggregateUDF> {
    counted::functions().chain(moments::functions())
}

/// Name, number of arguments, what it is the same as.
const TEMPLATES: &[(&str, usize, &str)] = &[
    ("arg_max", 2, "first_value($1 ORDER BY $2 DESC NULLS LAST)"),
    ("arg_min", 2, "first_value($1 ORDER BY $2 ASC NULLS LAST)"),
    ("max_by", 2, "first_value($1 ORDER BY $2 DESC NULLS LAST)"),
    ("min_by", 2, "first_value($1 ORDER BY $2 ASC NULLS LAST)"),
    ("max", 2, "array_slice(array_agg($1 ORDER BY $1 DESC) FILTER (WHERE $1 IS NOT NULL), 1, $2)"),
    ("min", 2, "array_slice(array_agg($1 ORDER BY $1 ASC) FILTER (WHERE $1 IS NOT NULL), 1, $2)"),
    ("arg_max", 3, MOST_BY),
    ("max_by", 3, MOST_BY),
    ("arg_min", 3, LEAST_BY),
    ("min_by", 3, LEAST_BY),
    ("geomean", 1, "exp(avg(ln($1)))"),
    ("geometric_mean", 1, "exp(avg(ln($1)))"),
    ("favg", 1, "avg(CAST($1 AS DOUBLE))"),
    ("fsum", 1, "sum(CAST($1 AS DOUBLE))"),
    ("kahan_sum", 1, "sum(CAST($1 AS DOUBLE))"),
    ("sumkahan", 1, "sum(CAST($1 AS DOUBLE))"),
    ("sum_no_overflow", 1, "sum($1)"),
    ("sem", 1, "stddev_pop($1) / sqrt(count($1))"),
    ("weighted_avg", 2, WEIGHTED),
    ("wavg", 2, WEIGHTED),
    ("arbitrary", 1, "first_value($1)"),
    ("any_value", 1, "first_value($1) FILTER (WHERE $1 IS NOT NULL)"),
    ("first", 1, "first_value($1)"),
    ("last", 1, "last_value($1)"),
    ("list", 1, "array_agg($1)"),
    ("count_if", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("countif", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("group_concat", 1, "string_agg($1, ',')"),
    ("group_concat", 2, "string_agg($1, $2)"),
    ("listagg", 1, "string_agg($1, ',')"),
    ("listagg", 2, "string_agg($1, $2)"),
    ("string_agg", 1, "string_agg($1, ',')"),
    ("approx_quantile", 2, "approx_percentile_cont($1, $2)"),
    ("quantile_cont", 2, "percentile_cont($1, $2)"),
    ("quantile", 2, QUANTILE),
    ("quantile_disc", 2, QUANTILE),
    ("year", 1, "date_part('year', $1)"),
    ("quarter", 1, "date_part('quarter', $1)"),
    ("month", 1, "date_part('month', $1)"),
    ("week", 1, "date_part('week', $1)"),
    ("weekofyear", 1, "date_part('week', $1)"),
    ("day", 1, "date_part('day', $1)"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("weekday", 1, "date_part('dow', $1)"),
    ("isodow", 1, "date_part('isodow', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("hour", 1, "date_part('hour', $1)"),
    ("minute", 1, "date_part('minute', $1)"),
    ("second", 1, "date_part('second', $1)"),
    ("epoch", 1, "date_part('epoch', $1)"),
    ("epoch_ms", 1, "CAST(floor(date_part('epoch', $1) * 1000.0) AS BIGINT)"),
    ("epoch_us", 1, "CAST(floor(date_part('epoch', $1) * 1000000.0) AS BIGINT)"),
    ("isoyear", 1, "date_part('isoyear', $1)"),
    ("yearweek", 1, "date_part('isoyear', $1) * 100 + date_part('week', $1)"),
    ("decade", 1, "CAST(floor(date_part('year', $1) / 10.0) AS BIGINT)"),
    ("century", 1, "CAST(floor((date_part('year', $1) - 1) / 100.0) AS BIGINT) + 1"),
    ("millennium", 1, "CAST(floor((date_part('year', $1) - 1) / 1000.0) AS BIGINT) + 1"),
    ("era", 1, "CASE WHEN date_part('year', $1) > 0 THEN 1 ELSE 0 END"),
    ("millisecond", 1, "date_part('millisecond', $1)"),
    ("microsecond", 1, "date_part('microsecond', $1)"),
    ("age", 1, "age(CAST(current_date() AS TIMESTAMP), $1)"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("strftime", 2, STRFTIME),
    ("strptime", 2, STRPTIME),
    ("last_day", 1, LAST_DAY),
    ("date_add", 2, "$1 + $2"),
    ("make_timestamp", 6, MAKE_TIMESTAMP),
    ("to_years", 1, "CAST(CAST($1 AS VARCHAR) || ' years' AS INTERVAL)"),
    ("to_months", 1, "CAST(CAST($1 AS VARCHAR) || ' months' AS INTERVAL)"),
    ("to_weeks", 1, "CAST(CAST($1 AS VARCHAR) || ' weeks' AS INTERVAL)"),
    ("to_days", 1, "CAST(CAST($1 AS VARCHAR) || ' days' AS INTERVAL)"),
    ("to_hours", 1, "CAST(CAST($1 AS VARCHAR) || ' hours' AS INTERVAL)"),
    ("to_minutes", 1, "CAST(CAST($1 AS VARCHAR) || ' minutes' AS INTERVAL)"),
    ("to_seconds", 1, "CAST(CAST($1 AS VARCHAR) || ' seconds' AS INTERVAL)"),
    ("time_bucket", 2, WEEKLY),
    ("time_bucket", 3, "date_bin($1, $2, $3)"),
    ("len", 1, "length($1)"),
    // The engine's own take a negative length of a column for a very large one.
    ("lpad", 2, "lpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END)"),
    ("lpad", 3, "lpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END, $3)"),
    ("rpad", 2, "rpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END)"),
    ("rpad", 3, "rpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END, $3)"),
    ("editdist3", 2, "levenshtein($1, $2)"),
    ("encode", 1, "CAST($1 AS BYTEA)"),
    ("decode", 1, "CAST($1 AS VARCHAR)"),
    ("parse_filename", 1, "regexp_replace($1, '^.*[/\\\\]', '')"),
    ("json", 1, "json_extract($1, '$')"),
    ("prefix", 2, "starts_with($1, $2)"),
    ("suffix", 2, "ends_with($1, $2)"),
    ("string_split", 2, SPLIT),
    ("str_split", 2, SPLIT),
    ("split", 2, SPLIT),
    ("strlen", 1, "octet_length($1)"),
    ("unicode", 1, "ascii($1)"),
    ("ord", 1, "ascii($1)"),
    ("from_hex", 1, "decode($1, 'hex')"),
    ("unhex", 1, "decode($1, 'hex')"),
    ("base64", 1, "encode($1, 'base64pad')"),
    ("to_base64", 1, "encode($1, 'base64pad')"),
    ("from_base64", 1, "decode($1, 'base64pad')"),
    ("regexp_matches", 2, "regexp_like($1, $2)"),
    ("regexp_matches", 3, "regexp_like($1, $2, $3)"),
    ("struct_extract", 2, "get_field($1, $2)"),
    ("fdiv", 2, "CAST($1 AS DOUBLE) / $2"),
    ("list_count", 1, "array_length(array_filter($1, x -> x IS NOT NULL))"),
    ("regexp_full_match", 2, "regexp_like($1, '^(?:' || $2 || ')\\z')"),
    (
        "regexp_extract",
        2,
        "CASE WHEN $1 IS NOT NULL THEN \
         coalesce(array_element(regexp_match($1, '(' || $2 || ')'), 1), '') END",
    ),
    (
        "regexp_extract",
        3,
        "CASE WHEN $1 IS NOT NULL THEN \
         coalesce(array_element(regexp_match($1, '(' || $2 || ')'), $3 + 1), '') END",
    ),
    ("list_unique", 1, "array_length(array_distinct(array_filter($1, x -> x IS NOT NULL)))"),
    ("list_sort", 1, SORT),
    ("list_sort", 2, SORT_IN),
    ("array_sort", 1, SORT),
    ("array_sort", 2, SORT_IN),
    ("list_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS LAST')"),
    ("array_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS LAST')"),
    ("list_distinct", 1, "array_distinct(array_filter($1, x -> x IS NOT NULL))"),
    ("array_distinct", 1, "array_distinct(array_filter($1, x -> x IS NOT NULL))"),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("iif", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("ifnull", 2, "coalesce($1, $2)"),
    ("mod", 2, "$1 % $2"),
    ("sign", 1, "CASE WHEN $1 > 0 THEN 1 WHEN $1 < 0 THEN -1 WHEN $1 = 0 THEN 0 END"),
    ("variance", 1, "var_samp($1)"),
    ("approx_count_distinct", 1, "approx_distinct($1)"),
    ("isfinite", 1, "NOT (isnan($1) OR abs($1) = CAST('Infinity' AS DOUBLE))"),
    ("fmod", 2, "$1 % $2"),
    ("isinf", 1, "abs($1) = CAST('Infinity' AS DOUBLE)"),
    ("gen_random_uuid", 0, "uuid()"),
    ("current_schema", 0, "'main'"),
    ("current_database", 0, "'swingdb'"),
    ("list_max", 1, "array_max($1)"),
    ("list_first", 1, "array_element($1, 1)"),
    ("list_last", 1, "array_element($1, -1)"),
    ("list_any_value", 1, "array_element(array_filter($1, x -> x IS NOT NULL), 1)"),
    ("list_dot_product", 2, "inner_product($1, $2)"),
    ("list_inner_product", 2, "inner_product($1, $2)"),
    ("list_cosine_similarity", 2, "1 - cosine_distance($1, $2)"),
    ("list_cosine_distance", 2, "cosine_distance($1, $2)"),
    ("array_dot_product", 2, "inner_product($1, $2)"),
    ("array_inner_product", 2, "inner_product($1, $2)"),
    ("array_cosine_similarity", 2, "1 - cosine_distance($1, $2)"),
    ("array_cosine_distance", 2, "cosine_distance($1, $2)"),
    ("even", 1, EVEN),
    ("xor", 2, "($1 | $2) - ($1 & $2)"),
    ("list_min", 1, "array_min($1)"),
    ("list_avg", 1, "array_avg($1)"),
    ("sha256", 1, "encode(sha256($1), 'hex')"),
    ("version", 0, VERSION),
];

/// Templates for functions that the engine has under that name, and that are to be others.
const OURS: &[&str] = &[
    "string_agg",
    "week",
    "day",
    "version",
    "lpad",
    "rpad",
    "list_sort",
    "array_sort",
    "list_distinct",
    "array_distinct",
    "sha256",
    "max",
    "min",
    "age",
    "encode",
    "decode",
    "list_first",
    "list_last",
];

/// Names that only stand for another, whatever the call looks like.
const RENAMES: &[(&str, &str)] = &[
    ("list_value", "make_array"),
    ("list_pack", "make_array"),
    ("array_value", "make_array"),
    ("list", "array_agg"),
    ("first", "first_value"),
    ("last", "last_value"),
    ("group_concat", "string_agg"),
    ("listagg", "string_agg"),
];

/// Buckets of whole weeks begin on Mondays.
const WEEKLY: &str = "date_bin($1, $2, TIMESTAMP '2000-01-03 00:00:00')";
const MONTHLY: &str = "date_bin($1, $2, TIMESTAMP '2000-01-01 00:00:00')";
const STRFTIME: &str = "to_char($1, $2)";
const STRPTIME: &str = "to_timestamp($1, $2)";

const MOST_BY: &str = "array_slice(array_agg($1 ORDER BY $2 DESC) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), 1, $3)";
const LEAST_BY: &str = "array_slice(array_agg($1 ORDER BY $2 ASC) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), 1, $3)";
/// To the next even number away from zero.
const EVEN: &str = "CASE WHEN $1 < 0 THEN floor(CAST($1 AS DOUBLE) / 2) * 2 \
     ELSE ceil(CAST($1 AS DOUBLE) / 2) * 2 END";
/// A row counts when both are there.
const WEIGHTED: &str = "sum(CAST($1 AS DOUBLE) * $2) \
     / sum(CASE WHEN $1 IS NOT NULL THEN CAST($2 AS DOUBLE) END)";

/// NULL comes last, as it does in ORDER BY.
const SORT: &str = "array_sort($1, 'ASC', 'NULLS LAST')";
const SORT_IN: &str = "array_sort($1, $2, 'NULLS LAST')";

const QUANTILE: &str = "array_element(array_agg($1 ORDER BY $1) FILTER (WHERE $1 IS NOT NULL), \
     CAST(greatest(1, ceil($2 * count($1))) AS BIGINT))";
/// The engine's own makes no piece of the empty text, and takes NULL for what is between two
/// characters.
const SPLIT: &str = "CASE WHEN $1 = '' THEN make_array('') \
     WHEN $2 = '' THEN string_to_array($1, CAST(NULL AS VARCHAR)) \
     WHEN $2 IS NULL AND $1 IS NOT NULL THEN make_array($1) ELSE string_to_array($1, $2) END";
/// Ours, not the query engine's.
const VERSION: &str = concat!("'SwingDB ", env!("CARGO_PKG_VERSION"), "'");
const MAKE_TIMESTAMP: &str = "CAST(make_date($1, $2, $3) AS TIMESTAMP) \
     + CAST(CAST($4 AS VARCHAR) || ' hours ' || CAST($5 AS VARCHAR) || ' minutes ' \
     || CAST($6 AS VARCHAR) || ' seconds' AS INTERVAL)";
const LAST_DAY: &str =
    "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)";

/// The boundaries of a unit between two points in time, as `date_diff` counts them.
const DIFFERENCES: &[(&[&str], &str)] = &[
    (&["year", "years"], "date_part('year', $2) - date_part('year', $1)"),
    (
        &["quarter", "quarters"],
        "date_part('year', $2) * 4 + date_part('quarter', $2) \
         - date_part('year', $1) * 4 - date_part('quarter', $1)",
    ),
    (
        &["month", "months"],
        "date_part('year', $2) * 12 + date_part('month', $2) \
         - date_part('year', $1) * 12 - date_part('month', $1)",
    ),
    (
        &["week", "weeks"],
        "floor((floor(date_part('epoch', $2) / 86400.0) + 3) / 7.0) \
         - floor((floor(date_part('epoch', $1) / 86400.0) + 3) / 7.0)",
    ),
    (
        &["day", "days"],
        "floor(date_part('epoch', $2) / 86400.0) - floor(date_part('epoch', $1) / 86400.0)",
    ),
    (
        &["hour", "hours"],
        "floor(date_part('epoch', $2) / 3600.0) - floor(date_part('epoch', $1) / 3600.0)",
    ),
    (
        &["minute", "minutes"],
        "floor(date_part('epoch', $2) / 60.0) - floor(date_part('epoch', $1) / 60.0)",
    ),
    (&["second", "seconds"], "floor(date_part('epoch', $2)) - floor(date_part('epoch', $1))"),
    (
        &["millisecond", "milliseconds", "ms"],
        "floor(date_part('epoch', $2) * 1000.0) - floor(date_part('epoch', $1) * 1000.0)",
    ),
];

/// The whole units between two points in time, as `date_sub` counts them.
const WHOLE_UNITS: &[(&[&str], &str)] = &[
    (&["year", "years"], "trunc(whole_months($2, $1) / 12.0)"),
    (&["quarter", "quarters"], "trunc(whole_months($2, $1) / 3.0)"),
    (&["month", "months"], "whole_months($2, $1)"),
    (&["week", "weeks"], "trunc((date_part('epoch', $2) - date_part('epoch', $1)) / 604800.0)"),
    (&["day", "days"], "trunc((date_part('epoch', $2) - date_part('epoch', $1)) / 86400.0)"),
    (&["hour", "hours"], "trunc((date_part('epoch', $2) - date_part('epoch', $1)) / 3600.0)"),
    (&["minute", "minutes"], "trunc((date_part('epoch', $2) - date_part('epoch', $1)) / 60.0)"),
    (&["second", "seconds"], "trunc(date_part('epoch', $2) - date_part('epoch', $1))"),
    (
        &["millisecond", "milliseconds", "ms"],
        "round((date_part('epoch', $2) - date_part('epoch', $1)) * 1000.0)",
    ),
];

/// Rewrites the functions of a statement that the engine knows under another name; `known` tells
/// which names it has.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T, known: &dyn Fn(&str) -> bool) -> Result<()> {
    struct Rewriter<'a> {
        known: &'a dyn Fn(&str) -> bool,
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

fn rewritten(expr: &Expr, known: &dyn Fn(&str) -> bool) -> Result<Option<Expr>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    let [part] = function.name.0.as_slice() else { return Ok(None) };
    let Some(name) = part.as_ident().filter(|ident| ident.quote_style.is_none()) else {
        return Ok(None);
    };
    let name = name.value.to_ascii_lowercase();
    if name == "struct_pack" && !known(&name) {
        return Ok(struct_pack(function));
    }
    let Some(args) = plain_arguments(function) else {
        return Ok(renamed(&name, function, known));
    };
    if !OURS.contains(&name.as_str()) && known(&name) {
        return Ok(None);
    }
    let units = match name.as_str() {
        "date_diff" | "datediff" => Some(DIFFERENCES),
        "date_sub" | "datesub" => Some(WHOLE_UNITS),
        _ => None,
    };
    if let Some(units) = units.filter(|_| args.len() == 3) {
        return between(&args, units);
    }
    if matches!(name.as_str(), "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr") {
        return Ok(list_aggregate(function, &args));
    }
    let template = TEMPLATES.iter().find(|(n, count, _)| *n == name && *count == args.len());
    let mut args = args;
    match template {
        Some((_, _, WEEKLY)) if counts_months(&args[0]) => {
            Ok(Some(instantiate(MONTHLY, &args, Some(function))?))
        }
        Some((_, _, template @ (STRFTIME | STRPTIME))) => {
            if let Some(format) = literal_mut(&mut args[1]) {
                if *template == STRPTIME {
                    // A point and what follows it are read in any length.
                    *format = format.replace(".%f", "%.f").replace(".%g", "%.f");
                }
                *format = engines_fractions(format);
            }
            Ok(Some(instantiate(template, &args, Some(function))?))
        }
        Some((_, _, template)) if *template == QUANTILE => {
            // Its aggregates are inside, where no row that is NULL counts.
            let mut call = function.clone();
            if let (Some(condition), Some(first)) = (call.filter.take(), args.first_mut()) {
                *first = ast::case(vec![(*condition, first.clone())]);
            }
            Ok(Some(instantiate(template, &args, Some(&call))?))
        }
        Some((_, _, template)) => Ok(Some(instantiate(template, &args, Some(function))?)),
        None => Ok(renamed(&name, function, known)),
    }
}

fn renamed(name: &str, function: &Function, known: &dyn Fn(&str) -> bool) -> Option<Expr> {
    let (_, to) = RENAMES.iter().find(|(from, _)| *from == name && !known(name))?;
    let mut call = function.clone();
    call.name = vec![Ident::new(*to)].into();
    Some(Expr::Function(call))
}

/// Whether an interval is one of months, as far as its text says.
fn counts_months(interval: &Expr) -> bool {
    let text = match interval {
        Expr::Interval(interval) => interval.to_string().to_ascii_lowercase(),
        _ => return false,
    };
    ["month", "quarter", "year", "decade", "century"].iter().any(|unit| text.contains(unit))
}

/// `%f`, `%g` and `%n` of a format are the micro-, milli- and nanoseconds; the engine has other
/// names for these.
fn engines_fractions(format: &str) -> String {
    let mut text = String::with_capacity(format.len() + 4);
    let mut given = format.chars();
    while let Some(char) = given.next() {
        text.push(char);
        if char == '%' {
            match given.next() {
                Some('f') => text.push_str("6f"),
                Some('g') => text.push_str("3f"),
                Some('n') => text.push_str("9f"),
                other => text.extend(other),
            }
        }
    }
    text
}

fn literal_mut(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The arguments of a call without DISTINCT, ORDER BY and the like among them.
fn plain_arguments(function: &Function) -> Option<Vec<Expr>> {
    match &function.args {
        FunctionArguments::List(list)
            if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
        {
            let plain = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            plain.collect()
        }
        _ => None,
    }
}

/// The template with the arguments in it; FILTER and OVER of the call it replaces go along.
fn instantiate(template: &str, args: &[Expr], call: Option<&Function>) -> Result<Expr> {
    struct Filler<'a>(&'a [Expr]);
    impl VisitorMut for Filler<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Value(value) = expr
                && let Value::Placeholder(text) = &value.value
                && let Some(number) = text.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
                && let Some(argument) = number.checked_sub(1).and_then(|i| self.0.get(i))
            {
                *expr = match argument {
                    simple @ (Expr::Identifier(_)
                    | Expr::CompoundIdentifier(_)
                    | Expr::Value(_)
                    | Expr::Function(_)) => simple.clone(),
                    other => Expr::Nested(Box::new(other.clone())),
                };
            }
            ControlFlow::Continue(())
        }
    }
    let parsed = Parser::new(&DIALECT).try_with_sql(template).and_then(|mut p| p.parse_expr());
    let mut expr = parsed.map_err(|e| crate::Error::internal(format!("{template}: {e}")))?;
    let _ = walk_mut(&mut expr, &mut Filler(args));
    match (&mut expr, call) {
        (Expr::Function(new), Some(call)) => {
            new.over.clone_from(&call.over);
            new.null_treatment = call.null_treatment;
            if let Some(condition) = &call.filter {
                let both = ast::all(
                    new.filter
                        .take()
                        .map(|own| *own)
                        .into_iter()
                        .chain([Expr::Nested(condition.clone())]),
                );
                new.filter = Some(Box::new(both));
            }
        }
        (_, Some(_)) => expr = Expr::Nested(Box::new(expr)),
        _ => {}
    }
    Ok(expr)
}

/// `list_aggregate(l, 'min')` is `list_min(l)`.
fn list_aggregate(function: &Function, args: &[Expr]) -> Option<Expr> {
    let [list, Expr::Value(aggregate)] = args else { return None };
    let Value::SingleQuotedString(aggregate) = &aggregate.value else { return None };
    let mut call = function.clone();
    call.name = vec![Ident::new(format!("list_{}", aggregate.to_ascii_lowercase()))].into();
    let FunctionArguments::List(arguments) = &mut call.args else { return None };
    arguments.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(list.clone()))];
    rewritten(&Expr::Function(call.clone()), &|_| false).ok()?.or(Some(Expr::Function(call)))
}

/// `date_diff('day', a, b)` and `date_sub('day', a, b)`.
fn between(args: &[Expr], units: &[(&[&str], &str)]) -> Result<Option<Expr>> {
    let Expr::Value(unit) = &args[0] else { return Ok(None) };
    let Value::SingleQuotedString(unit) = &unit.value else { return Ok(None) };
    let unit = unit.to_ascii_lowercase();
    let difference = units.iter().find(|(names, _)| names.contains(&unit.as_str()));
    let Some((_, template)) = difference else { return Ok(None) };
    let template = format!("CAST({template} AS BIGINT)");
    instantiate(&template, &args[1..], None).map(Some)
}

/// `struct_pack(a := 1, b := 2)`.
fn struct_pack(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut args = Vec::with_capacity(list.args.len() * 2);
    for arg in &list.args {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = arg else {
            return None;
        };
        let name = Value::SingleQuotedString(name.value.clone()).with_empty_span();
        for expr in [Expr::Value(name), value.clone()] {
            args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
        }
    }
    let mut call = function.clone();
    call.name = vec![Ident::new("named_struct")].into();
    let mut list = list.clone();
    list.args = args;
    call.args = FunctionArguments::List(list);
    Some(Expr::Function(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite_text(sql: &str) -> String {
        let mut expr = Parser::new(&DIALECT).try_with_sql(sql).unwrap().parse_expr().unwrap();
        rewrite(&mut expr, &|name| name == "week").unwrap();
        expr.to_string()
    }

    #[test]
    fn calls_become_what_the_engine_has() {
        assert_eq!(rewrite_text("year(a + 1)"), "date_part('year', (a + 1))");
        assert_eq!(rewrite_text("mod(a, 2) * 3"), "(a % 2) * 3");
        assert_eq!(
            rewrite_text("count_if(x > 1) OVER (ORDER BY y)"),
            "count(CASE WHEN (x > 1) THEN 1 END) OVER (ORDER BY y)"
        );
        assert_eq!(
            rewrite_text("date_diff('second', a, b)"),
            "CAST(FLOOR(date_part('epoch', b)) - FLOOR(date_part('epoch', a)) AS BIGINT)"
        );
        assert_eq!(rewrite_text("struct_pack(a := 1)"), "named_struct('a', 1)");
    }

    #[test]
    fn what_is_not_known_stays() {
        assert_eq!(rewrite_text("sum(DISTINCT a)"), "sum(DISTINCT a)");
        assert_eq!(rewrite_text("year(a, b)"), "year(a, b)");
        assert_eq!(rewrite_text("\"year\"(a)"), "\"year\"(a)");
    }

    #[test]
    fn every_template_parses() {
        for (name, count, template) in TEMPLATES {
            let args = (0..*count).map(|i| Expr::Identifier(Ident::new(format!("a{i}"))));
            let text = instantiate(template, &args.collect::<Vec<_>>(), None).unwrap().to_string();
            let left = (1..=9).any(|place| text.contains(&format!("${place}")));
            assert!(!left, "{name}: {text}");
        }
    }
}
