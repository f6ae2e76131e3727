//! JSON in text: `json -> 'key'`, `json ->> '$.a[0]'` and the functions that go with them.
//!
//! A JSON value is text that is checked when a function reads it: text that is no JSON is an error.
//! A part of it is a piece of that text, without white space and otherwise as it was written. Paths
//! are DuckDB's: `$.a."b c"[0][#-1]`, `/a/0`, or the name of one member; whole numbers are places
//! in an array, from its end when negative.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use swingdb_common::error::Error;
pub use swingdb_common::json::{
    MAX_DEPTH, as_text, check, compact, elements, in_lines, is_deep, is_key, members, type_name,
};

/// Steps of a path, at most.
const MAX_STEPS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The part at a path, as JSON.
    Extract,
    /// The part at a path, text without its quotes.
    Text,
    /// Whether there is one.
    Exists,
    /// How many elements the array there has.
    Length,
    /// What kind of value is there.
    Type,
    /// The names of the members of the object there.
    Keys,
    /// All of it, in lines.
    Pretty,
    /// Whether text is JSON.
    Valid,
    /// The part at a path as it is written, unless it is an object, an array or null.
    Value,
}

/// Names of the functions.
const FUNCTIONS: &[(&str, Kind)] = &[
    ("json_extract", Kind::Extract),
    ("json_extract_path", Kind::Extract),
    ("json_extract_string", Kind::Text),
    ("json_extract_path_text", Kind::Text),
    ("json_exists", Kind::Exists),
    ("json_array_length", Kind::Length),
    ("json_type", Kind::Type),
    ("json_keys", Kind::Keys),
    ("json_pretty", Kind::Pretty),
    ("json_valid", Kind::Valid),
    ("json_value", Kind::Value),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = match kind {
            Kind::Extract | Kind::Text | Kind::Exists | Kind::Value => {
                Signature::any(2, Volatility::Immutable)
            }
            Kind::Valid | Kind::Pretty => Signature::any(1, Volatility::Immutable),
            Kind::Length | Kind::Type | Kind::Keys => {
                Signature::variadic_any(Volatility::Immutable)
            }
        };
        ScalarUDF::new_from_impl(Json { name, kind: *kind, signature })
    })
}

/// The text, checked to be JSON.
pub(super) fn whole(text: Expr) -> Expr {
    element(text, lit("$"))
}

/// The part of JSON at a path or place.
pub fn element(json: Expr, path: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let extract = Json { name: "json_extract", kind: Kind::Extract, signature };
    ScalarUDF::new_from_impl(extract).call(vec![json, path])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Json {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Json {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.is_empty() || types.len() > 2 {
            return plan_err!("{} takes JSON and a path", self.name);
        }
        let readable = |given: &DataType| given.is_string() || given.is_null();
        if !readable(&types[0]) {
            return plan_err!("{} takes JSON as text, not {}", self.name, types[0]);
        }
        if types.get(1).is_some_and(|path| !readable(path) && !path.is_integer()) {
            return plan_err!("the path of {} is text or a whole number", self.name);
        }
        Ok(match self.kind {
            Kind::Extract | Kind::Text | Kind::Type | Kind::Pretty | Kind::Value => {
                DataType::Utf8View
            }
            Kind::Exists | Kind::Valid => DataType::Boolean,
            Kind::Length => DataType::Int64,
            Kind::Keys => DataType::new_list(DataType::Utf8View, true),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = crate::args::returned(self, &args)?;
        Ok(match self.kind {
            Kind::Extract | Kind::Pretty => super::marks::mark(field),
            _ => Arc::new(field),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let path = match args.args.get(1) {
            None => Paths::One(Some(Vec::new())),
            Some(ColumnarValue::Scalar(value)) => Paths::One(constant_path(value)?),
            Some(ColumnarValue::Array(array)) => Paths::Each(path_texts(array)?),
        };
        let rows = crate::args::rows_of(&args);
        let Some(json) = args.args.first() else { return plan_err!("{} takes JSON", self.name) };
        let json = cast(&json.to_array(rows)?, &DataType::Utf8View)?;
        let found = self.rows(json.as_string_view(), &path)?;
        crate::args::as_given(&args, found)
    }
}

impl Json {
    fn rows(&self, json: &StringViewArray, paths: &Paths) -> Result<ArrayRef> {
        let parts = (0..json.len()).map(|row| self.part_of(json, paths, row));
        fn texts<T: AsRef<str>>(all: impl Iterator<Item = Result<Option<T>>>) -> Result<ArrayRef> {
            Ok(Arc::new(all.collect::<Result<StringViewArray>>()?))
        }
        Ok(match self.kind {
            Kind::Extract => texts(parts.map(|part| Ok(part?.there().map(compact))))?,
            Kind::Value => {
                let one = |json: &str| json != "null" && !json.starts_with(['[', '{']);
                texts(parts.map(|part| Ok(part?.there().filter(|json| one(json)))))?
            }
            Kind::Text => texts(parts.map(|part| Ok(part?.there().and_then(as_text))))?,
            Kind::Type => texts(parts.map(|part| Ok(part?.there().map(type_name))))?,
            Kind::Pretty => {
                let lines = |part: Part<'_>| match part.there() {
                    Some(json) if is_deep(json) => Err(too_deep(self.name)),
                    json => Ok(json.map(in_lines)),
                };
                texts(parts.map(|part| lines(part?)))?
            }
            Kind::Valid => {
                let valid = |text| check(text).is_ok();
                Arc::new(json.iter().map(|text| text.map(valid)).collect::<BooleanArray>())
            }
            Kind::Exists => {
                let exists = |part: Part<'_>| match part {
                    Part::Unknown => None,
                    known => Some(known.there().is_some()),
                };
                Arc::new(parts.map(|part| part.map(exists)).collect::<Result<BooleanArray>>()?)
            }
            Kind::Length => {
                let length = |array| elements(array).count() as i64;
                let lengths = parts.map(|part| Ok(part?.there().map(length)));
                Arc::new(lengths.collect::<Result<Int64Array>>()?)
            }
            Kind::Keys => {
                let mut lists = ListBuilder::new(StringViewBuilder::new());
                for part in parts {
                    let object = part?.there();
                    for (key, _) in object.into_iter().flat_map(members) {
                        lists.values().append_option(as_text(key));
                    }
                    lists.append(object.is_some());
                }
                Arc::new(lists.finish())
            }
        })
    }

    fn part_of<'a>(
        &self,
        json: &'a StringViewArray,
        paths: &Paths,
        row: usize,
    ) -> Result<Part<'a>> {
        let path = paths.of(row)?;
        let Some(path) = path.filter(|_| json.is_valid(row)) else { return Ok(Part::Unknown) };
        let text = json.value(row);
        check(text).map_err(|error| {
            let message = format!("{} of {text:?}, which is no JSON: {error}", self.name);
            DataFusionError::from(Error::Conversion { message, column: None })
        })?;
        Ok(part(text.trim_ascii(), &path).map_or(Part::Missing, Part::There))
    }
}

/// What a path leads to.
enum Part<'a> {
    /// Where the JSON or the path is NULL.
    Unknown,
    Missing,
    There(&'a str),
}

impl<'a> Part<'a> {
    fn there(self) -> Option<&'a str> {
        match self {
            Self::There(json) => Some(json),
            Self::Unknown | Self::Missing => None,
        }
    }
}

pub(super) fn too_deep(function: &str) -> DataFusionError {
    let message = format!("{function} of JSON that is nested more than {MAX_DEPTH} levels deep");
    Error::Conversion { message, column: None }.into()
}

// ---- paths --------------------------------------------------------------------------------------

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    /// Of an array; negative ones count from its end.
    Element(i64),
}

enum Paths {
    One(Option<Vec<Step>>),
    Each(StringViewArray),
}

impl Paths {
    fn of(&self, row: usize) -> Result<Option<std::borrow::Cow<'_, [Step]>>> {
        Ok(match self {
            Self::One(path) => path.as_deref().map(Into::into),
            Self::Each(texts) if texts.is_null(row) => None,
            Self::Each(texts) => Some(parse(texts.value(row))?.into()),
        })
    }
}

fn constant_path(value: &ScalarValue) -> Result<Option<Vec<Step>>> {
    if value.is_null() {
        return Ok(None);
    }
    if let Some(Some(text)) = value.try_as_str() {
        return parse(text).map(Some);
    }
    match value.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(Some(place)) => Ok(Some(vec![Step::Element(place)])),
        _ => Ok(None),
    }
}

/// The texts of paths; whole numbers are places.
fn path_texts(array: &ArrayRef) -> Result<StringViewArray> {
    if array.data_type().is_integer() {
        let places = cast(array, &DataType::Int64)?;
        let places = places.as_primitive::<Int64Type>().iter();
        return Ok(places.map(|place| place.map(|place| format!("$[{place}]"))).collect());
    }
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

pub(super) fn parse(path: &str) -> Result<Vec<Step>> {
    let steps = match path.as_bytes().first() {
        None => Some(Vec::new()),
        Some(b'$') => dollar(&path[1..]),
        Some(b'/') => Some(path[1..].split('/').map(pointer).collect()),
        Some(_) => Some(vec![Step::Member(path.to_string())]),
    };
    match steps {
        Some(steps) if steps.len() <= MAX_STEPS => Ok(steps),
        _ => Err(Error::plan(format!(
            "{path:?} is no path in JSON; write $.member[0], /member/0 or the name of a member"
        ))
        .into()),
    }
}

fn pointer(step: &str) -> Step {
    match step.parse() {
        Ok(place) => Step::Element(place),
        Err(_) => Step::Member(step.replace("~1", "/").replace("~0", "~")),
    }
}

/// `.a."b c"[0][#-1]`.
fn dollar(mut rest: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix(".\"") {
            let end = quoted.find('"')?;
            steps.push(Step::Member(quoted[..end].to_string()));
            rest = &quoted[end + 1..];
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            if end == 0 || plain[..end].contains('*') {
                return None;
            }
            steps.push(Step::Member(plain[..end].to_string()));
            rest = &plain[end..];
        } else {
            let inside = rest.strip_prefix('[')?;
            let end = inside.find(']')?;
            let place = inside[..end].trim().trim_start_matches('#');
            steps.push(Step::Element(place.trim().parse().ok()?));
            rest = &inside[end + 1..];
        }
    }
    Some(steps)
}

// ---- pieces of valid JSON -----------------------------------------------------------------------

/// The piece of valid JSON that a path leads to.
pub(super) fn part<'a>(json: &'a str, path: &[Step]) -> Option<&'a str> {
    let mut at = json;
    for step in path {
        at = match step {
            Step::Member(name) => {
                members(at).find(|(key, _)| is_key(key, name)).map(|(_, value)| value)?
            }
            Step::Element(place) => match usize::try_from(*place) {
                Ok(place) => elements(at).nth(place)?,
                Err(_) => {
                    let count = elements(at).count();
                    let back = usize::try_from(place.unsigned_abs()).ok()?;
                    elements(at).nth(count.checked_sub(back)?)?
                }
            },
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"a": {"b":   2, "c":[1,2,{"z":null}]}, "d e": "x,\"]}", "\u0066": [] }"#;

    fn at(path: &str) -> Option<String> {
        part(TEXT, &parse(path).unwrap()).map(compact)
    }

    #[test]
    fn paths_lead_to_pieces() {
        for (path, expected) in [
            ("a", Some(r#"{"b":2,"c":[1,2,{"z":null}]}"#)),
            ("$.a.c[2].z", Some("null")),
            ("$.a.c[#-1]", Some(r#"{"z":null}"#)),
            ("$.a.c[-2]", Some("2")),
            ("/a/c/0", Some("1")),
            ("$.\"d e\"", Some(r#""x,\"]}""#)),
            ("d e", Some(r#""x,\"]}""#)),
            ("f", Some("[]")),
            ("$.a.c[3]", None),
            ("$.a.c[-4]", None),
            ("$.a.b.x", None),
            ("$[0]", None),
            ("z", None),
        ] {
            assert_eq!(at(path).as_deref(), expected, "{path}");
        }
        assert_eq!(at("$"), at(""));
        for wrong in ["$a", "$.", "$[x]", "$.a[*]", "$.*", "$.\"a", "$[1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_as_text() {
        assert_eq!(as_text(r#""te\"xt\u0041""#).as_deref(), Some("te\"xtA"));
        assert_eq!(as_text("null"), None);
        assert_eq!(as_text("[1, \"a b\"]").as_deref(), Some("[1,\"a b\"]"));
        let kinds = ["{}", "[]", "\"\"", "null", "true", "1", "-1", "1.5", "1e3"].map(type_name);
        let expected = [
            "OBJECT", "ARRAY", "VARCHAR", "NULL", "BOOLEAN", "UBIGINT", "BIGINT", "DOUBLE",
            "DOUBLE",
        ];
        assert_eq!(kinds, expected);
    }

    /// Against a parsed value.
    #[test]
    fn random_json_has_the_pieces_a_parser_finds() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let value = random_value(&mut random, 4);
            let text = match random.bool() {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            for (place, path) in [(0, "a,"), (1, "b\""), (-1, "c}")] {
                let member = part(&text, &[Step::Member(path.into())]).map(compact);
                assert_eq!(member, value.get(path).map(ToString::to_string), "{text}");
                let element = part(&text, &[Step::Element(place)]).map(compact);
                let array = value.as_array();
                let index = if place < 0 {
                    array.map_or(0, Vec::len).wrapping_sub(1)
                } else {
                    place as usize
                };
                let expected = array.and_then(|all| all.get(index)).map(ToString::to_string);
                assert_eq!(element, expected, "{text}");
            }
        }
    }

    fn random_value(random: &mut fastrand::Rng, depth: usize) -> serde_json::Value {
        use serde_json::{Value, json};
        let strings = ["", "a b", "\\", "\"", "[,]{:}", "ü\n"];
        match random.usize(0..if depth == 0 { 3 } else { 6 }) {
            0 => json!(random.i16(..)),
            1 => Value::Null,
            2 => json!(strings[random.usize(0..strings.len())]),
            3 => (0..random.usize(0..4)).map(|_| random_value(random, depth - 1)).collect(),
            _ => {
                let keys = ["a,", "b\"", "c}"].into_iter().filter(|_| random.bool());
                let keys = keys.collect::<Vec<_>>();
                let pairs =
                    keys.into_iter().map(|key| (key.to_string(), random_value(random, depth - 1)));
                Value::Object(pairs.collect())
            }
        }
    }
}
