//! The text of a query without the values that its columns are compared with: [`Template`].
//!
//! Programs that write values into their statements, `SELECT * FROM t WHERE id = 791`, send another
//! text each time. With places for the values all these texts are one, whose plan can be kept
//! ([`crate::optimized`]).
//!
//! Only texts that are plain to see through have a template. A value gets a place if it is a whole
//! number or a text behind a comparison of WHERE that AND connects with the others: there no name
//! of a column comes from it, and no type of one.

use datafusion::common::ScalarValue;

use crate::text::parameters::Params;

/// Longest text that is looked at, in bytes.
const MAX_TEXT: usize = 1 << 10;
/// Values of a text at most.
const MAX_VALUES: usize = 16;
/// Words behind the first that make a text more than one query of relations with names.
const MORE_QUERIES: [&str; 7] =
    ["select", "with", "values", "union", "intersect", "except", "prepare"];
/// Words that come behind WHERE.
const BEHIND_WHERE: [&str; 8] =
    ["group", "having", "order", "limit", "offset", "qualify", "window", "fetch"];

/// A query with places for the values that its columns are compared with.
#[derive(Clone, Debug)]
pub struct Template {
    /// The query, with `$1`, `$2`, ... for the values.
    pub text: String,
    /// The values of the text that it was made of.
    pub params: Params,
}

impl Template {
    /// The template of a text with one SELECT without parameters; `None` where no value is
    /// compared, or it takes a parser to understand the text.
    pub fn of(sql: &str) -> Option<Self> {
        let parts = (sql.len() <= MAX_TEXT).then(|| parts(sql))??;
        if !parts.first()?.1.is_word("select") {
            return None;
        }
        let (mut text, mut copied) = (String::with_capacity(sql.len()), 0);
        let (mut values, mut depth, mut in_where) = (Vec::new(), 0_usize, false);
        for (index, &(at, part)) in parts.iter().enumerate() {
            let behind = parts.get(index + 1).map(|(_, part)| *part);
            match part {
                Part::Other(b'(') => depth += 1,
                Part::Other(b')') => depth = depth.checked_sub(1)?,
                Part::Other(b';') if behind.is_some() => return None,
                Part::Word(_) if index > 0 && part.is_any(&MORE_QUERIES) => return None,
                Part::Word(_) if depth == 0 && part.is_word("where") => in_where = true,
                Part::Word(_) if depth == 0 && part.is_any(&BEHIND_WHERE) => in_where = false,
                _ => {}
            }
            let is_last = match behind {
                None | Some(Part::Other(b';')) => true,
                Some(behind) => behind.is_word("and") || behind.is_any(&BEHIND_WHERE),
            };
            let is_compared = index > 0 && parts[index - 1].1 == Part::Comparison;
            if !(in_where && depth == 0 && is_compared && is_last) {
                continue;
            }
            let (value, len) = match part {
                Part::Integer(digits) => {
                    (ScalarValue::Int64(Some(digits.parse().ok()?)), digits.len())
                }
                Part::Text(inner) => (ScalarValue::Utf8(Some(inner.to_string())), inner.len() + 2),
                _ => continue,
            };
            values.push(value);
            text.push_str(&sql[copied..at]);
            text.push_str(&format!("${}", values.len()));
            copied = at + len;
        }
        text.push_str(&sql[copied..]);
        let few = !values.is_empty() && values.len() <= MAX_VALUES;
        few.then(|| Self { text, params: Params::of_scalars(values) })
    }
}

/// A part of a text, but for blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Word(&'a str),
    /// Digits alone.
    Integer(&'a str),
    /// What is between quotes, without a quote in it.
    Text(&'a str),
    /// `=`, `<`, `<=`, `>` or `>=`.
    Comparison,
    /// A punctuation mark, or what another part begins with.
    Other(u8),
}

impl Part<'_> {
    fn is_word(self, word: &str) -> bool {
        matches!(self, Part::Word(own) if own.eq_ignore_ascii_case(word))
    }

    fn is_any(self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }
}

/// The parts of a text with their places; `None`: it has comments, parameters, or texts that are
/// not what is between their quotes.
fn parts(sql: &str) -> Option<Vec<(usize, Part<'_>)>> {
    let bytes = sql.as_bytes();
    let run = |from: usize, is: fn(u8) -> bool| {
        from + bytes[from..].iter().position(|byte| !is(*byte)).unwrap_or(bytes.len() - from)
    };
    let (mut parts, mut at) = (Vec::with_capacity(16), 0);
    while let Some(&first) = bytes.get(at) {
        let (part, end) = match first {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'\'' | b'"' => {
                let inner = sql[at + 1..].split_once(char::from(first))?.0;
                let end = at + inner.len() + 2;
                // Two quotes stand for one, and there are texts of other kinds: `E'\n'`, `'a'''`.
                let joined =
                    |place: Option<&u8>| place.is_some_and(|b| is_in_word(*b) || *b == first);
                if joined(bytes.get(end)) || at.checked_sub(1).is_some_and(|i| joined(bytes.get(i)))
                {
                    return None;
                }
                (if first == b'"' { Part::Other(first) } else { Part::Text(inner) }, end)
            }
            b'0'..=b'9' => {
                let end = run(at, |byte| is_in_word(byte) || byte == b'.');
                let whole = bytes[at..end].iter().all(u8::is_ascii_digit);
                (if whole { Part::Integer(&sql[at..end]) } else { Part::Other(first) }, end)
            }
            _ if is_in_word(first) => {
                let end = run(at, is_in_word);
                (Part::Word(&sql[at..end]), end)
            }
            _ if is_in_operator(first) => {
                let end = run(at, is_in_operator);
                let operator = &sql[at..end];
                if operator.contains("--") || operator.contains("/*") {
                    return None;
                }
                let compares = matches!(operator, "=" | "<" | "<=" | ">" | ">=");
                (if compares { Part::Comparison } else { Part::Other(first) }, end)
            }
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b'.' | b';' => {
                (Part::Other(first), at + 1)
            }
            // Parameters, other quotes, and more.
            _ => return None,
        };
        parts.push((at, part));
        at = end;
    }
    Some(parts)
}

fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn is_in_operator(byte: u8) -> bool {
    b"=<>!+-*/%^&|~#".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_values_get_places() {
        for (sql, expected, values) in [
            ("SELECT * FROM t WHERE id = 791", "SELECT * FROM t WHERE id = $1", "[Int64(791)]"),
            (
                "select a, 5 from t where s='x y' AND id>=3 order by 1 limit 5;",
                "select a, 5 from t where s=$1 AND id>=$2 order by 1 limit 5;",
                "[Utf8(\"x y\"), Int64(3)]",
            ),
            (
                "SELECT count(*) FILTER (WHERE a = 5) FROM \"a 'b\" WHERE a < 7 AND (b = 1)",
                "SELECT count(*) FILTER (WHERE a = 5) FROM \"a 'b\" WHERE a < $1 AND (b = 1)",
                "[Int64(7)]",
            ),
            (
                "SELECT a = 1 FROM t WHERE a = 2 GROUP BY a HAVING a = 3",
                "SELECT a = 1 FROM t WHERE a = $1 GROUP BY a HAVING a = 3",
                "[Int64(2)]",
            ),
            (
                "SELECT * FROM t WHERE s = 'Grüße' AND x <> 4 AND d = DATE '2024-01-01' AND y = 1",
                "SELECT * FROM t WHERE s = $1 AND x <> 4 AND d = DATE '2024-01-01' AND y = $2",
                "[Utf8(\"Grüße\"), Int64(1)]",
            ),
        ] {
            let template = Template::of(sql).unwrap();
            assert_eq!(template.text, expected);
            assert_eq!(format!("{:?}", template.params.values()), values);
        }
    }

    #[test]
    fn other_texts_have_none() {
        for sql in [
            "",
            "INSERT INTO t SELECT 1",
            "SELECT 1",
            "SELECT * FROM t WHERE a = $1 AND b = 2",
            "SELECT * FROM t WHERE a = ? AND b = 2",
            "SELECT * FROM t WHERE b = 2; SELECT 3",
            "SELECT * FROM t WHERE a = 'it''s'",
            "SELECT * FROM t WHERE a = E'x'",
            "SELECT * FROM t WHERE a = 'open",
            "SELECT * FROM t WHERE a = 5.5",
            "SELECT * FROM t WHERE a = 5e3",
            "SELECT * FROM t WHERE a = 5::DOUBLE",
            "SELECT * FROM t WHERE a = -5",
            "SELECT * FROM t WHERE a = 5 + 1",
            "SELECT * FROM t WHERE a = 99999999999999999999",
            "SELECT * FROM t WHERE a = 5 -- b",
            "SELECT * FROM t WHERE a = 5 /* b */ AND b = 6",
            "SELECT * FROM t WHERE a = (SELECT 5) AND b = 6",
            "SELECT * FROM t WHERE b->>'x' = 5 OR true",
            "SELECT * FROM t WHERE a BETWEEN 1 AND 5",
            "SELECT * FROM t WHERE a = 1 UNION ALL SELECT 2",
            "SELECT (a) ) FROM t WHERE a = 1",
        ] {
            assert!(Template::of(sql).is_none(), "{sql}");
        }
    }
}
