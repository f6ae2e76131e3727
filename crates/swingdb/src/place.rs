//! Where in a text of SQL the cause of an error stands.
//!
//! The parser names its place. Errors of later stages name a table, a column or a function; its
//! place is known if the text has the name once. No place is better than a wrong one.

use crate::error::Error;

/// The line and the column, both counted from 1, of what an error of the statements in `sql` is
/// about, if that is known.
pub fn place_of(error: &Error, sql: &str) -> Option<(u64, u64)> {
    match error.without_line() {
        Error::Parse { line: Some(line), column: Some(column), .. } => Some((*line, *column)),
        Error::Parse { message, .. } if message.ends_with("found: EOF") => {
            Some(position(sql, sql.trim_end().len()))
        }
        Error::NotFound { name, .. } | Error::AlreadyExists { name, .. } => {
            only(sql, name).map(|at| position(sql, at))
        }
        Error::Plan { message } => only(sql, named(message)?).map(|at| position(sql, at)),
        _ => None,
    }
}

/// The name that a message is about: an ambiguous field, or what stands in its first quotes.
fn named(message: &str) -> Option<&str> {
    if let Some((_, name)) = message.split_once("Ambiguous reference to unqualified field ") {
        return name.split_whitespace().next();
    }
    let begin = message.find(['\'', '"'])?;
    let quote = message[begin..].chars().next()?;
    let inner = &message[begin + 1..];
    let name = &inner[..inner.find(quote)?];
    // A value that a message quotes is no name.
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    (is_name && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
}

/// The byte at which the only identifier `name` of a text begins; of a qualified name the last part
/// counts.
fn only(sql: &str, name: &str) -> Option<usize> {
    let words = identifiers(sql);
    let mut found: Vec<&Word> = words.iter().filter(|word| word.means(name)).collect();
    if found.is_empty()
        && let Some((_, last)) = name.rsplit_once('.')
    {
        found = words.iter().filter(|word| word.means(last)).collect();
    }
    match found.as_slice() {
        [word] => Some(word.begin),
        _ => None,
    }
}

/// An identifier or a keyword of a text.
struct Word {
    begin: usize,
    text: String,
    quoted: bool,
}

impl Word {
    fn means(&self, name: &str) -> bool {
        match self.quoted {
            true => self.text == name,
            false => self.text.eq_ignore_ascii_case(name),
        }
    }
}

/// The words of a text that stand neither in string literals nor in comments.
fn identifiers(sql: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(c) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let word =
            |bytes: usize, text: String, quoted| (bytes, Some(Word { begin: at, text, quoted }));
        let (bytes, found) = if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), None)
        } else if c == '\'' {
            (quoted_bytes(rest, '\''), None)
        } else if c == '"' {
            let bytes = quoted_bytes(rest, '"');
            let inner = rest[1..bytes].strip_suffix('"').unwrap_or(&rest[1..bytes]);
            word(bytes, inner.replace("\"\"", "\""), true)
        } else if c.is_alphabetic() || c == '_' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let bytes = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            word(bytes, rest[..bytes].to_string(), false)
        } else if c.is_ascii_digit() {
            (rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()), None)
        } else {
            (c.len_utf8(), None)
        };
        words.extend(found);
        at += bytes;
    }
    words
}

/// The bytes of what stands in quotes at the start of a text, quotes included.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut rest = text[1..].char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if c != quote {
            continue;
        }
        // Two quotes are one of the text.
        if rest.next_if(|(_, next)| *next == quote).is_none() {
            return at + 2;
        }
    }
    text.len()
}

/// Line and column of a byte, from 1.
fn position(sql: &str, at: usize) -> (u64, u64) {
    let before = &sql[..at];
    let line = before.matches('\n').count() as u64 + 1;
    let of_line = before.rsplit('\n').next().unwrap_or_default();
    (line, of_line.chars().count() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ObjectKind;

    fn missing(name: &str) -> Error {
        let none: [&str; 0] = [];
        Error::not_found(ObjectKind::Column, name, none)
    }

    #[test]
    fn a_name_that_stands_once_has_a_place() {
        let place = |name, sql| place_of(&missing(name), sql);
        assert_eq!(place("nope", "SELECT nope FROM t"), Some((1, 8)));
        assert_eq!(place("nope", "SELECT a,\n  é, NOPE FROM t"), Some((2, 6)));
        assert_eq!(place("no pe", "SELECT \"no pe\" FROM t"), Some((1, 8)));
        assert_eq!(place("s.nope", "SELECT * FROM s.nope"), Some((1, 17)));
        let hidden = "SELECT 'nope ''nope', /* nope */ nope -- nope";
        assert_eq!(place("nope", hidden), Some((1, 34)));
        let nowhere = ["SELECT nope, nope", "SELECT nopes", "SELECT 'nope", "", "\"", "/*"];
        for sql in nowhere.into_iter().chain(["SELECT \"NOPE\"", "SELECT 1nope"]) {
            assert_eq!(place("nope", sql), None, "{sql}");
        }
    }

    #[test]
    fn messages_name_what_they_are_about() {
        let place = |message: &str, sql| place_of(&Error::plan(message), sql);
        let invalid = "Invalid function 'nope'.\nDid you mean 'now'?";
        assert_eq!(place(invalid, "SELECT nope(now())"), Some((1, 8)));
        let ambiguous = "Ambiguous reference to unqualified field i";
        assert_eq!(place(ambiguous, "SELECT i FROM t, u"), Some((1, 8)));
        assert_eq!(place("SET x: \"5x\" is no number", "SET x = 5x"), None);
        assert_eq!(place("it's", "SELECT s"), None);
        assert_eq!(place("''", "SELECT s"), None);
    }

    #[test]
    fn the_end_is_a_place() {
        let end = "Expected: an expression, found: EOF".to_string();
        let end = Error::Parse { message: end, line: None, column: None };
        assert_eq!(place_of(&end, "SELECT 1 +\n"), Some((1, 11)));
        assert_eq!(place_of(&Error::Interrupted, "SELECT 1"), None);
    }
}
