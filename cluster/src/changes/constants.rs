//! What the coordinator computes of a statement that nodes run: the moment, variables, settings.
//!
//! `UPDATE t SET seen = now()` would get another moment at each node, and `getvariable('x')` is of
//! the session. Such calls have one value in a statement. So the coordinator computes it, and nodes
//! get it as a [parameter](crate::parameters).

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use swingdb::Value;
use swingdb::cutter::{Kind, Piece, pieces};

use crate::error::{Result, refused};
use crate::names::is_same;
use crate::session::Session;

/// Functions without arguments.
const CALLED: [&str; 6] = [
    "now",
    "today",
    "get_current_timestamp",
    "transaction_timestamp",
    "get_current_time",
    "current_date",
];
/// What is a function without parentheses.
const BARE: [&str; 5] =
    ["current_timestamp", "current_date", "current_time", "localtimestamp", "localtime"];
/// Functions of a name in quotes.
const OF_A_NAME: [&str; 2] = ["getvariable", "current_setting"];

/// How many words from a place on are such a call, whose words are no blanks and no comments.
pub(crate) fn call_at(words: &[Piece<'_>], at: usize) -> Option<usize> {
    let word = words.get(at).filter(|word| word.kind == Kind::Word)?;
    let text = |nth: usize| words.get(at + nth).map_or("", |next| next.text);
    let before = at.checked_sub(1).and_then(|before| words.get(before)).map_or("", |w| w.text);
    // The names of columns, and functions of a schema.
    if before == "." || before.eq_ignore_ascii_case("as") {
        return None;
    }
    let is_one_of = |names: &[&str]| names.iter().any(|name| word.text.eq_ignore_ascii_case(name));
    let is_name = words
        .get(at + 2)
        .is_some_and(|name| name.kind == Kind::Quoted && name.text.starts_with('\''));
    match (text(1), text(2), text(3)) {
        ("(", ")", _) if is_one_of(&CALLED) => Some(3),
        ("(", _, ")") if is_one_of(&OF_A_NAME) && is_name => Some(4),
        ("(" | ".", ..) => None,
        _ if is_one_of(&BARE) => Some(1),
        _ => None,
    }
}

/// A statement for nodes, with parameters in the places of such calls, and their values behind the
/// others. `columns` are those of the table.
pub(crate) fn computed(
    session: &Session,
    text: &str,
    parameters: &[Value],
    columns: &Schema,
) -> Result<(String, Vec<Value>)> {
    let (mut values, mut known) = (parameters.to_vec(), BTreeMap::new());
    let all = pieces(text).collect::<Vec<_>>();
    let is_word = |piece: &Piece<'_>| !matches!(piece.kind, Kind::Blank | Kind::Comment);
    let places = (0..all.len()).filter(|nth| is_word(&all[*nth])).collect::<Vec<_>>();
    let words = places.iter().map(|nth| all[*nth]).collect::<Vec<_>>();
    let (mut made, mut from, mut at) = (String::new(), 0, 0);
    while at < words.len() {
        let Some(length) = call_at(&words, at) else {
            at += 1;
            continue;
        };
        if length == 1 && columns.fields().iter().any(|of| is_same(of.name(), words[at].text)) {
            return refused(format!("a column called {}: quote its name", words[at].text));
        }
        let call = words[at..at + length].iter().map(|word| word.text).collect::<String>();
        if !known.contains_key(&call) {
            values.push(Value::Scalar(session.value(&format!("SELECT {call}"))?));
            known.insert(call.clone(), values.len());
        }
        made.extend(all[from..places[at]].iter().map(|piece| piece.text));
        made += &format!("${}", known[&call]);
        at += length;
        from = places[at - 1] + 1;
    }
    made.extend(all[from..].iter().map(|piece| piece.text));
    Ok((made, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb::cutter::words;

    #[test]
    fn calls_are_told_from_names() {
        for (sql, expected) in [
            ("a = now ( ) AND b < NOW()", vec!["now()", "NOW()"]),
            (
                "SET a = current_timestamp, b = current_date + 1",
                vec!["current_timestamp", "current_date"],
            ),
            (
                "a = getvariable('x y') OR getvariable(b) = current_setting('z')",
                vec!["getvariable('x y')", "current_setting('z')"],
            ),
            ("t.current_date = 1 AND main.now() > a", vec![]),
            ("now = 1 AND today + 1 > age(b) AND \"current_date\" = 'now()' -- now()", vec![]),
            ("now(1) OR current_date.x OR random() AS current_time", vec![]),
        ] {
            let all = words(sql).collect::<Vec<_>>();
            let calls = (0..all.len()).filter_map(|at| {
                let length = call_at(&all, at)?;
                Some(all[at..at + length].iter().map(|word| word.text).collect::<String>())
            });
            assert_eq!(calls.collect::<Vec<_>>(), expected, "{sql}");
        }
    }
}
