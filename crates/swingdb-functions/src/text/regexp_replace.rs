//! `regexp_replace(text, pattern, to, flags)` as the engine has it, with `to` and the flags read as
//! PostgreSQL and DuckDB read them.
//!
//! In `to`, `\1` is what a group matched, `\0` and `\&` are all that matched, `\\` is a backslash,
//! and all else is itself. The engine's own takes `$1` and `$name` for groups too, and the `12` of
//! `\12` for one number. Flags are `g` (all matches), `i` and `c` (the case), `s` and `n` (whether
//! a point matches a new line), `m` (lines have a begin and an end), `l` (the pattern is no
//! pattern).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::regex::regexp_replace;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Text of a place that is empty always: no pattern has a group so named.
const NOTHING: &str = "${nothing_at_all}";

/// The function in place of the engine's.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Replace { engines: regexp_replace() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Replace {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Replace {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn signature(&self) -> &Signature {
        self.engines.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engines.inner().return_type(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let alternatives = match args.args.get(1) {
            Some(ColumnarValue::Scalar(pattern)) => {
                pattern.try_as_str().flatten().is_some_and(|pattern| pattern.contains('|'))
            }
            _ => true,
        };
        if let [_, _, to, ..] = args.args.as_mut_slice() {
            *to = changed(to, &|to| Ok(replacement(to, alternatives)))?;
        }
        if let [_, pattern, _, flags] = args.args.as_mut_slice() {
            let literal = match &*flags {
                ColumnarValue::Scalar(flags) => {
                    flags.try_as_str().flatten().is_some_and(|flags| flags.contains('l'))
                }
                ColumnarValue::Array(_) => false,
            };
            if literal {
                *pattern = changed(pattern, &|pattern| Ok(Cow::Owned(regex::escape(pattern))))?;
            }
            *flags = changed(flags, &|flags| engines_flags(flags, literal))?;
        }
        self.engines.invoke_with_args(args)
    }
}

/// Values with each text changed.
fn changed<'a>(
    values: &'a ColumnarValue,
    change: &dyn Fn(&str) -> Result<Cow<'_, str>>,
) -> Result<ColumnarValue> {
    Ok(match values {
        ColumnarValue::Scalar(value) => match value.try_as_str().flatten() {
            Some(text) => {
                let text = ScalarValue::Utf8(Some(change(text)?.into_owned()));
                ColumnarValue::Scalar(text.cast_to(&value.data_type())?)
            }
            None => values.clone(),
        },
        ColumnarValue::Array(array) => {
            let texts = cast(array, &DataType::Utf8View)?;
            let texts = texts.as_string_view().iter();
            let texts = texts.map(|text| text.map(change).transpose());
            let texts: ArrayRef = Arc::new(texts.collect::<Result<StringViewArray>>()?);
            ColumnarValue::Array(cast(&texts, array.data_type())?)
        }
    })
}

/// What the engine takes for a text to put in place of a match.
///
/// It reads `^(a).*$` to be replaced by group 1 as the match of `^(a)` alone, which is not so where
/// the pattern has alternatives: there an empty place keeps it from that.
fn replacement(to: &str, alternatives: bool) -> Cow<'_, str> {
    if !to.contains(['\\', '$']) {
        return Cow::Borrowed(to);
    }
    let mut made = String::with_capacity(to.len() + 8);
    let mut rest = to.chars().peekable();
    while let Some(char) = rest.next() {
        match (char, rest.peek()) {
            ('$', _) => made.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                made.push_str("${");
                made.push(*digit);
                made.push('}');
                rest.next();
            }
            ('\\', Some('&')) => {
                made.push_str("${0}");
                rest.next();
            }
            ('\\', next) => {
                if next == Some(&'\\') {
                    rest.next();
                }
                made.push('\\');
                // The engine would take it for a group.
                if rest.peek().is_some_and(char::is_ascii_digit) {
                    made.push_str(NOTHING);
                }
            }
            (char, _) => made.push(char),
        }
    }
    if alternatives {
        made.push_str(NOTHING);
    }
    Cow::Owned(made)
}

/// The engine's flags for those of a call.
fn engines_flags(flags: &str, literal: bool) -> Result<Cow<'_, str>> {
    let (mut all, mut ignores_case, mut others) = (false, false, String::new());
    for flag in flags.chars() {
        match flag {
            'g' => all = true,
            'i' => ignores_case = true,
            'c' => ignores_case = false,
            's' | 'm' | 'x' | 'U' | 'R' if !others.contains(flag) => others.push(flag),
            's' | 'm' | 'x' | 'U' | 'R' | 'n' | 'p' | ' ' => {}
            'l' if literal => {}
            'l' => return exec_err!("the flag l of regexp_replace is no constant"),
            other => return exec_err!("regexp_replace takes the flags cgilmnps, not {other:?}"),
        }
    }
    if ignores_case {
        others.push('i');
    }
    // Without any flag the engine would begin a group of none.
    if others.is_empty() && !all {
        others.push('u');
    }
    Ok(Cow::Owned(if all { others + "g" } else { others }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_backslash_means_more_than_itself() {
        for (given, engines) in [
            ("plain", "plain"),
            ("$1 ${name}", "$$1 $${name}"),
            (r"<\1>", "<${1}>"),
            (r"\12", "${1}2"),
            (r"\0\&", "${0}${0}"),
            (r"a\\b", r"a\b"),
            (r"a\\1", r"a\${nothing_at_all}1"),
            (r"\\\\1", r"\\${nothing_at_all}1"),
            (r"a\x\", r"a\x\"),
        ] {
            assert_eq!(replacement(given, false), engines, "{given}");
        }
        assert_eq!(replacement(r"\1", true), "${1}${nothing_at_all}");
    }

    #[test]
    fn flags() {
        for (given, engines) in [("", "u"), ("g", "g"), ("gi", "ig"), ("ic", "u"), ("nps", "s")] {
            assert_eq!(engines_flags(given, false).unwrap(), engines, "{given}");
        }
        assert!(engines_flags("k", false).is_err() && engines_flags("l", false).is_err());
    }
}
