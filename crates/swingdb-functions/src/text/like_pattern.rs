//! `like_pattern(pattern, escape)`: the pattern with backslashes in place of another character that
//! escapes, as the engine's LIKE wants it.

use std::sync::Arc;

use arrow::array::{AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Its name.
pub const LIKE_PATTERN: &str = "like_pattern";

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    [ScalarUDF::new_from_impl(LikePattern { signature })].into_iter()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LikePattern {
    signature: Signature,
}

impl ScalarUDFImpl for LikePattern {
    fn name(&self) -> &str {
        LIKE_PATTERN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let texts = |at: usize| cast(&args.args[at].to_array(rows)?, &DataType::Utf8);
        let (patterns, escapes) = (texts(0)?, texts(1)?);
        let both = patterns.as_string::<i32>().iter().zip(escapes.as_string::<i32>());
        let found = both.map(|(pattern, escape)| match (pattern, escape) {
            (Some(pattern), Some(escape)) => with_backslashes(pattern, escape).map(Some),
            _ => Ok(None),
        });
        let found: StringArray = found.collect::<Result<_>>()?;
        crate::args::as_given(&args, Arc::new(found))
    }
}

/// The pattern; an empty escape escapes nothing.
fn with_backslashes(pattern: &str, escape: &str) -> Result<String> {
    let mut chars = escape.chars();
    let (escape, None) = (chars.next(), chars.next()) else {
        return exec_err!("ESCAPE takes one character");
    };
    let mut plain = String::with_capacity(pattern.len() + 2);
    let mut given = pattern.chars();
    while let Some(char) = given.next() {
        match char {
            _ if Some(char) == escape => match given.next() {
                Some(next) => plain.extend(['\\', next]),
                None => return exec_err!("a LIKE pattern ends with its escape character"),
            },
            '\\' => plain.push_str("\\\\"),
            _ => plain.push(char),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_backslashes() {
        for (pattern, escape, expected) in [
            ("pg/_%", "/", "pg\\_%"),
            ("a//b", "/", "a\\/b"),
            ("a\\b%", "/", "a\\\\b%"),
            ("a/\\", "/", "a\\\\"),
            ("a/b", "", "a/b"),
        ] {
            assert_eq!(with_backslashes(pattern, escape).unwrap(), expected);
        }
        assert!(with_backslashes("a/", "/").is_err() && with_backslashes("a", "//").is_err());
    }
}
