//! Functions that take long for a batch of rows, or much memory, a few rows at a time.
//!
//! The engine's functions keep every pattern of a batch compiled, and one takes up to some
//! megabytes. Where the patterns are a column, [`in_slices`] gives a function the rows of
//! [`PATTERNS`] different ones at a time.
//!
//! A statement that is to end stops between two batches. A function that may take long for one, as
//! `levenshtein` of long texts does, gets it in slices that each take a moment, and stops between
//! these.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{Array, AsArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use swingdb_common::runtime::cancel;

/// Patterns that are compiled at one time.
const PATTERNS: usize = 16;
/// What a slice may take, in steps of some nanoseconds.
const STEPS: u64 = 10_000_000;
/// Steps that a regular expression takes for a character.
const STEPS_OF_PATTERN: u64 = 16;

/// What a row takes, of texts of these lengths.
type Cost = fn(u64, u64) -> u64;

/// How long a function of the engine takes; `None` of one that is fast.
fn cost(name: &str) -> Option<Cost> {
    match name {
        "levenshtein" => Some(|one, other| one.saturating_mul(other)),
        _ if takes_pattern(name) => Some(|text, _| text.saturating_mul(STEPS_OF_PATTERN)),
        _ => None,
    }
}

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
    let Some(cost) = cost(function.name()) else { return Ok(None) };
    let mut slices = Vec::from([Range { start: 0, end: args.number_rows }]);
    if let Some(ColumnarValue::Array(patterns)) = args.args.get(1)
        && takes_pattern(function.name())
    {
        slices = of_few_patterns(patterns.as_ref())?;
    }
    if let [one, other, ..] = args.args.as_slice()
        && (matches!(one, ColumnarValue::Array(_)) || matches!(other, ColumnarValue::Array(_)))
    {
        let (one, other) = (lengths(one)?, lengths(other)?);
        let steps = |row: usize| cost(one(row), other(row));
        slices = slices.into_iter().flat_map(|rows| of_few_steps(rows, &steps)).collect();
    }
    if slices.len() <= 1 {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(slices.len());
    for rows in slices {
        cancel::check()?;
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

/// The bytes of the text of a row.
fn lengths(texts: &ColumnarValue) -> Result<Box<dyn Fn(usize) -> u64>> {
    Ok(match texts {
        ColumnarValue::Scalar(value) => {
            let length = value.try_as_str().flatten().map_or(0, |text| text.len() as u64);
            Box::new(move |_| length)
        }
        ColumnarValue::Array(array) if array.data_type().is_string() => {
            let views = cast(array, &DataType::Utf8View)?.as_string_view().views().clone();
            // The lower half of a view is the length of its text; that of a NULL may be any.
            Box::new(move |row| u64::from(views[row] as u32))
        }
        ColumnarValue::Array(_) => Box::new(|_| 0),
    })
}

/// Rows in pieces that take a moment each.
fn of_few_steps(rows: Range<usize>, steps: &dyn Fn(usize) -> u64) -> Vec<Range<usize>> {
    let (mut found, mut start, mut taken) = (Vec::new(), rows.start, 0_u64);
    for row in rows.clone() {
        let next = steps(row);
        if row > start && taken.saturating_add(next) > STEPS {
            found.push(start..row);
            (start, taken) = (row, 0);
        }
        taken = taken.saturating_add(next);
    }
    found.push(start..rows.end);
    found
}

/// Rows that have at most so many patterns together.
fn of_few_patterns(patterns: &dyn Array) -> Result<Vec<Range<usize>>> {
    let texts = cast(patterns, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
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
        assert_eq!(of_few_patterns(&same).unwrap(), vec![Range { start: 0, end: 300 }]);
        let differ = StringArray::from_iter_values((0..40).map(|n| n.to_string()));
        assert_eq!(of_few_patterns(&differ).unwrap(), [0..16, 16..32, 32..40]);
        assert_eq!(
            of_few_patterns(&StringArray::from(vec![None::<&str>; 2])).unwrap(),
            vec![Range { start: 0, end: 2 }]
        );
    }

    #[test]
    fn slices_take_a_moment_each() {
        let steps = |row: usize| if row == 2 { 2 * STEPS } else { STEPS / 2 };
        assert_eq!(of_few_steps(0..6, &steps), [0..2, 2..3, 3..5, 5..6]);
        assert_eq!(of_few_steps(3..4, &steps), vec![Range { start: 3, end: 4 }]);
        assert_eq!(of_few_steps(0..0, &steps), vec![Range { start: 0, end: 0 }]);
        assert_eq!(of_few_steps(0..100, &|_| 1), vec![Range { start: 0, end: 100 }]);
    }

    /// Texts that two rows take long for are compared a row at a time, unless the statement is to
    /// end.
    #[test]
    fn a_statement_that_is_to_end_stops_between_slices() {
        use std::sync::Arc;

        use arrow::datatypes::Field;
        use datafusion::config::ConfigOptions;

        use swingdb_common::error::Error;
        use swingdb_common::runtime::cancel::{Running, stoppable};

        let function = datafusion::functions::string::levenshtein();
        let text = "x".repeat(4_000);
        let texts: arrow::array::ArrayRef = Arc::new(StringArray::from(vec![text; 3]));
        let result = Arc::new(Field::new("", DataType::Int32, true));
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::clone(&texts)), ColumnarValue::Array(texts)],
            arg_fields: Vec::new(),
            number_rows: 3,
            return_field: result,
            config_options: Arc::new(ConfigOptions::default()),
        };
        let running = Arc::new(Running::default());
        let token = running.start(None);
        let compute = || Ok(in_slices(&function, &args)?);
        let found = stoppable(&token, compute).unwrap().unwrap().to_array(3).unwrap();
        let distances = found.as_primitive::<arrow::datatypes::Int32Type>();
        assert_eq!(distances.values().to_vec(), [0, 0, 0]);
        running.handle().interrupt();
        assert!(matches!(stoppable(&token, compute), Err(Error::Interrupted)));
    }
}
