//! Messages of Arrow and DataFusion in the words of SQL: they name types as Arrow does
//! (`Utf8View`), and constants as plans do (`Int64(1)`).
//!
//! A message may quote what a user has written, or a value of a column. Such a text stays as it is
//! where it can be one of Arrow's names: [`of_values`] leaves out all that is in quotes. What is
//! said of a plan quotes expressions, in which types are Arrow's ([`of_plans`]).

use std::str::FromStr;

use arrow::datatypes::DataType;

use crate::type_names::sql_name;

/// Kinds of errors that Arrow and DataFusion write before their messages.
const KINDS: [&str; 6] = [
    "Compute error: ",
    "Execution error: ",
    "Invalid argument error: ",
    "Error during planning: ",
    "Arrow error: ",
    "Optimizer rule failed: ",
];
/// Longer names of types are not looked for: a type that is nested so deep is no help in a message.
const MAX_TYPE_BYTES: usize = 4096;

/// What is said of a plan or an expression.
pub(crate) fn of_plans(message: &str) -> String {
    match speaks_of_arrow(message) {
        true => message.to_owned(),
        false => without_empty_candidates(&translated(message, false)),
    }
}

/// What is said of a value.
pub(crate) fn of_values(message: &str) -> String {
    match speaks_of_arrow(message) {
        true => message.to_owned(),
        false => translated(without_kinds(message), true),
    }
}

/// What is said of a value that cannot be converted.
pub(crate) fn of_conversions(message: &str) -> String {
    let message = of_values(message);
    let value = |prefix: &str, middle: &str, end: &str| {
        let rest = message.strip_prefix(prefix)?.strip_suffix(end)?;
        let (value, name) = rest.rsplit_once(middle)?;
        Some((value.to_owned(), name.to_owned()))
    };
    let text = value("Cannot cast string ", " to value of ", " type")
        .or_else(|| value("Cannot cast value ", " to value of ", " type"));
    if let Some((value, name)) = text {
        return format!("{value} is no valid {name}");
    }
    match value("Can't cast value ", " to type ", "") {
        Some((value, name)) => format!("{value} does not fit {name}"),
        None => message,
    }
}

/// Whether a message is about Arrow's own names, as those of `arrow_cast` are.
fn speaks_of_arrow(message: &str) -> bool {
    let named = |word: &str| message.contains(word) && !message.starts_with("Arrow error: ");
    named("arrow") || named("Arrow") || named("ARROW(")
}

fn without_kinds(mut message: &str) -> &str {
    while let Some(rest) = KINDS.iter().find_map(|kind| message.strip_prefix(kind)) {
        message = rest;
    }
    message
}

/// A list of candidates that says of none which types it takes is no help.
fn without_empty_candidates(message: &str) -> String {
    const HEAD: &str = " You might need to add explicit type casts.\n\tCandidate functions:";
    match message.split_once(HEAD) {
        Some((head, candidates)) if candidates.contains("(UserDefined)") => head.to_owned(),
        _ => message.to_owned(),
    }
}

fn translated(message: &str, leave_quotes: bool) -> String {
    let mut result = String::with_capacity(message.len());
    let mut rest = message;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let begins = !before.is_alphanumeric() && before != '_';
        let step = match first {
            '\'' | '"' if leave_quotes && begins => quoted(rest),
            _ if begins && first.is_ascii_uppercase() => match named_type(rest) {
                Some((text, length)) => {
                    result.push_str(&text);
                    before = ')';
                    rest = &rest[length..];
                    continue;
                }
                None => first.len_utf8(),
            },
            _ => first.len_utf8(),
        };
        result.push_str(&rest[..step]);
        before = rest[..step].chars().next_back().unwrap_or(' ');
        rest = &rest[step..];
    }
    result
}

/// The bytes of a text in quotes that begins here; of the quote alone where it is not closed.
fn quoted(text: &str) -> usize {
    let quote = &text[..1];
    text[1..].find(quote).map_or(1, |end| end + 2)
}

/// What SQL has for a type, or for a constant, that begins here, and the bytes it takes.
fn named_type(text: &str) -> Option<(String, usize)> {
    let word_end =
        text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let word = &text[..word_end];
    // `Int64Array`, of an overflow.
    if let Some(element) = word.strip_suffix("Array").filter(|word| is_type_word(word)) {
        let data_type = DataType::from_str(element).ok()?;
        return Some((sql_name(&data_type), word_end));
    }
    if !is_type_word(word) {
        return None;
    }
    if text[word_end..].starts_with('(') {
        let length = word_end + closed(&text[word_end..])?;
        let whole = &text[..length];
        if let Ok(data_type) = DataType::from_str(whole) {
            return Some((sql_name(&data_type), length));
        }
        return Some((constant(word, &whole[word_end + 1..length - 1])?, length));
    }
    if word.starts_with("Decimal") {
        return Some(("DECIMAL".to_owned(), word_end));
    }
    // What is said of operators has this word too.
    if word == "Binary" && text[word_end..].starts_with(" op") {
        return None;
    }
    let data_type = DataType::from_str(word).ok()?;
    Some((sql_name(&data_type), word_end))
}

fn is_type_word(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(
        name,
        "Null" | "Boolean" | "Int" | "UInt" | "Float" | "Decimal" | "Date" | "Time" | "Timestamp"
    ) || matches!(name, "Duration" | "Interval" | "Binary" | "LargeBinary" | "BinaryView")
        || matches!(word, "Utf8" | "LargeUtf8" | "Utf8View" | "FixedSizeBinary" | "Dictionary")
        || matches!(name, "List" | "LargeList" | "ListView" | "LargeListView" | "FixedSizeList")
        || matches!(name, "Struct" | "Map" | "RunEndEncoded")
}

/// The bytes up to the bracket that closes the one at the begin.
fn closed(text: &str) -> Option<usize> {
    let (mut depth, mut in_quotes) = (0usize, false);
    for (at, c) in text.char_indices().take(MAX_TYPE_BYTES) {
        match c {
            '"' => in_quotes = !in_quotes,
            '(' if !in_quotes => depth += 1,
            ')' if !in_quotes => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// A constant of a plan, by the word of its type and what is in the brackets.
fn constant(word: &str, value: &str) -> Option<String> {
    if value == "NULL" {
        return Some("NULL".to_owned());
    }
    match word {
        "Utf8" | "LargeUtf8" | "Utf8View" => {
            let text = value.strip_prefix('"')?.strip_suffix('"')?;
            Some(format!("'{}'", text.replace('\'', "''")))
        }
        "Boolean" => matches!(value, "true" | "false").then(|| value.to_owned()),
        _ if word.starts_with("Int") && word != "Interval" => {
            value.parse::<i64>().ok().map(|_| value.to_owned())
        }
        _ if word.starts_with("UInt") => value.parse::<u64>().ok().map(|_| value.to_owned()),
        _ if word.starts_with("Float") => value.parse::<f64>().ok().map(|_| value.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_of_sql() {
        for (message, expected) in [
            (
                "Unsupported CAST from List(Int64) to Int32",
                "Unsupported CAST from BIGINT[] to INTEGER",
            ),
            (
                "from Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": Int64), \
                 unsorted) to Int32",
                "from MAP(VARCHAR, BIGINT) to INTEGER",
            ),
            ("operation Date32 * Int64", "operation DATE * BIGINT"),
            ("'generate_series(Int64, Timestamp(µs))'", "'generate_series(BIGINT, TIMESTAMP)'"),
            ("'f(Timestamp(ns, \"UTC\"))'", "'f(TIMESTAMP_NS WITH TIME ZONE)'"),
            ("'bit_and(Decimal128(2, 1))'", "'bit_and(DECIMAL(2,1))'"),
            ("a Decimal128 of precision 5", "a DECIMAL of precision 5"),
            ("predicate 'Utf8(\"x\")' returning Utf8", "predicate ''x'' returning VARCHAR"),
            ("count(Int64(1)), Int64Array overflow", "count(1), BIGINT overflow"),
            ("Binary operator of MyInt64 and Int64", "Binary operator of MyInt64 and BIGINT"),
            ("no type such as Interval", "no type such as Interval"),
        ] {
            assert_eq!(of_plans(message), expected);
        }
    }

    #[test]
    fn what_users_have_written_stays() {
        for (message, expected) in [
            ("Cannot cast string 'Int64' to value of Int32 type", "'Int64' is no valid INTEGER"),
            ("Cannot cast value 'it's' to value of Boolean type", "'it's' is no valid BOOLEAN"),
            ("Can't cast value 300 to type Int8", "300 does not fit TINYINT"),
            ("Compute error: Execution error: too far", "too far"),
        ] {
            assert_eq!(of_conversions(message), expected);
        }
        let arrow = "Unsupported type 'Foo'. Must be a supported arrow type name such as 'Int32'";
        assert_eq!(of_plans(arrow), arrow);
    }

    #[test]
    fn candidates_without_types_are_left_out() {
        let message = "No function matches 'coalesce(Int64, Date32)'. You might need to add \
                       explicit type casts.\n\tCandidate functions:\n\tcoalesce(UserDefined)";
        assert_eq!(of_plans(message), "No function matches 'coalesce(BIGINT, DATE)'.");
        let message = "No function matches 'f(Int64)'. You might need to add explicit type \
                       casts.\n\tCandidate functions:\n\tf(String)";
        assert!(of_plans(message).ends_with("f(String)"));
    }
}
