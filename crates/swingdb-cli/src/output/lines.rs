//! One value a line: `name = value`, a blank line between rows. For rows with many columns.

use super::cells::{Cells, one_line};
use super::plan;
use crate::failure::Outcome;
use std::io::Write;
use swingdb::QueryResult;
use unicode_width::UnicodeWidthStr;

pub fn print(sink: &mut impl Write, result: QueryResult, null: &str) -> Outcome {
    let schema = result.schema();
    let names: Vec<_> =
        schema.fields().iter().map(|field| one_line(field.name().clone())).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let mut first = true;
    for batch in result {
        let batch = batch?;
        let cells = Cells::with_null(&batch, null)?;
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut first) {
                writeln!(sink)?;
            }
            for (column, name) in names.iter().enumerate() {
                let blanks = " ".repeat(width - name.width());
                writeln!(sink, "{blanks}{name} = {}", cells.shown(row, column))?;
            }
        }
    }
    Ok(())
}

/// The plans of an EXPLAIN: what each is, then its text, line by line. Those of EXPLAIN ANALYZE are
/// trees, unless VERBOSE asks for all that is known.
pub fn plan(sink: &mut impl Write, result: QueryResult) -> Outcome {
    let mut plans = Vec::new();
    for batch in result {
        let batch = batch?;
        let cells = Cells::new(&batch)?;
        for row in 0..batch.num_rows() {
            let last = batch.num_columns().saturating_sub(1);
            let mut kind = String::new();
            (0..last).for_each(|column| cells.write(row, column, &mut kind));
            let mut text = String::new();
            cells.write(row, last, &mut text);
            plans.push((kind, text));
        }
    }
    let verbose = plans.iter().any(|(kind, _)| kind == plan::VERBOSE);
    for (kind, text) in plans {
        writeln!(sink, "{kind}")?;
        let lines = match !verbose && kind == plan::WITH_METRICS {
            true => plan::tree(&text),
            false => text.lines().map(str::to_string).collect(),
        };
        lines.iter().try_for_each(|line| writeln!(sink, "  {line}"))?;
    }
    Ok(())
}
