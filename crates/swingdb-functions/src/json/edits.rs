//! JSON with a part of it changed: `json_set`, `json_insert`, `json_replace`, `json_remove`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::error::Error;
use swingdb_common::json::{check, compact, elements, is_deep, is_key, members};

use crate::json::paths::{Step, parse, too_deep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// A part that is there becomes another, one that is not comes in.
    Set,
    /// Only what is not there comes in.
    Insert,
    /// Only what is there becomes another.
    Replace,
    /// What is there goes.
    Remove,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("json_set", Kind::Set),
    ("json_insert", Kind::Insert),
    ("json_replace", Kind::Replace),
    ("json_remove", Kind::Remove),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let count = if *kind == Kind::Remove { 2 } else { 3 };
        let signature = Signature::any(count, Volatility::Immutable);
        ScalarUDF::new_from_impl(Edit { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Edit {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Edit {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.iter().find(|given| !given.is_string() && !given.is_null()) {
            None => Ok(DataType::Utf8View),
            Some(other) => plan_err!(
                "{} takes JSON, a path and JSON, all as text, not {other}; to_json(x) makes JSON \
                 of a value",
                self.name
            ),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(super::marks::mark(crate::args::returned(self, &args)?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let texts =
            args.args.iter().map(|arg| Ok(cast(&arg.to_array(rows)?, &DataType::Utf8View)?));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let texts = texts.iter().map(|array| array.as_string_view()).collect::<Vec<_>>();
        let (json, paths, values) = match texts.as_slice() {
            [json, paths] => (json, paths, None),
            [json, paths, values] => (json, paths, Some(values)),
            _ => return plan_err!("{} takes JSON and a path", self.name),
        };
        let one = |row: usize| {
            let given = |texts: &StringViewArray| texts.is_null(row);
            if given(json) || given(paths) || values.is_some_and(|values| given(values)) {
                return Ok(None);
            }
            let value = values.map(|values| self.sound(values.value(row))).transpose()?;
            let (json, path) = (self.sound(json.value(row))?, paths.value(row));
            Ok(changed(json, &parse(path)?, self.kind, value))
        };
        let found = (0..json.len()).map(one).collect::<Result<StringViewArray>>()?;
        crate::args::as_given(&args, Arc::new(found))
    }
}

impl Edit {
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

/// JSON with what is at a path changed; `None` where nothing is left.
fn changed(json: &str, path: &[Step], kind: Kind, value: Option<&str>) -> Option<String> {
    let Some((step, below)) = path.split_first() else {
        return match kind {
            Kind::Set | Kind::Replace => value.map(compact),
            Kind::Insert => Some(compact(json)),
            Kind::Remove => None,
        };
    };
    Some(match step {
        Step::Member(name) if json.starts_with('{') => {
            let mut made = Vec::new();
            let mut found = false;
            for (key, old) in members(json) {
                let kept = match is_key(key, name) {
                    // Of several members of one name the first is the one.
                    true if found => None,
                    true => {
                        found = true;
                        changed(old, below, kind, value)
                    }
                    false => Some(compact(old)),
                };
                made.extend(kept.map(|kept| format!("{key}:{kept}")));
            }
            if !found && let Some(new) = new(below, kind, value) {
                made.push(format!("{}:{new}", serde_json::Value::from(name.as_str())));
            }
            format!("{{{}}}", made.join(","))
        }
        Step::Element(place) if json.starts_with('[') => {
            let mut made = Vec::new();
            let count = elements(json).count();
            let at = match usize::try_from(*place) {
                Ok(at) => Some(at),
                Err(_) => count.checked_sub(place.unsigned_abs() as usize),
            };
            for (nth, old) in elements(json).enumerate() {
                match at == Some(nth) {
                    true => made.extend(changed(old, below, kind, value)),
                    false => made.push(compact(old)),
                }
            }
            if at == Some(count) {
                made.extend(new(below, kind, value));
            }
            format!("[{}]", made.join(","))
        }
        // What has no such part stays.
        _ => compact(json),
    })
}

/// What comes in where a path leads to nothing.
fn new(below: &[Step], kind: Kind, value: Option<&str>) -> Option<String> {
    if !matches!(kind, Kind::Set | Kind::Insert) {
        return None;
    }
    let mut made = value.map(compact)?;
    for step in below.iter().rev() {
        made = match step {
            Step::Member(name) => format!("{{{}:{made}}}", serde_json::Value::from(name.as_str())),
            Step::Element(0) => format!("[{made}]"),
            Step::Element(_) => return None,
        };
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_change() {
        for (kind, json, path, expected) in [
            (Kind::Set, r#"{"a": 1}"#, "$.a", r#"{"a":9}"#),
            (Kind::Set, r#"{"a":1}"#, "$.b.c", r#"{"a":1,"b":{"c":9}}"#),
            (Kind::Set, "[1,2]", "$[2]", "[1,2,9]"),
            (Kind::Set, "[1,2]", "$[5]", "[1,2]"),
            (Kind::Set, "[1,2]", "$[-1]", "[1,9]"),
            (Kind::Set, "[1,2]", "$[-3]", "[1,2]"),
            (Kind::Set, "5", "$.a", "5"),
            (Kind::Insert, r#"{"a":1}"#, "$.a", r#"{"a":1}"#),
            (Kind::Insert, "[1]", "$[1]", "[1,9]"),
            (Kind::Replace, r#"{"a":1}"#, "$.b", r#"{"a":1}"#),
            (Kind::Replace, r#"{"a":{"b":1}}"#, "$.a.b", r#"{"a":{"b":9}}"#),
            (Kind::Remove, r#"{"a":1,"b":[1,2]}"#, "$.b[0]", r#"{"a":1,"b":[2]}"#),
            (Kind::Remove, r#"{"a":1}"#, "$.z", r#"{"a":1}"#),
        ] {
            let path_steps = parse(path).unwrap();
            let value = (kind != Kind::Remove).then_some("9");
            let made = changed(json, &path_steps, kind, value);
            assert_eq!(made.as_deref(), Some(expected), "{json} {path}");
        }
    }
}
