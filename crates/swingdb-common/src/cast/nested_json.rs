//! The parts of JSON that is cast to a list, struct or map, as [`read_nested`](super::read_nested)
//! puts them together.
//!
//! A part that becomes nested itself stays JSON. Of others a string is what is in its quotes,
//! everything else as it is written.
//!
//! ```text
//! '{"a": [1, 2], "b": "x"}' as STRUCT(a INT[], b VARCHAR)  ->  [1, 2] | x
//! ```

use arrow::datatypes::{DataType, Fields};

use crate::cast::parts::{Part, Wrong, is_nested};
use crate::json;

pub(super) const NULL: &str = "null";
const NO_OBJECT: Wrong = "JSON of a STRUCT is an object";

/// The elements of an array as parts that become values of a type.
pub(super) fn elements(text: &str, item: &DataType) -> Result<Vec<Part>, Wrong> {
    let text = sound(text, '[', "JSON of a list is an array")?;
    Ok(json::elements(text).map(|element| part(element, item)).collect())
}

/// The members of an object in the order of the fields. Others, and those that are there twice, are
/// wrong, unless what does not fit is `safe` to be left out. Then JSON that is no object has none
/// of the members.
pub(super) fn members(text: &str, fields: &Fields, safe: bool) -> Result<Vec<Part>, Wrong> {
    let (mut values, mut found) = (vec![None; fields.len()], vec![false; fields.len()]);
    let text = match sound(text, '{', NO_OBJECT) {
        Err(NO_OBJECT) if safe => return Ok(values),
        text => text?,
    };
    for (key, value) in json::members(text) {
        match fields.iter().position(|field| json::is_key(key, field.name())) {
            Some(place) if !found[place] => {
                found[place] = true;
                values[place] = part(value, fields[place].data_type());
            }
            _ if safe => {}
            Some(_) => return Err("a member is there twice"),
            None => return Err("it has a member that the STRUCT does not have"),
        }
    }
    Ok(values)
}

/// The members of an object, whatever their names are.
pub(super) fn pairs(text: &str, value: &DataType) -> Result<Vec<(Part, Part)>, Wrong> {
    let text = sound(text, '{', "JSON of a MAP is an object")?;
    let pair = |(key, member): (&str, &str)| (json::as_text(key), part(member, value));
    Ok(json::members(text).map(pair).collect())
}

/// The text, if it is JSON that begins so.
fn sound(text: &str, open: char, otherwise: Wrong) -> Result<&str, Wrong> {
    match json::check(text) {
        Err(_) => Err("it is no JSON"),
        Ok(_) if !text.starts_with(open) => Err(otherwise),
        Ok(_) => Ok(text),
    }
}

fn part(json: &str, to: &DataType) -> Part {
    match json {
        NULL => None,
        json if is_nested(to) => Some(json.to_string()),
        json if to.is_integer() => Some(rounded(json).unwrap_or_else(|| plain(json))),
        json => Some(plain(json)),
    }
}

fn plain(json: &str) -> String {
    match json.starts_with('"') {
        true => json::as_text(json).unwrap_or_default(),
        false => json::compact(json),
    }
}

/// A number with a fraction or an exponent as a whole one; `None` for all else.
fn rounded(json: &str) -> Option<String> {
    let number = json.parse::<f64>().ok().filter(|_| json.contains(['.', 'e', 'E']))?;
    Some(format!("{:.0}", number.round_ties_even()))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn parts_of_json() {
        let shown = |parts: Result<Vec<Part>, Wrong>| {
            let shown = |part: Part| part.unwrap_or_else(|| "-".to_string());
            parts.map(|parts| parts.into_iter().map(shown).collect::<Vec<_>>().join("|"))
        };
        let json = r#"["a\nb", 1.50, null, {"k": [1, 2]}, true]"#;
        assert_eq!(
            shown(elements(json, &DataType::Utf8)).as_deref(),
            Ok("a\nb|1.50|-|{\"k\":[1,2]}|true")
        );
        let whole = shown(elements("[2.5, 3.5, -1e2, 7, \"8\"]", &DataType::Int32));
        assert_eq!(whole.as_deref(), Ok("2|4|-100|7|8"));
        let list = DataType::new_list(DataType::Int32, true);
        assert_eq!(shown(elements("[[1, 2], null]", &list)).as_deref(), Ok("[1, 2]|-"));

        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true));
        let fields = Fields::from(fields.to_vec());
        let of = |text: &str, safe: bool| shown(members(text, &fields, safe));
        assert_eq!(of(r#"{"b": 1}"#, false).as_deref(), Ok("-|1"));
        for wrong in [r#"{"B": 1}"#, r#"{"a": 1, "a": 2}"#] {
            assert!(of(wrong, false).is_err() && of(wrong, true).is_ok(), "{wrong}");
        }
        for wrong in ["[1]", "1", "\"a\""] {
            assert_eq!(of(wrong, true).as_deref(), Ok("-|-"), "{wrong}");
            assert!(of(wrong, false).is_err(), "{wrong}");
        }
        for wrong in ["{", "[1", ""] {
            assert!(of(wrong, true).is_err(), "{wrong}");
        }
        let key = r#"{"a\"b": null}"#;
        assert_eq!(pairs(key, &DataType::Utf8), Ok(vec![(Some("a\"b".into()), None)]));
    }
}
