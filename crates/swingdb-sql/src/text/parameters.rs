//! Parameters of a statement: `?`, `$1` and `$name`, all numbered before anything else looks at
//! them.
//!
//! Every `?` of a text becomes `$1`, `$2`, ... in order of appearance before it is parsed, since
//! the parts of a syntax tree stand in another order than those of the text: [`number_tokens`]. The
//! dispatcher does the same to names (equal names get equal numbers), so that what follows may
//! reorder expressions. [`Params`] holds the values in that order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Value::Placeholder;
use datafusion::sql::sqlparser::ast::{ValueWithSpan, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use swingdb_common::error::{Error, Result};
use swingdb_common::value::Value;

use crate::ast::walk::walk_mut;

/// The values of a statement's parameters.
#[derive(Clone, Debug, Default)]
pub struct Params {
    positional: Vec<ScalarValue>,
    named: BTreeMap<String, ScalarValue>,
}

impl Params {
    /// Values for `?` and `$1`, `$2`, ...
    pub fn positional(values: &[Value]) -> Self {
        Self { positional: values.iter().map(Value::to_scalar).collect(), named: BTreeMap::new() }
    }

    /// The same, of values that are the engine's already.
    pub fn of_scalars(values: Vec<ScalarValue>) -> Self {
        Self { positional: values, named: BTreeMap::new() }
    }

    /// Values for `$name`.
    pub fn named<S: AsRef<str>>(values: &[(S, Value)]) -> Self {
        let values = values.iter();
        let named = values.map(|(name, v)| (name.as_ref().to_string(), v.to_scalar())).collect();
        Self { positional: Vec::new(), named }
    }

    /// The same values as the numbers of a text ask for them.
    pub fn in_numbering(self, numbering: &Numbering) -> Result<Self> {
        match numbering.names.is_empty() {
            true => self.of_count(numbering.count),
            false => self.in_order(&numbering.names),
        }
    }

    /// The same values for a statement whose names have been numbered in the order of `names`.
    fn in_order(mut self, names: &[String]) -> Result<Self> {
        let values = names.iter().map(|name| {
            let missing = || Error::plan(format!("no value was given for parameter ${name}"));
            self.named.remove(name).ok_or_else(missing)
        });
        let positional = values.collect::<Result<Vec<_>>>()?;
        Ok(Self { positional, named: BTreeMap::new() })
    }

    /// The same values, when they are as many as the statements have parameters.
    pub(crate) fn of_count(self, count: usize) -> Result<Self> {
        let given = self.positional.len();
        match given == count {
            true => Ok(self),
            false => Err(Error::plan(format!(
                "the number of parameters is {count}, the number of values given is {given}"
            ))),
        }
    }

    /// The value of a placeholder as the rewritten statement spells it: `$1`, `$2`, ...
    pub fn get(&self, placeholder: &str) -> Result<&ScalarValue> {
        placeholder
            .strip_prefix('$')
            .and_then(|n| n.parse::<usize>().ok())
            .and_then(|n| self.positional.get(n.checked_sub(1)?))
            .ok_or_else(|| Error::plan(format!("no value was given for parameter {placeholder}")))
    }

    /// The types of all values, the first being that of `$1`.
    pub fn types(&self) -> Vec<DataType> {
        self.positional.iter().map(ScalarValue::data_type).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positional.is_empty() && self.named.is_empty()
    }

    /// All values, the first being `$1`'s.
    pub(crate) fn values(&self) -> &[ScalarValue] {
        &self.positional
    }
}

/// How the parameters of a text were numbered.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    /// Values that are wanted.
    pub count: usize,
    /// The names of named ones, in the order of their numbers.
    pub names: Vec<String>,
}

/// Numbers the `?` of a text, each above all numbers before it. Those of a PREPARE are numbered for
/// themselves: they get their values from EXECUTE.
pub(crate) fn number_tokens(tokens: &mut [TokenWithSpan]) {
    let (mut next, mut outside) = (1_usize, None);
    let mut is_first = true;
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::Whitespace(_) => continue,
            Token::SemiColon => next = outside.take().unwrap_or(next),
            Token::Word(word) if is_first && word.value.eq_ignore_ascii_case("prepare") => {
                outside = Some(std::mem::replace(&mut next, 1));
            }
            Token::Placeholder(text) => match text.strip_prefix('$').map(str::parse) {
                Some(Ok(number)) => next = next.max(usize::saturating_add(number, 1)),
                _ if text == "?" => {
                    *text = format!("${next}");
                    next += 1;
                }
                _ => {}
            },
            _ => {}
        }
        is_first = *token == Token::SemiColon;
    }
}

/// Numbers the parameters of a statement that have names: `$name` as `$1`, `$2` ... `next` gets
/// above all numbers that are written, or that stand for `?`; `names` collects the names in the
/// order of their numbers.
pub fn number_parameters<T: VisitMut>(
    tree: &mut T,
    next: &mut usize,
    names: &mut Vec<String>,
) -> Result<()> {
    struct Numberer<'a> {
        next: &'a mut usize,
        names: &'a mut Vec<String>,
    }
    impl Numberer<'_> {
        fn number(&mut self, text: &mut String) {
            if let Some(number) = text.strip_prefix('$').and_then(|n| n.parse().ok()) {
                *self.next = (*self.next).max(usize::saturating_add(number, 1));
            } else if let Some(name) = text.strip_prefix(['$', ':', '@']) {
                let known = self.names.iter().position(|n| n == name);
                let index = known.unwrap_or_else(|| {
                    self.names.push(name.to_string());
                    self.names.len() - 1
                });
                *text = format!("${}", index + 1);
            }
        }
    }
    impl VisitorMut for Numberer<'_> {
        type Break = ();
        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
            if let Placeholder(text) = &mut value.value {
                self.number(text);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = walk_mut(tree, &mut Numberer { next, names });
    if *next > 1 && !names.is_empty() {
        return Err(Error::plan("a statement has either ? or named parameters, not both"));
    }
    Ok(())
}

/// Refuses parameters in what is kept as text, which has no place for their values.
pub(crate) fn refuse_parameters<T: VisitMut>(tree: &mut T, what: &str) -> Result<()> {
    struct Finder(Option<String>);
    impl VisitorMut for Finder {
        type Break = ();
        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
            match &value.value {
                Placeholder(text) => {
                    self.0 = Some(text.clone());
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut finder = Finder(None);
    let _ = walk_mut(tree, &mut finder);
    match finder.0 {
        None => Ok(()),
        Some(text) => Err(Error::plan(format!(
            "parameter {text}: {what} takes none; write the value in its place"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn numbered(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&DIALECT, sql).tokenize_with_location().unwrap();
        number_tokens(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn question_marks_in_order_of_appearance() {
        for (given, expected) in [
            ("FROM t OFFSET ? LIMIT ?", "FROM t OFFSET $1 LIMIT $2"),
            ("SELECT '?', \"?\", ?; SELECT ?", "SELECT '?', \"?\", $1; SELECT $2"),
            ("SELECT $3, ?, $1, ?, $name", "SELECT $3, $4, $1, $5, $name"),
            (
                "SELECT ?; PREPARE p AS SELECT ?, ?; EXECUTE p(?, ?)",
                "SELECT $1; PREPARE p AS SELECT $1, $2; EXECUTE p($2, $3)",
            ),
        ] {
            assert_eq!(numbered(given), expected);
        }
    }

    #[test]
    fn as_many_values_as_parameters() {
        let values = [Value::from(1), Value::from("two")];
        assert_eq!(Params::positional(&values).of_count(2).map(|p| p.values().len()).ok(), Some(2));
        for count in [0, 1, 3] {
            let refused = Params::positional(&values).of_count(count);
            assert!(matches!(refused, Err(Error::Plan { .. })), "{count}");
        }
    }
}
