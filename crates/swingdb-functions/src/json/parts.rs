//! What two JSON values have to do with each other, and what one is made of: `json_merge_patch`,
//! `json_contains`, `json_structure`.
//!
//! Values are pieces of text that is known to be JSON, as in [`json`](super::json).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::error::Error;
use swingdb_common::json::{as_text, check, compact, elements, is_deep, members, type_name};

use crate::json::paths::too_deep;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The first with the members of those behind it, what is null there left out (RFC 7396). Of
    /// two of which one is no object, the second as it is.
    MergePatch,
    /// Whether the second is a part of the first.
    Contains,
    /// The types of members and elements, as JSON.
    Structure,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("json_merge_patch", Kind::MergePatch),
    ("json_contains", Kind::Contains),
    ("json_structure", Kind::Structure),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = match kind {
            Kind::MergePatch => Signature::variadic_any(Volatility::Immutable),
            Kind::Contains => Signature::any(2, Volatility::Immutable),
            Kind::Structure => Signature::any(1, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(Parts { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Parts {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if let Some(other) = types.iter().find(|given| !given.is_string() && !given.is_null()) {
            return plan_err!("{} takes JSON as text, not {other}", self.name);
        }
        Ok(match self.kind {
            Kind::Contains => DataType::Boolean,
            Kind::MergePatch | Kind::Structure => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = crate::args::returned(self, &args)?;
        Ok(match self.kind {
            Kind::Contains => Arc::new(field),
            Kind::MergePatch | Kind::Structure => super::marks::mark(field),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let texts =
            args.args.iter().map(|arg| Ok(cast(&arg.to_array(rows)?, &DataType::Utf8View)?));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let texts = texts.iter().map(|array| array.as_string_view()).collect::<Vec<_>>();
        let found: ArrayRef = match (self.kind, texts.as_slice()) {
            (Kind::Structure, [given]) => {
                let one = |text: Option<&str>| {
                    let Some(json) = text else { return Ok(None) };
                    Ok(Some(Shape::of(self.sound(json)?).written()))
                };
                Arc::new(given.iter().map(one).collect::<Result<StringViewArray>>()?)
            }
            (Kind::MergePatch, all @ [first, _, ..]) => {
                let one = |row: usize| self.patched(all, row);
                Arc::new((0..first.len()).map(one).collect::<Result<StringViewArray>>()?)
            }
            (Kind::Contains, [given, part]) => {
                let one = |(given, part): (Option<&str>, Option<&str>)| {
                    let (Some(given), Some(part)) = (given, part) else { return Ok(None) };
                    Ok(Some(contains(self.sound(given)?, self.sound(part)?)))
                };
                Arc::new(given.iter().zip(*part).map(one).collect::<Result<BooleanArray>>()?)
            }
            _ => return plan_err!("{} takes JSON", self.name),
        };
        crate::args::as_given(&args, found)
    }
}

impl Parts {
    /// What all patches of a row make of its first value.
    fn patched(&self, all: &[&StringViewArray], row: usize) -> Result<Option<String>> {
        let mut made = None;
        for (place, texts) in all.iter().enumerate() {
            let patch = texts.is_valid(row).then(|| self.sound(texts.value(row))).transpose()?;
            made = match (made.as_deref(), patch) {
                (Some(given), Some(patch)) if place > 0 && is_object(given) => {
                    Some(merged(Some(given), patch))
                }
                (_, patch) => patch.map(compact),
            };
        }
        Ok(made)
    }

    /// The text without white space around it, if it is JSON.
    fn sound<'a>(&self, json: &'a str) -> Result<&'a str> {
        match check(json) {
            Ok(_) if is_deep(json) => Err(too_deep(self.name)),
            Ok(_) => Ok(json.trim_ascii()),
            Err(error) => {
                let message = format!("{} of {json:?}, which is no JSON: {error}", self.name);
                Err(Error::Conversion { message, column: None }.into())
            }
        }
    }
}

/// The key of a member, without quotes.
fn name(key: &str) -> Cow<'_, str> {
    match key.contains('\\') {
        false => Cow::Borrowed(&key[1..key.len() - 1]),
        true => Cow::Owned(as_text(key).unwrap_or_default()),
    }
}

fn is_object(json: &str) -> bool {
    json.starts_with('{')
}

fn member<'a>(object: &'a str, wanted: &str) -> Option<&'a str> {
    members(object).find(|(key, _)| name(key) == wanted).map(|(_, value)| value)
}

/// What is left of a value behind a patch, whose members come last.
fn merged(given: Option<&str>, patch: &str) -> String {
    if !is_object(patch) {
        return compact(patch);
    }
    let given = given.filter(|given| is_object(given)).unwrap_or("{}");
    let mut made = Vec::new();
    for (key, value) in members(given) {
        if member(patch, &name(key)).is_none() {
            made.push(format!("{key}:{}", compact(value)));
        }
    }
    for (key, value) in members(patch).filter(|(_, value)| *value != "null") {
        made.push(format!("{key}:{}", merged(member(given, &name(key)), value)));
    }
    format!("{{{}}}", made.join(","))
}

/// Whether a value is the same, or has the part somewhere inside of it.
fn contains(json: &str, part: &str) -> bool {
    covers(json, part)
        || elements(json).any(|element| contains(element, part))
        || members(json).any(|(_, value)| contains(value, part))
}

/// Whether a value has all that the part has: elements in any order, and members of its names.
fn covers(json: &str, part: &str) -> bool {
    match (type_name(json), type_name(part)) {
        ("ARRAY", "ARRAY") => {
            elements(part).all(|wanted| elements(json).any(|element| covers(element, wanted)))
        }
        ("OBJECT", "OBJECT") => members(part).all(|(key, wanted)| {
            member(json, &name(key)).is_some_and(|value| covers(value, wanted))
        }),
        ("VARCHAR", "VARCHAR") => as_text(json) == as_text(part),
        (one, other) => one == other && (json == part || same_number(json, part)),
    }
}

fn same_number(one: &str, other: &str) -> bool {
    matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}

// ---- structure ----------------------------------------------------------------------------------

/// What a value is made of.
#[derive(Debug, PartialEq)]
enum Shape<'a> {
    /// Null, which may be of any shape.
    Nothing,
    Plain(&'static str),
    List(Box<Shape<'a>>),
    Object(Vec<(Cow<'a, str>, Shape<'a>)>),
}

impl<'a> Shape<'a> {
    fn of(json: &'a str) -> Self {
        match type_name(json) {
            "NULL" => Self::Nothing,
            "ARRAY" => {
                let shapes = elements(json).map(Self::of);
                Self::List(Box::new(shapes.fold(Self::Nothing, Self::with)))
            }
            "OBJECT" => {
                let shapes = members(json).map(|(key, value)| (name(key), Self::of(value)));
                Self::Object(shapes.collect())
            }
            plain => Self::Plain(plain),
        }
    }

    /// The shape that holds values of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, other) | (other, Self::Nothing) => other,
            (Self::Plain(one), Self::Plain(other)) => Self::Plain(plain_of_both(one, other)),
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.with(*other))),
            (Self::Object(mut all), Self::Object(others)) => {
                for (name, shape) in others {
                    match all.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => {
                            *known = std::mem::replace(known, Self::Nothing).with(shape);
                        }
                        None => all.push((name, shape)),
                    }
                }
                Self::Object(all)
            }
            _ => Self::Plain("JSON"),
        }
    }

    fn written(&self) -> String {
        match self {
            Self::Nothing => "\"NULL\"".to_string(),
            Self::Plain(plain) => format!("\"{plain}\""),
            Self::List(element) => format!("[{}]", element.written()),
            Self::Object(all) if all.is_empty() => "\"JSON\"".to_string(),
            Self::Object(all) => {
                let member = |(name, shape): &(Cow<'_, str>, Shape<'_>)| {
                    format!("{}:{}", serde_json::Value::from(name.as_ref()), shape.written())
                };
                format!("{{{}}}", all.iter().map(member).collect::<Vec<_>>().join(","))
            }
        }
    }
}

fn plain_of_both(one: &'static str, other: &'static str) -> &'static str {
    let is_whole = |plain| matches!(plain, "UBIGINT" | "BIGINT" | "HUGEINT");
    let is_number = |plain| is_whole(plain) || plain == "DOUBLE";
    match (one, other) {
        _ if one == other => one,
        _ if is_whole(one) && is_whole(other) => "HUGEINT",
        _ if is_number(one) && is_number(other) => "DOUBLE",
        _ => "JSON",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_go_into_objects() {
        for (given, patch, expected) in [
            (r#"{"a":1,"b":{"c":2}}"#, r#"{"b":{"d":3},"a":null}"#, r#"{"b":{"c":2,"d":3}}"#),
            (r#"{"a":1}"#, "[1]", "[1]"),
            ("[1]", r#"{"a":{"b":null,"c":[null]}}"#, r#"{"a":{"c":[null]}}"#),
            ("{}", r#"{"a\"":1}"#, r#"{"a\"":1}"#),
        ] {
            assert_eq!(merged(Some(given), patch), expected, "{given} {patch}");
        }
    }

    #[test]
    fn parts_of_values() {
        for (json, part, expected) in [
            (r#"{"a":[1,2]}"#, "2", true),
            (r#"{"a":[1,2]}"#, "3", false),
            (r#"{"a":[1,2],"b":1}"#, r#"{"a":[2]}"#, true),
            (r#"[{"a":1,"b":2}]"#, r#"{"b":2}"#, true),
            (r#"[{"a":1,"b":2}]"#, r#"{"b":1}"#, false),
            (r#"["x"]"#, r#""x""#, true),
            ("[1.0]", "1.00", true),
        ] {
            assert_eq!(contains(json, part), expected, "{json} {part}");
        }
    }

    #[test]
    fn shapes_of_values() {
        for (json, expected) in [
            (r#"{"a":1,"b":[1,2.5],"c":null}"#, r#"{"a":"UBIGINT","b":["DOUBLE"],"c":"NULL"}"#),
            ("[1,-1]", r#"["HUGEINT"]"#),
            (r#"[{"a":1},{"b":"x","a":null}]"#, r#"[{"a":"UBIGINT","b":"VARCHAR"}]"#),
            ("[]", r#"["NULL"]"#),
            (r#"[1,"x"]"#, r#"["JSON"]"#),
            ("true", r#""BOOLEAN""#),
        ] {
            assert_eq!(Shape::of(json).written(), expected, "{json}");
        }
    }
}
