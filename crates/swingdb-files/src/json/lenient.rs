//! Lines of which as much is read as can be (`ignore_errors`).
//!
//! A line that is no JSON object is a row of NULLs, a value that is none of its column's type is
//! NULL, and members that no column has are left out, as in DuckDB. A block without faults costs
//! what it costs otherwise; of another one each line is read alone.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use swingdb_common::error::{Error, Result};

use crate::text::json_scanner::{Scanned, Scanner, Token};
use crate::text::json_values::{Failure, Plan};

/// The rows of some lines, of which at least one cannot be read as the columns are.
pub(super) fn decode(
    text: &[u8],
    plan: &Plan,
    projection: Option<&[usize]>,
) -> Result<RecordBatch> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let rows = lines.map(|line| {
        let line = std::str::from_utf8(line).unwrap_or_default();
        match plan.decode(line, projection) {
            Ok(row) if row.num_rows() == 1 => Ok(row),
            _ => in_parts(line, plan, projection).map_err(failed),
        }
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let schema = match projection {
        Some(projection) => Arc::new(plan.schema.project(projection)?),
        None => Arc::clone(&plan.schema),
    };
    Ok(concat_batches(&schema, &rows)?)
}

/// The row of a line, each value on its own.
fn in_parts(
    line: &str,
    plan: &Plan,
    projection: Option<&[usize]>,
) -> std::result::Result<RecordBatch, Failure> {
    let nothing = plan.decode("{}", projection)?;
    let Ok(members) = members(line) else { return Ok(nothing) };
    let all: Vec<usize> = (0..plan.keys.len()).collect();
    let wanted = projection.unwrap_or(&all);
    let values = wanted.iter().zip(nothing.columns()).map(|(column, null)| {
        let name = plan.keys[*column].as_str();
        let read = || {
            let alone = format!("{{{}: {}}}", serde_json::Value::from(name), members.get(name)?);
            let row = plan.decode(&alone, Some(&[*column])).ok()?;
            (row.num_rows() == 1).then(|| Arc::clone(row.column(0)))
        };
        read().unwrap_or_else(|| Arc::clone(null))
    });
    let columns: Vec<ArrayRef> = values.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(nothing.schema(), columns, &options)?)
}

/// The members of the object that a line is, as they stand in the text; the last of those that have
/// a name.
fn members(line: &str) -> Scanned<HashMap<String, &str>> {
    let mut scanner = Scanner::new(line, 0);
    if !matches!(scanner.token()?, Token::Object) {
        return scanner.fault("is no JSON object");
    }
    let mut members = HashMap::new();
    let mut first = true;
    while let Some(name) = scanner.member(first)? {
        first = false;
        let token = scanner.token()?;
        let from = scanner.start_of(token);
        scanner.skip(token, 1)?;
        members.insert(name.value().into_owned(), scanner.since(from));
    }
    match scanner.line_end() {
        true => Ok(members),
        false => scanner.fault("is more than one JSON object"),
    }
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Fault(fault) => Error::internal(fault.message()),
        Failure::Late(error) => error.into(),
    }
}
