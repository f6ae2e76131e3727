//! Where UUIDs are inside of lists and structs.
//!
//! The engine's types say text there. So what an expression is made of says it: `[id]` of a column
//! of UUIDs is a list of UUIDs, and `[id][1]` is a UUID. Places are written as
//! [`parts`](swingdb_functions::nested::parts) has them: `u` is a UUID, `[u` a list of UUIDs,
//! `{0u2[u}` a STRUCT whose first field is one and whose third a list of them.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Case, Expr, ExprSchemable};
use swingdb_common::uuid;

/// A UUID itself.
pub(crate) const UUID: &str = "u";

/// Functions whose answer has in it what their first argument has.
const LIKE_FIRST: [&str; 14] = [
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
        if !matches!(field.data_type(), DataType::List(_) | DataType::Struct(_))
            && !field.data_type().is_string()
        {
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
        places.is_some() || is_null(value) || found == UUID && is_text(value)
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
        (Some('{'), DataType::Struct(fields)) => fields.iter().enumerate().all(|(at, field)| {
            of_field(places, at).is_none_or(|places| fit(&places, field.data_type()))
        }),
        _ => false,
    }
}

/// Whether it is a text that is a constant.
pub(crate) fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().flatten().is_some())
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
    }
}
