//! JSON as text: its parts, and forms of it, without making a tree of it.
//!
//! All but [`check`] take valid JSON.

use serde::de::IgnoredAny;

/// Levels of arrays and objects in one another, at most, where a function goes into all of them:
/// each takes room on the stack.
pub const MAX_DEPTH: usize = 1_000;

/// Whether arrays and objects of valid JSON are in more of one another than may be gone into.
pub fn is_deep(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    json.bytes().any(|byte| {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// Whether text is JSON.
pub fn check(text: &str) -> serde_json::Result<IgnoredAny> {
    serde_json::from_str(text)
}

/// Whether the key, with its quotes, is this name.
pub fn is_key(key: &str, name: &str) -> bool {
    match key.contains('\\') {
        false => key.get(1..key.len() - 1) == Some(name),
        true => serde_json::from_str::<String>(key).is_ok_and(|key| key == name),
    }
}

/// The elements of an array; none of anything else.
pub fn elements(json: &str) -> impl Iterator<Item = &str> {
    let mut pieces = pieces(json, b'[');
    std::iter::from_fn(move || pieces.next())
}

/// The keys, with their quotes, and values of an object; none of anything else.
pub fn members(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut pieces = pieces(json, b'{');
    std::iter::from_fn(move || Some((pieces.next()?, pieces.next()?)))
}

/// What is between commas and colons in the brackets of a valid array or object.
fn pieces(json: &str, open: u8) -> impl Iterator<Item = &str> {
    let inside = match json.as_bytes().first() {
        Some(first) if *first == open => &json[1..json.len() - 1],
        _ => "",
    };
    let mut rest = inside.trim_ascii();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = end_of_piece(rest.as_bytes());
        let piece = rest[..end].trim_ascii();
        rest = rest.get(end + 1..).unwrap_or_default().trim_ascii();
        Some(piece)
    })
}

/// The place of the first comma or colon outside strings and brackets.
fn end_of_piece(json: &[u8]) -> usize {
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while let Some(byte) = json.get(at) {
        match (in_string, byte) {
            (true, b'\\') => at += 1,
            (_, b'"') => in_string = !in_string,
            (true, _) => {}
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, b',' | b':') if depth == 0 => return at,
            (false, _) => {}
        }
        at += 1;
    }
    json.len()
}

/// Without white space between tokens.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        match (in_string, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => in_string = !in_string,
            (false, ' ' | '\t' | '\n' | '\r') => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// With each element and member in a line of its own, indented by four spaces a level.
pub fn in_lines(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    write_lines(json, 0, &mut out);
    out
}

fn write_lines(json: &str, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    let brackets = match json.as_bytes().first() {
        Some(b'{') => ['{', '}'],
        Some(b'[') => ['[', ']'],
        _ => return out.push_str(json),
    };
    let keys = members(json).map(|(key, value)| (Some(key), value));
    let all = keys.chain(elements(json).map(|value| (None, value)));
    out.push(brackets[0]);
    let mut count = 0;
    for (key, value) in all {
        if count > 0 {
            out.push(',');
        }
        line(depth + 1, out);
        if let Some(key) = key {
            out.push_str(key);
            out.push_str(": ");
        }
        write_lines(value, depth + 1, out);
        count += 1;
    }
    if count > 0 {
        line(depth, out);
    }
    out.push(brackets[1]);
}

/// As text: strings without quotes; nothing for null.
pub fn as_text(json: &str) -> Option<String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).ok(),
        Some(b'n') => None,
        _ => Some(compact(json)),
    }
}

/// What DuckDB calls the kind of a value.
pub fn type_name(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "OBJECT",
        Some(b'[') => "ARRAY",
        Some(b'"') => "VARCHAR",
        Some(b'n') => "NULL",
        Some(b't' | b'f') => "BOOLEAN",
        _ if json.parse::<u64>().is_ok() => "UBIGINT",
        _ if json.parse::<i64>().is_ok() => "BIGINT",
        _ => "DOUBLE",
    }
}
