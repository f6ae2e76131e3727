//! Regular expressions that differ from row to row, a few at a time.
//!
//! The engine's functions keep every pattern of a batch compiled, and one takes up to some
//! megabytes. Where the patterns are a column, [`in_slices`] gives a function the rows of
//! [`PATTERNS`] different ones at a time.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::Array;
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

/// Patterns that are compiled at one time.
const PATTERNS: usize = 16;

/// Whether the second argument of a function of the engine is a regular expression.
pub(super) fn takes_pattern(name: &str) -> bool {
    matches!(
        name,
        "regexp_like" | "regexp_match" | "regexp_count" | "regexp_instr" | "regexp_replace"
    )
}

/// The function's result, computed in slices of rows; `None` where one slice is enough.
pub(super) fn in_slices(
    function: &ScalarUDF,
    args: &ScalarFunctionArgs,
) -> Result<Option<ColumnarValue>> {
    let Some(ColumnarValue::Array(patterns)) = args.args.get(1) else { return Ok(None) };
    let slices = slices(patterns.as_ref())?;
    if slices.len() <= 1 {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(slices.len());
    for rows in slices {
        let of_rows = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => {
                ColumnarValue::Array(array.slice(rows.start, rows.len()))
            }
            same => same.clone(),
        });
        let part =
            ScalarFunctionArgs { args: of_rows.collect(), number_rows: rows.len(), ..args.clone() };
        parts.push(function.invoke_with_args(part)?.to_array(rows.len())?);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
    Ok(Some(ColumnarValue::Array(concat(&parts)?)))
}

/// Rows that have at most so many patterns together.
fn slices(patterns: &dyn Array) -> Result<Vec<Range<usize>>> {
    let texts = cast(patterns, &DataType::Utf8View)?;
    let texts = arrow::array::AsArray::as_string_view(&texts);
    let (mut found, mut start, mut known) = (Vec::new(), 0, HashSet::new());
    for (row, text) in texts.iter().enumerate() {
        let Some(text) = text else { continue };
        if known.len() == PATTERNS && !known.contains(text) {
            found.push(start..row);
            start = row;
            known.clear();
        }
        known.insert(text);
    }
    found.push(start..texts.len());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn rows_of_few_patterns_stay_together() {
        let same = StringArray::from([Some("a"), None, Some("b")].repeat(100));
        assert_eq!(slices(&same).unwrap(), vec![Range { start: 0, end: 300 }]);
        let differ = StringArray::from_iter_values((0..40).map(|n| n.to_string()));
        assert_eq!(slices(&differ).unwrap(), [0..16, 16..32, 32..40]);
        assert_eq!(
            slices(&StringArray::from(vec![None::<&str>; 2])).unwrap(),
            vec![Range { start: 0, end: 2 }]
        );
    }
}
