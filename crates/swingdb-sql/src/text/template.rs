//! The text of a query without the values that its columns are compared with: [`Template`].
//!
//! Programs that write values into their statements, `SELECT * FROM t WHERE id = 791`, send another
//! text each time. With places for the values all these texts are one, whose plan can be kept
//! ([`crate::optimized`]).
//!
//! Only texts that are plain to see through have a template. A value gets a place if it is a whole
//! number or a text behind a comparison of WHERE that AND connects with the others: there no name
//! of a column comes from it, and no type of one.
//!
//! UPDATE and DELETE find their rows by a query, which is a tree already. There a value that a
//! column is set to gets a place as well.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, SelectItem, SetExpr, Statement, UnaryOperator, Value,
};

use crate::text::parameters::Params;

/// Longest text that is looked at, in bytes.
const MAX_TEXT: usize = 1 << 10;
/// Values of a text at most.
const MAX_VALUES: usize = 16;
/// Digits of a decimal number at most.
const MAX_DIGITS: usize = 38;
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
    pub query: Form,
    /// The values of what it was made of.
    pub params: Params,
}

/// How the query of a template is written.
#[derive(Clone, Debug)]
pub enum Form {
    /// As text, which is to be parsed and bound.
    Text(String),
    /// As a tree whose names have their meanings.
    Bound(Box<Statement>),
}

impl Template {
    /// The template of a text with one SELECT without parameters; `None` where no value is
    /// compared, or it takes a parser to understand the text.
    pub fn of(sql: &str) -> Option<Self> {
        let parts = parts_of(sql, "select")?;
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
        few.then(|| Self { query: Form::Text(text), params: Params::of_scalars(values) })
    }

    /// The template of the query that finds the rows of a change: `SELECT row, value, ... FROM t
    /// WHERE ...`, without parameters. `None` where no value has a place, or the query is more.
    pub fn of_rows(query: &Statement) -> Option<Self> {
        let Statement::Query(plain) = query else { return None };
        if plain.with.is_some() || plain.order_by.is_some() || plain.limit_clause.is_some() {
            return None;
        }
        let SetExpr::Select(select) = plain.body.as_ref() else { return None };
        if select.from.len() != 1 || select.from.iter().any(|from| !from.joins.is_empty()) {
            return None;
        }
        let mut query = query.clone();
        let Statement::Query(plain) = &mut query else { return None };
        let SetExpr::Select(select) = plain.body.as_mut() else { return None };
        let mut values = Vec::new();
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(value) = set_value(expr)
            {
                *expr = place(&mut values, value);
            }
        }
        if let Some(condition) = &mut select.selection {
            compared_values(condition, &mut values);
        }
        let few = !values.is_empty() && values.len() <= MAX_VALUES;
        let params = Params::of_scalars(values);
        few.then(|| Self { query: Form::Bound(Box::new(query)), params })
    }
}

/// The name, in small letters, and the values of a text that is one EXECUTE of plain values,
/// `EXECUTE name(1, 'a')`; `None` where it takes a parser to understand it.
pub fn plain_execute(sql: &str) -> Option<(String, Vec<ScalarValue>)> {
    let mut parts = parts_of(sql, "execute")?;
    parts.pop_if(|(_, part)| *part == Part::Other(b';'));
    let mut parts = parts.into_iter().map(|(_, part)| part).skip(1);
    let (Part::Word(name), Part::Other(b'(')) = (parts.next()?, parts.next()?) else {
        return None;
    };
    let mut values = Vec::new();
    loop {
        values.push(match parts.next()? {
            Part::Integer(digits) => ScalarValue::Int64(Some(digits.parse().ok()?)),
            Part::Text(inner) => ScalarValue::Utf8(Some(inner.to_string())),
            _ => return None,
        });
        match parts.next()? {
            Part::Other(b',') => {}
            Part::Other(b')') => break,
            _ => return None,
        }
    }
    parts.next().is_none().then(|| (name.to_lowercase(), values))
}

/// Adds a value, and says its place.
fn place(values: &mut Vec<ScalarValue>, value: ScalarValue) -> Expr {
    values.push(value);
    Expr::value(Value::Placeholder(format!("${}", values.len())))
}

/// Gives places to the values behind the comparisons that AND connects.
fn compared_values(condition: &mut Expr, values: &mut Vec<ScalarValue>) {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq};
    match condition {
        Expr::Nested(inner) => compared_values(inner, values),
        Expr::BinaryOp { left, op: And, right } => {
            compared_values(left, values);
            compared_values(right, values);
        }
        Expr::BinaryOp { left, op: Eq | Lt | LtEq | Gt | GtEq, right }
            if matches!(**left, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
        {
            if let Some(value) = plain_value(right) {
                **right = place(values, value);
            }
        }
        _ => {}
    }
}

/// The value of an expression that is a whole number or a text, as the engine takes it.
pub fn plain_value(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => Some(ScalarValue::Int64(Some(digits.parse().ok()?))),
            Value::SingleQuotedString(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match plain_value(expr)? {
            ScalarValue::Int64(Some(number)) => Some(ScalarValue::Int64(Some(-number))),
            _ => None,
        },
        _ => None,
    }
}

/// What a column is set to: a value as above, or a decimal number.
fn set_value(expr: &Expr) -> Option<ScalarValue> {
    let decimal = |text: &str| {
        let (whole, fraction) = text.split_once('.')?;
        let digits = format!("{whole}{fraction}");
        let is_plain = digits.len() <= MAX_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        let number = is_plain.then(|| digits.parse().ok())??;
        let (precision, scale) = (u8::try_from(digits.len()).ok()?, fraction.len() as i8);
        Some(ScalarValue::Decimal128(Some(number), precision, scale))
    };
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, false) => decimal(text),
            _ => None,
        },
        _ => None,
    };
    plain_value(expr).or_else(|| match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr)?.arithmetic_negate().ok(),
        other => number(other),
    })
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

/// The [parts] of a text that begins with a word, and is not too long to be looked at.
fn parts_of<'a>(sql: &'a str, first: &str) -> Option<Vec<(usize, Part<'a>)>> {
    let begin = sql.trim_start_matches([' ', '\t', '\r', '\n']);
    let end = begin.bytes().position(|byte| !is_in_word(byte)).unwrap_or(begin.len());
    let is_it = sql.len() <= MAX_TEXT && begin[..end].eq_ignore_ascii_case(first);
    is_it.then(|| parts(sql))?
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
    use crate::text::parser::parse_query;

    #[test]
    fn an_execute_of_plain_values_needs_no_parser() {
        let values =
            |sql: &str| plain_execute(sql).map(|(name, values)| format!("{name} {values:?}"));
        for sql in ["EXECUTE By_Key(5, 'a b')", " execute by_key ( 5 ,'a b' ) ;"] {
            assert_eq!(values(sql).as_deref(), Some("by_key [Int64(5), Utf8(\"a b\")]"), "{sql}");
        }
        for sql in [
            "EXECUTE p",
            "EXECUTE p()",
            "EXECUTE p(-5)",
            "EXECUTE p(5,)",
            "EXECUTE p(5) x",
            "EXECUTE p(5); SELECT 1",
            "EXECUTE \"p\"(5)",
            "EXECUTE s.p(5)",
            "EXECUTE p(1 + 1)",
            "EXECUTE p(a := 5)",
            "EXECUTE p(99999999999999999999)",
            "EXPLAIN EXECUTE p(5)",
        ] {
            assert_eq!(values(sql), None, "{sql}");
        }
    }

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
            assert!(matches!(&template.query, Form::Text(text) if text == expected), "{sql}");
            assert_eq!(format!("{:?}", template.params.values()), values);
        }
    }

    #[test]
    fn values_of_changes_get_places() {
        let template = |sql: &str| {
            let template = Template::of_rows(&parse_query(sql).unwrap())?;
            let Form::Bound(query) = template.query else { panic!("{sql}") };
            Some((query.to_string(), format!("{:?}", template.params.values())))
        };
        for (sql, expected, values) in [
            (
                "SELECT r AS r, 12.50 AS a, -7 AS b, x + 1 AS c, NULL AS d FROM t WHERE id = -3",
                "SELECT r AS r, $1 AS a, $2 AS b, x + 1 AS c, NULL AS d FROM t WHERE id = $3",
                "[Decimal128(12.50,4,2), Int64(-7), Int64(-3)]",
            ),
            (
                "SELECT r AS r FROM t WHERE (t.a = 'it''s' AND b < 5) AND (c = 1 OR d = 2)",
                "SELECT r AS r FROM t WHERE (t.a = $1 AND b < $2) AND (c = 1 OR d = 2)",
                "[Utf8(\"it's\"), Int64(5)]",
            ),
        ] {
            assert_eq!(template(sql), Some((expected.to_string(), values.to_string())));
        }
        for sql in [
            "SELECT r AS r FROM t",
            "SELECT r AS r FROM t WHERE a = 5 LIMIT 1",
            "SELECT r AS r FROM t, s WHERE a = 5",
            "SELECT r AS r FROM t WHERE a = 1e3",
            "SELECT r AS r FROM t WHERE a = 2.5",
            "WITH s AS (SELECT 1) SELECT r AS r FROM t WHERE a = 5",
        ] {
            assert_eq!(template(sql), None, "{sql}");
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
