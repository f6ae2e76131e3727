//! Parameters of statements: [`statements`], [`part`].
//!
//! A text's `?` and `$name` get numbers, as one database gives them, before a statement is taken
//! apart. What is made of a part of a statement (a query of its rows, a subquery that is computed
//! first, what nodes run) gets the values of that part: the database wants as many values as a text
//! has parameters.

use std::collections::BTreeMap;

use swingdb::Value;
use swingdb::cutter::{Kind, first_words, pieces, split};
use swingdb_common::error::Error as DatabaseError;

use crate::error::Result;

/// The values of a text's parameters.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// For `?` and `$1`, `$2`, ...
    Positional(&'a [Value]),
    /// For `$name`.
    Named(&'a [(String, Value)]),
}

impl Given<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Positional(values) => values.is_empty(),
            Self::Named(values) => values.is_empty(),
        }
    }
}

/// The statements of a text, each with the values of its parameters, the first being that of `$1`.
pub(crate) fn statements(sql: &str, given: Given<'_>) -> Result<Vec<(String, Vec<Value>)>> {
    let statements = split(sql).all();
    if given.is_empty() {
        return Ok(statements.into_iter().map(|one| (one.to_string(), Vec::new())).collect());
    }
    let mut numbering = Numbering { next: 1, names: Vec::new() };
    let numbered = statements.into_iter().map(|one| numbering.number(one)).collect::<Vec<_>>();
    let values = numbering.values(given)?;
    let with_values = numbered.into_iter().map(|(text, is_template)| match is_template {
        true => Ok((text, Vec::new())),
        false => part(&text, &values),
    });
    with_values.collect()
}

/// A part of a statement with the values that it has parameters for. `values` are the statement's,
/// whose parameters have numbers; those of the part begin with `$1`.
pub(crate) fn part(text: &str, values: &[Value]) -> Result<(String, Vec<Value>)> {
    let mut used = BTreeMap::new();
    for piece in pieces(text) {
        if let Some(number) = number_of(piece.kind, piece.text) {
            let value = number.checked_sub(1).and_then(|nth| values.get(nth));
            used.insert(number, value.ok_or_else(|| missing(piece.text))?.clone());
        }
    }
    let places = used.keys().copied().zip(1..).collect::<BTreeMap<usize, usize>>();
    let renumbered = pieces(text).map(|piece| {
        let place = number_of(piece.kind, piece.text).and_then(|number| places.get(&number));
        place.map_or_else(|| piece.text.to_string(), |place| format!("${place}"))
    });
    Ok((renumbered.collect(), used.into_values().collect()))
}

/// The number of `$1`, `$2`, ...
fn number_of(kind: Kind, text: &str) -> Option<usize> {
    let digits = text.strip_prefix('$').filter(|_| kind == Kind::Parameter)?;
    digits.parse().ok()
}

fn missing(parameter: &str) -> DatabaseError {
    DatabaseError::plan(format!("no value was given for parameter {parameter}"))
}

/// How the parameters of a text are numbered.
struct Numbering {
    /// The number of the next `?`.
    next: usize,
    /// The names, in the order of their numbers.
    names: Vec<String>,
}

impl Numbering {
    /// A statement whose parameters have numbers, and whether it is a PREPARE: its parameters get
    /// their values from EXECUTE.
    fn number(&mut self, statement: &str) -> (String, bool) {
        if first_words(statement, 1).first().is_some_and(|word| word == "prepare") {
            return (statement.to_string(), true);
        }
        let numbered = pieces(statement).map(|piece| match (piece.kind, piece.text) {
            (Kind::Sign, "?") => {
                self.next += 1;
                format!("${}", self.next - 1)
            }
            (Kind::Parameter, text) => match number_of(Kind::Parameter, text) {
                Some(number) => {
                    self.next = self.next.max(number.saturating_add(1));
                    text.to_string()
                }
                None => self.by_name(text),
            },
            (_, text) => text.to_string(),
        });
        (numbered.collect(), false)
    }

    fn by_name(&mut self, text: &str) -> String {
        let name = text.trim_start_matches('$');
        let known = self.names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        });
        format!("${}", place + 1)
    }

    /// The values in the order of the numbers.
    fn values(&self, given: Given<'_>) -> Result<Vec<Value>> {
        let count = self.next - 1;
        if count > 0 && !self.names.is_empty() {
            let message = "a statement has either ? or named parameters, not both";
            return Err(DatabaseError::plan(message).into());
        }
        match given {
            Given::Positional(values) if self.names.is_empty() => match values.len() == count {
                true => Ok(values.to_vec()),
                false => Err(DatabaseError::plan(format!(
                    "the number of parameters is {count}, the number of values given is {}",
                    values.len()
                ))
                .into()),
            },
            Given::Named(_) if count > 0 => {
                let message = format!("the number of parameters is {count}, and values have names");
                Err(DatabaseError::plan(message).into())
            }
            Given::Positional(_) | Given::Named(_) => {
                let known = match given {
                    Given::Named(values) => values,
                    Given::Positional(_) => &[],
                };
                let value = |name: &String| {
                    let found = known.iter().find(|(of, _)| of == name);
                    Ok(found.ok_or_else(|| missing(&format!("${name}")))?.1.clone())
                };
                self.names.iter().map(value).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(all: Vec<(String, Vec<Value>)>) -> String {
        let one = |(sql, values): (String, Vec<Value>)| {
            let values = values.iter().map(|value| value.to_scalar().to_string());
            format!("{sql} [{}]", values.collect::<Vec<_>>().join(" "))
        };
        all.into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn parameters_get_numbers_and_statements_their_values() {
        let values = [1.into(), 2.into(), 3.into(), 4.into(), 5.into()];
        for (sql, count, expected) in [
            ("SELECT '?', \"?\", ? -- ?\n, ?", 2, "SELECT '?', \"?\", $1 -- ?\n, $2 [1 2]"),
            ("SELECT ?; SELECT ?, ?", 3, "SELECT $1 [1]; SELECT $1, $2 [2 3]"),
            ("SELECT $3, ?, $1, ?", 5, "SELECT $2, $3, $1, $4 [1 3 4 5]"),
            ("SELECT $2 + $2", 2, "SELECT $1 + $1 [2]"),
            (
                "PREPARE p AS SELECT $2, ?; EXECUTE p(?, ?)",
                2,
                "PREPARE p AS SELECT $2, ? []; EXECUTE p($1, $2) [1 2]",
            ),
            ("SELECT ?", 0, "SELECT ? []"),
        ] {
            let done = statements(sql, Given::Positional(&values[..count])).unwrap();
            assert_eq!(shown(done), expected, "{sql}");
        }
        for (sql, count) in [("SELECT 1", 1), ("SELECT ?", 2), ("SELECT $3", 2), ("SELECT $a", 1)] {
            assert!(statements(sql, Given::Positional(&values[..count])).is_err(), "{sql}");
        }
    }

    #[test]
    fn names_mean_the_same_value_everywhere() {
        let values = [("b".to_string(), 2.into()), ("a".to_string(), 1.into())];
        let done = statements("SELECT $a, $b, $a; SELECT $b", Given::Named(&values)).unwrap();
        assert_eq!(shown(done), "SELECT $1, $2, $1 [1 2]; SELECT $1 [2]");
        for sql in ["SELECT $c", "SELECT $a, ?", "SELECT $1"] {
            assert!(statements(sql, Given::Named(&values)).is_err(), "{sql}");
        }
    }
}
