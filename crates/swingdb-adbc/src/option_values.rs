//! Values of options: texts and truth values.

use adbc_core::options::OptionValue;

use crate::error::{Result, argument};

/// The text of an option.
pub(crate) fn text<'a>(key: &str, value: &'a OptionValue) -> Result<&'a str> {
    match value {
        OptionValue::String(text) => Ok(text),
        _ => Err(argument(format!("the option {key:?} is a text"))),
    }
}

/// The truth value of an option.
pub(crate) fn flag(key: &str, value: &OptionValue) -> Result<bool> {
    match text(key, value)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => {
            Err(argument(format!("the option {key:?} is \"true\" or \"false\", not {other:?}")))
        }
    }
}
