//! Where UUIDs are inside of lists and structs.
//!
//! The engine's types say text there. So what an expression is made of says it: `[id]` of a column
//! of UUIDs is a list of UUIDs, and `[id][1]` is a UUID. Places are written as
//! [`parts`](swingdb_functions::nested::parts) has them: `u` is a UUID, `[u` a list of UUIDs,
//! `{0u2[u}` a STRUCT whose first field is one and whose third a list of them, `(u-)` a MAP with
//! such keys and other values.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Case, Expr, ExprSchemable};
use swingdb_common::types::sql_names::sql_name;
use swingdb_common::uuid;

use crate::plan::written_texts;

/// A UUID itself.
pub(crate) const UUID: &str = "u";
/// No UUID, in a map where others are.
const NONE: &str = "-";

/// Functions whose answer has in it what their first argument has.
const LIKE_FIRST: [&str; 15] = [
    "array_append",
    "array_compact",
    "array_concat",
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_pop_back",
    "array_pop_front",
    "array_remove",
    "array_reverse",
    "array_slice",
    "array_sort",
    "array_union",
    "first_elements",
    "joined_lists",
];

/// Functions whose answer is one of their arguments.
pub(crate) const ONE_OF_ALL: [&str; 4] = ["coalesce", "greatest", "least", "make_array"];

/// Where UUIDs are in the values of an expression; `None` where there are none.
pub(crate) fn places(expr: &Expr, schema: &DFSchema) -> Option<String> {
    if let Ok((_, field)) = expr.to_field(schema) {
        if uuid::is_marked(&field) {
            return Some(UUID.to_string());
        }
        if let Some(places) = uuid::places(&field) {
            return Some(places.to_string());
        }
        let nested = matches!(
            field.data_type(),
            DataType::List(_) | DataType::Struct(_) | DataType::Map(..)
        );
        if !nested && !field.data_type().is_string() {
            return None;
        }
    }
    match expr {
        Expr::Alias(alias) => places(&alias.expr, schema),
        Expr::ScalarFunction(call) => of_call(call.name(), &call.args, schema),
        Expr::HigherOrderFunction(call) if call.func.name() == "array_filter" => {
            places(call.args.first()?, schema)
        }
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            places(call.params.args.first()?, schema).map(|element| format!("[{element}"))
        }
        Expr::Case(case) => of_all(&results(case), schema),
        _ => None,
    }
}

/// Aggregates and functions of windows that give values of their first argument.
const TAKE_FIRST: [&str; 16] = [
    "any_value",
    "arg_max",
    "arg_min",
    "array_agg",
    "first_value",
    "histogram",
    "lag",
    "last_value",
    "lead",
    "max",
    "median",
    "min",
    "mode",
    "nth_value",
    "quantile_disc",
    "percentile_disc",
];

/// Where UUIDs are in what an aggregate, or a function of windows, takes from its rows.
pub(crate) fn taken(computed: &Expr, schema: &DFSchema) -> Option<String> {
    let (name, args) = match computed {
        Expr::Alias(alias) => return taken(&alias.expr, schema),
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return None,
    };
    if !TAKE_FIRST.contains(&name) {
        return None;
    }
    let given = args.first()?;
    let places = places(given, schema)?;
    let (of, made) = (given.get_type(schema).ok()?, computed.get_type(schema).ok()?);
    match made {
        same if same.equals_datatype(&of) => Some(places),
        text if text.is_string() && of.is_string() => Some(places),
        DataType::List(_) => Some(format!("[{places}")),
        DataType::Map(..) => Some(format!("({places}-)")),
        _ => None,
    }
}

/// Where UUIDs are in the keys and in the values of a map.
pub(crate) fn of_map(map: &Expr, schema: &DFSchema) -> Option<[Option<String>; 2]> {
    let places = places(map, schema)?;
    let (key, value) = halves(&places)?;
    Some([key, value].map(|part| (part != NONE).then(|| part.to_string())))
}

/// The places in the key, and those in the value.
fn halves(places: &str) -> Option<(&str, &str)> {
    let rest = places.strip_prefix('(')?;
    let key = length(rest)?;
    let value = length(&rest[key..])?;
    Some((&rest[..key], &rest[key..key + value]))
}

/// What a CASE may give.
fn results(case: &Case) -> Vec<&Expr> {
    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    thens.chain(case.else_expr.as_deref()).collect()
}

/// The places of values of which each is a UUID, or a constant that becomes one.
fn of_all(values: &[&Expr], schema: &DFSchema) -> Option<String> {
    // Once for each, since values may have such expressions inside of one another.
    let all = values.iter().map(|value| places(value, schema)).collect::<Vec<_>>();
    let found = all.iter().flatten().next()?;
    let fits = |(value, places): (&&Expr, &Option<String>)| {
        places.is_some()
            || is_null(value)
            || found == UUID && is_text(value)
            || found.starts_with('[') && is_empty_list(value)
    };
    values.iter().zip(&all).all(fits).then(|| found.clone())
}

fn of_call(name: &str, args: &[Expr], schema: &DFSchema) -> Option<String> {
    let of_first = || places(args.first()?, schema);
    match name {
        "make_array" => of_all(&args.iter().collect::<Vec<_>>(), schema).map(|p| format!("[{p}")),
        "array_element" => of_first()?.strip_prefix('[').map(str::to_string),
        "named_struct" => of_fields(args.iter().skip(1).step_by(2), schema),
        "struct" | "row" => of_fields(args.iter(), schema),
        "map_of_lists" => {
            let of_list = |at: usize| {
                let places = places(args.get(at)?, schema)?;
                places.strip_prefix('[').map(str::to_string)
            };
            let (keys, values) = (of_list(0), of_list(1));
            let is_some = keys.is_some() || values.is_some();
            let part = |part: Option<String>| part.unwrap_or_else(|| NONE.to_string());
            is_some.then(|| format!("({}{})", part(keys), part(values)))
        }
        "map_concat" => of_first(),
        "map_keys" => of_map(args.first()?, schema)?[0].as_ref().map(|key| format!("[{key}")),
        "map_values" | "map_extract" => {
            of_map(args.first()?, schema)?[1].as_ref().map(|value| format!("[{value}"))
        }
        "map_extract_value" => of_map(args.first()?, schema)?[1].clone(),
        "get_field" => {
            let DataType::Struct(fields) = args.first()?.get_type(schema).ok()? else {
                return None;
            };
            let Some(Expr::Literal(name, _)) = args.get(1) else { return None };
            let name = name.try_as_str().flatten()?;
            of_field(&of_first()?, fields.iter().position(|field| field.name() == name)?)
        }
        "nullif" => of_first(),
        name if ONE_OF_ALL.contains(&name) => of_all(&args.iter().collect::<Vec<_>>(), schema),
        name if LIKE_FIRST.contains(&name) => of_first(),
        _ => None,
    }
}

fn of_fields<'a>(fields: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<String> {
    let found = fields.enumerate().filter_map(|(at, field)| Some((at, places(field, schema)?)));
    let found = found.map(|(at, places)| format!("{at}{places}")).collect::<String>();
    (!found.is_empty()).then(|| format!("{{{found}}}"))
}

/// The places in one field of a STRUCT.
fn of_field(places: &str, at: usize) -> Option<String> {
    let mut rest = places.strip_prefix('{')?;
    while !rest.starts_with('}') {
        let end = rest.find(|char: char| !char.is_ascii_digit())?;
        let number = rest[..end].parse::<usize>().ok()?;
        let length = length(&rest[end..])?;
        if number == at {
            return Some(rest[end..end + length].to_string());
        }
        rest = &rest[end + length..];
    }
    None
}

/// The name of a type that has UUIDs at places.
pub(crate) fn type_name(given: &DataType, places: &str) -> String {
    let part = |field: &Field, places: Option<&str>| match places {
        Some(places) => type_name(field.data_type(), places),
        None => sql_name(field.data_type()),
    };
    match (places.chars().next(), given) {
        (Some('u'), _) => "UUID".to_string(),
        (Some('['), DataType::List(item)) => format!("{}[]", part(item, places.get(1..))),
        (Some('{'), DataType::Struct(fields)) => {
            let fields = fields.iter().enumerate().map(|(at, field)| {
                let name = field.name().replace('"', "\"\"");
                format!("\"{name}\" {}", part(field, of_field(places, at).as_deref()))
            });
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        (Some('('), DataType::Map(entries, _)) => {
            let known = |part: &'_ str| (part != NONE).then(|| part.to_string());
            match (entries.data_type(), halves(places)) {
                (DataType::Struct(pair), Some((key, value))) if pair.len() == 2 => {
                    let key = part(&pair[0], known(key).as_deref());
                    format!("MAP({key}, {})", part(&pair[1], known(value).as_deref()))
                }
                _ => sql_name(given),
            }
        }
        _ => sql_name(given),
    }
}

/// The length of the first place of several.
fn length(places: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, char) in places.char_indices() {
        match char {
            '[' => continue,
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Whether values of a type can have UUIDs at places.
pub(crate) fn fit(places: &str, data_type: &DataType) -> bool {
    match (places.chars().next(), data_type) {
        (Some('u'), text) => text.is_string(),
        (Some('['), DataType::List(element)) => fit(&places[1..], element.data_type()),
        (Some('('), DataType::Map(entries, _)) => {
            let DataType::Struct(pair) = entries.data_type() else { return false };
            let Some((key, value)) = halves(places) else { return false };
            let fits = |part: &str, at: usize| {
                part == NONE || pair.get(at).is_some_and(|field| fit(part, field.data_type()))
            };
            fits(key, 0) && fits(value, 1)
        }
        (Some('{'), DataType::Struct(fields)) => fields.iter().enumerate().all(|(at, field)| {
            of_field(places, at).is_none_or(|places| fit(&places, field.data_type()))
        }),
        _ => false,
    }
}

/// Whether it is a text that is a constant, or a parameter's.
pub(crate) fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().is_some(),
        other => written_texts::is_written(other),
    }
}

fn is_empty_list(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.name() == "make_array" && call.args.is_empty(),
        Expr::Literal(ScalarValue::List(list), _) => list.value_length(0) == 0,
        Expr::Cast(cast) => is_empty_list(&cast.expr),
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => *value == ScalarValue::Null || value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_field() {
        let places = "{0u2[{1u}11(uu)}";
        assert_eq!(of_field(places, 0).as_deref(), Some("u"));
        assert_eq!(of_field(places, 2).as_deref(), Some("[{1u}"));
        assert_eq!(of_field(places, 11).as_deref(), Some("(uu)"));
        assert_eq!(of_field(places, 1), None);
        assert!(fit("[u", &DataType::new_list(DataType::Utf8, true)));
        assert!(!fit("[u", &DataType::new_list(DataType::Int64, true)));
        assert_eq!(halves("(u[{0u})"), Some(("u", "[{0u}")));
        assert_eq!(halves("((u-)-)"), Some(("(u-)", "-")));
        assert_eq!(halves("[u"), None);
    }
}
