//! Comma-separated values after RFC 4180: a header, quotes where needed, NULL as an empty field and
//! the empty string as `""`, so that both come back as what they were.

use super::cells::Cells;
use crate::failure::Outcome;
use std::io::Write;
use swingdb::QueryResult;

pub fn print(sink: &mut impl Write, result: QueryResult) -> Outcome {
    let schema = result.schema();
    let mut line = String::new();
    for (i, field) in schema.fields().iter().enumerate() {
        separate(&mut line, i);
        quote(field.name(), &mut line);
    }
    finish(sink, &mut line)?;
    let mut text = String::new();
    for batch in result {
        let batch = batch?;
        let cells = Cells::new(&batch)?;
        for row in 0..batch.num_rows() {
            for column in 0..batch.num_columns() {
                separate(&mut line, column);
                if !cells.is_null(row, column) {
                    text.clear();
                    cells.write(row, column, &mut text);
                    quote(&text, &mut line);
                }
            }
            finish(sink, &mut line)?;
        }
    }
    Ok(())
}

fn separate(line: &mut String, column: usize) {
    if column > 0 {
        line.push(',');
    }
}

fn finish(sink: &mut impl Write, line: &mut String) -> Outcome {
    line.push('\n');
    sink.write_all(line.as_bytes())?;
    line.clear();
    Ok(())
}

fn quote(text: &str, line: &mut String) {
    let needed = text.is_empty()
        || text.contains([',', '"', '\n', '\r'])
        || text.starts_with([' ', '\t'])
        || text.ends_with([' ', '\t']);
    if !needed {
        line.push_str(text);
        return;
    }
    line.push('"');
    for c in text.chars() {
        if c == '"' {
            line.push('"');
        }
        line.push(c);
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        for (text, expected) in [
            ("a", "a"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            (" a", "\" a\""),
            ("a b", "a b"),
        ] {
            let mut line = String::new();
            quote(text, &mut line);
            assert_eq!(line, expected);
        }
    }
}
