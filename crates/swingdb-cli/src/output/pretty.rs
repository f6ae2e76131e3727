//! A table for people.
//!
//! Of a long result the first and the last rows are shown; what lies between is counted and not
//! kept, so that memory is bounded whatever the size. Columns are as wide as their widest value
//! shown, and shortened when the terminal is narrower.

use super::cells::{Cells, is_number};
use crate::failure::Outcome;
use crate::units;
use std::collections::VecDeque;
use std::io::Write;
use swingdb::QueryResult;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No value is shown wider than this.
const MAX_CELL_WIDTH: usize = 120;
/// No column is made narrower than this to fit the terminal.
const MIN_CELL_WIDTH: usize = 8;

/// The rows to show.
struct ShownRows {
    first: Vec<Vec<String>>,
    last: VecDeque<Vec<String>>,
    /// Most rows in each of the two.
    half: usize,
    total: u64,
}

impl ShownRows {
    fn push(&mut self, row: impl FnOnce() -> Vec<String>) {
        self.total += 1;
        if self.first.len() < self.half {
            self.first.push(row());
            return;
        }
        if self.last.len() == self.half {
            self.last.pop_front();
        }
        self.last.push_back(row());
    }
}

/// Prints a result, at most `max_rows` rows of it (0: all).
pub fn print(
    sink: &mut impl Write,
    result: QueryResult,
    max_rows: usize,
    width: Option<usize>,
) -> Outcome {
    let schema = result.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let right: Vec<_> = schema.fields().iter().map(|f| is_number(f.data_type())).collect();
    let half = if max_rows == 0 { usize::MAX } else { max_rows.div_ceil(2) };
    let mut kept = ShownRows { first: Vec::new(), last: VecDeque::new(), half, total: 0 };
    for batch in result {
        let batch = batch?;
        let cells = Cells::new(&batch)?;
        // Rows that later ones of the same batch push out again need no text.
        let skip = batch.num_rows().saturating_sub(half);
        for row in 0..batch.num_rows() {
            if kept.first.len() == half && row < skip {
                kept.total += 1;
                continue;
            }
            kept.push(|| (0..names.len()).map(|column| cells.shown(row, column)).collect());
        }
    }
    let shown = (kept.first.len() + kept.last.len()) as u64;
    let hidden = kept.total - shown;
    let gap = (hidden > 0).then_some(kept.first.len());
    let rows: Vec<_> = kept.first.into_iter().chain(kept.last).collect();
    table(sink, &names, &rows, &right, gap, width)?;
    let mut note = units::rows(kept.total);
    if hidden > 0 {
        note = format!("{note} ({} shown)", units::grouped(shown));
    }
    writeln!(sink, "{note}")?;
    Ok(())
}

/// Prints a table of texts, such as a listing; `right` says which columns stand at the right.
pub fn fixed_table(
    sink: &mut impl Write,
    names: &[&str],
    rows: &[Vec<String>],
    right: &[bool],
) -> Outcome {
    let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
    table(sink, &names, rows, right, None, None)
}

fn table(
    sink: &mut impl Write,
    names: &[String],
    rows: &[Vec<String>],
    right: &[bool],
    gap: Option<usize>,
    terminal: Option<usize>,
) -> Outcome {
    let widths = widths(names, rows, terminal);
    let rule = |left: &str, middle: &str, end: &str| {
        let parts: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{end}", parts.join(middle))
    };
    let line = |cells: &[String], right: &[bool]| {
        let fitted = cells.iter().zip(&widths).zip(right);
        let fitted = fitted.map(|((cell, width), right)| fit(cell, *width, *right));
        format!("│ {} │", fitted.collect::<Vec<_>>().join(" │ "))
    };
    writeln!(sink, "{}", rule("┌", "┬", "┐"))?;
    writeln!(sink, "{}", line(names, &vec![false; names.len()]))?;
    writeln!(sink, "{}", rule("├", "┼", "┤"))?;
    for (i, row) in rows.iter().enumerate() {
        if gap == Some(i) {
            let dots = vec!["…".to_string(); names.len()];
            writeln!(sink, "{}", line(&dots, right))?;
        }
        writeln!(sink, "{}", line(row, right))?;
    }
    writeln!(sink, "{}", rule("└", "┴", "┘"))?;
    Ok(())
}

/// The widths of the columns: as needed, shortened from the widest on to fit the terminal.
fn widths(names: &[String], rows: &[Vec<String>], terminal: Option<usize>) -> Vec<usize> {
    let mut widths: Vec<_> = names.iter().map(|name| name.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = usize::max(*width, cell.width());
        }
    }
    widths.iter_mut().for_each(|width| *width = (*width).clamp(1, MAX_CELL_WIDTH));
    let Some(terminal) = terminal else { return widths };
    let frame = 3 * widths.len() + 1;
    while widths.iter().sum::<usize>() + frame > terminal {
        let Some(widest) = widths.iter_mut().max_by_key(|width| **width) else { break };
        if *widest <= MIN_CELL_WIDTH {
            break;
        }
        *widest -= 1;
    }
    widths
}

/// A text of exactly this width on the screen.
fn fit(text: &str, width: usize, right: bool) -> String {
    let taken = text.width();
    if taken <= width {
        let blanks = " ".repeat(width - taken);
        return if right { format!("{blanks}{text}") } else { format!("{text}{blanks}") };
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = c.width().unwrap_or(0);
        if used + next + 1 > width {
            break;
        }
        short.push(c);
        used += next;
    }
    format!("{short}…{}", " ".repeat(width - used - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: &[&[&str]], terminal: Option<usize>) -> String {
        let names = ["id".to_string(), "naïve name".to_string()];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| cell.to_string()).collect()).collect();
        let mut text = Vec::new();
        table(&mut text, &names, &rows, &[true, false], None, terminal).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_are_aligned_by_width_on_the_screen() {
        let text = drawn(&[&["1", "東京"], &["1000", "x"]], None);
        let expected = "\
┌──────┬────────────┐
│ id   │ naïve name │
├──────┼────────────┤
│    1 │ 東京       │
│ 1000 │ x          │
└──────┴────────────┘
";
        assert_eq!(text, expected);
    }

    #[test]
    fn wide_values_are_shortened_to_the_terminal() {
        let long = "x".repeat(300);
        for terminal in [40, 80, 100] {
            let text = drawn(&[&["1", &long]], Some(terminal));
            assert!(text.lines().all(|line| line.width() == terminal), "{text}");
            assert!(text.contains('…'));
        }
        assert!(drawn(&[&["1", &long]], Some(3)).lines().all(|line| line.width() < 40));
        assert_eq!(fit("東京東京", 4, false), "東… ");
        assert_eq!(fit("ab", 4, true), "  ab");
    }

    #[test]
    fn only_both_ends_of_a_long_result_are_kept() {
        let mut kept = ShownRows { first: Vec::new(), last: VecDeque::new(), half: 2, total: 0 };
        (0..7).for_each(|i| kept.push(|| vec![i.to_string()]));
        assert_eq!(kept.total, 7);
        assert_eq!(kept.first, [["0"], ["1"]]);
        assert_eq!(kept.last, [["5"], ["6"]]);
    }
}
