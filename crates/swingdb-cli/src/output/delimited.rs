//! Values separated by commas or tabs, after RFC 4180: a header, quotes where needed, NULL as an
//! empty field (or as the text that was chosen for it) and the empty string as `""`, so that both
//! come back as what they were.

use super::cells::Cells;
use crate::failure::Outcome;
use std::io::Write;
use swingdb::QueryResult;

/// Prints a result; `null` is the text for NULL, which no value has without quotes.
pub fn print(
    sink: &mut impl Write,
    result: QueryResult,
    separator: char,
    null: Option<&str>,
) -> Outcome {
    let form = Form { separator, null: null.unwrap_or_default() };
    let schema = result.schema();
    let mut line = String::new();
    for (i, field) in schema.fields().iter().enumerate() {
        form.separate(&mut line, i);
        form.quote(field.name(), &mut line);
    }
    finish(sink, &mut line)?;
    let mut text = String::new();
    for batch in result {
        let batch = batch?;
        let cells = Cells::new(&batch)?;
        for row in 0..batch.num_rows() {
            for column in 0..batch.num_columns() {
                form.separate(&mut line, column);
                if cells.is_null(row, column) {
                    line.push_str(form.null);
                } else {
                    text.clear();
                    cells.write(row, column, &mut text);
                    form.quote(&text, &mut line);
                }
            }
            finish(sink, &mut line)?;
        }
    }
    Ok(())
}

fn finish(sink: &mut impl Write, line: &mut String) -> Outcome {
    line.push('\n');
    sink.write_all(line.as_bytes())?;
    line.clear();
    Ok(())
}

struct Form<'a> {
    separator: char,
    null: &'a str,
}

impl Form<'_> {
    fn separate(&self, line: &mut String, column: usize) {
        if column > 0 {
            line.push(self.separator);
        }
    }

    fn quote(&self, text: &str, line: &mut String) {
        let needed = text.is_empty()
            || text == self.null
            || text.contains([self.separator, '"', '\n', '\r'])
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        for (text, separator, expected) in [
            ("a", ',', "a"),
            ("", ',', "\"\""),
            ("a,b", ',', "\"a,b\""),
            ("a,b", '\t', "a,b"),
            ("a\tb", '\t', "\"a\tb\""),
            ("NA", ',', "\"NA\""),
            ("say \"x\"", ',', "\"say \"\"x\"\"\""),
            ("two\nlines", ',', "\"two\nlines\""),
            (" a", ',', "\" a\""),
            ("a b", ',', "a b"),
        ] {
            let mut line = String::new();
            Form { separator, null: "NA" }.quote(text, &mut line);
            assert_eq!(line, expected);
        }
    }
}
