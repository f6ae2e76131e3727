//! `regexp_extract(text, pattern, group, options)`: what a pattern, or a group of it, matches
//! first.
//!
//! A group that takes no part in the match, or that the pattern does not have, is the empty text;
//! so is a text without a match.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::text::patterns::compiled;

/// Greatest number of a group.
const MAX_GROUP: i64 = 9;
/// Different patterns that are kept ready during one call.
const MAX_KEPT: usize = 256;

/// The function.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Extract { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extract {
    signature: Signature,
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        "regexp_extract"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        const TAKES: &str =
            "regexp_extract takes a text, a pattern, and perhaps a number of a group and options";
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        let fits = match types {
            [text, pattern, more @ ..] if is_text(text) && is_text(pattern) => match more {
                [] => true,
                [group] => group.is_integer() || group.is_null(),
                [group, options] => (group.is_integer() || group.is_null()) && options.is_string(),
                _ => false,
            },
            _ => false,
        };
        if fits { Ok(DataType::Utf8View) } else { plan_err!("{TAKES}") }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let column = |place: usize, of: &DataType| -> Result<Option<ArrayRef>> {
            args.args.get(place).map(|arg| Ok(cast(&arg.to_array(rows)?, of)?)).transpose()
        };
        let texts = |place| column(place, &DataType::Utf8View);
        let (Some(given), Some(patterns)) = (texts(0)?, texts(1)?) else {
            return plan_err!("regexp_extract takes a text and a pattern");
        };
        let (groups, options) = (column(2, &DataType::Int64)?, texts(3)?);
        let (given, patterns) = (given.as_string_view(), patterns.as_string_view());
        let mut known = HashMap::new();
        let mut made = StringViewBuilder::with_capacity(rows);
        for row in 0..rows {
            let (Some(text), Some(pattern)) = (value(given, row), value(patterns, row)) else {
                made.append_null();
                continue;
            };
            let options = match &options {
                Some(options) => match value(options.as_string_view(), row) {
                    Some(options) => options,
                    None => return exec_err!("the options of regexp_extract are NULL"),
                },
                None => "",
            };
            let group = match &groups {
                Some(groups) if groups.is_null(row) => {
                    made.append_value("");
                    continue;
                }
                Some(groups) => group(groups.as_primitive::<Int64Type>().value(row))?,
                None => 0,
            };
            if known.len() == MAX_KEPT && !known.contains_key(&(pattern, options)) {
                known.clear();
            }
            let regex = match known.entry((pattern, options)) {
                std::collections::hash_map::Entry::Occupied(regex) => regex.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(compiled(self.name(), pattern, options)?)
                }
            };
            let found = regex.captures(text).and_then(|found| found.get(group));
            made.append_value(found.map_or("", |found| found.as_str()));
        }
        crate::args::as_given(&args, Arc::new(made.finish()))
    }
}

fn value(texts: &StringViewArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}

fn group(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(group) if number <= MAX_GROUP => Ok(group),
        _ => exec_err!("regexp_extract takes groups from 0 to {MAX_GROUP}, not {number}"),
    }
}
