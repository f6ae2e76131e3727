//! A Markdown table, for reports and issues.

use super::cells::{Cells, is_number, one_line};
use crate::failure::Outcome;
use std::io::Write;
use swingdb::QueryResult;

pub fn print(sink: &mut impl Write, result: QueryResult, null: &str) -> Outcome {
    let schema = result.schema();
    let fields = schema.fields();
    let names: Vec<_> =
        fields.iter().map(|field| escape(&one_line(field.name().clone()))).collect();
    writeln!(sink, "| {} |", names.join(" | "))?;
    let rule = |number| if number { "---:" } else { "---" };
    let rules: Vec<_> = fields.iter().map(|field| rule(is_number(field.data_type()))).collect();
    writeln!(sink, "|{}|", rules.join("|"))?;
    for batch in result {
        let batch = batch?;
        let cells = Cells::with_null(&batch, null)?;
        for row in 0..batch.num_rows() {
            let line: Vec<_> =
                (0..batch.num_columns()).map(|column| escape(&cells.shown(row, column))).collect();
            writeln!(sink, "| {} |", line.join(" | "))?;
        }
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_do_not_end_a_cell() {
        assert_eq!(super::escape("a|b\\"), "a\\|b\\\\");
    }
}
