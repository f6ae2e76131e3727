//! A table for people.
//!
//! Of a long result the first and the last rows are shown; what lies between is counted and not
//! kept, so that memory is bounded whatever the size. Columns are as wide as their widest value
//! shown, and shortened when the terminal is narrower. Where even that does not do, the columns in
//! the middle are left out. A terminal also shows the types.

use super::cells::{Cells, is_number, one_line};
use crate::failure::Outcome;
use crate::units;
use console::Style;
use std::collections::VecDeque;
use std::io::Write;
use swingdb::{QueryResult, field_type};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No value is shown wider than this.
const MAX_CELL_WIDTH: usize = 120;
/// No column is made narrower than this to fit the terminal.
const MIN_CELL_WIDTH: usize = 8;

/// How tables look.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// Most rows; 0 is all.
    pub max_rows: usize,
    /// Columns of the terminal; `None` if the output is none.
    pub terminal: Option<usize>,
    /// The text for NULL.
    pub null: &'a str,
}

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

/// Prints a result.
pub fn print(sink: &mut impl Write, result: QueryResult, look: Look<'_>) -> Outcome {
    let schema = result.schema();
    let names = schema.fields().iter().map(|field| one_line(field.name().clone())).collect();
    let types = || schema.fields().iter().map(|field| field_type(field)).collect();
    let right: Vec<_> = schema.fields().iter().map(|f| is_number(f.data_type())).collect();
    let half = if look.max_rows == 0 { usize::MAX } else { look.max_rows.div_ceil(2) };
    let mut kept = ShownRows { first: Vec::new(), last: VecDeque::new(), half, total: 0 };
    for batch in result {
        let batch = batch?;
        let cells = Cells::with_null(&batch, look.null)?;
        // Rows that later ones of the same batch push out again need no text.
        let skip = batch.num_rows().saturating_sub(half);
        for row in 0..batch.num_rows() {
            if kept.first.len() == half && row < skip {
                kept.total += 1;
                continue;
            }
            kept.push(|| (0..right.len()).map(|column| cells.shown(row, column)).collect());
        }
    }
    let shown = (kept.first.len() + kept.last.len()) as u64;
    let hidden = kept.total - shown;
    let gap = (hidden > 0).then_some(kept.first.len());
    let rows: Vec<_> = kept.first.into_iter().chain(kept.last).collect();
    let columns = right.len();
    let types = look.terminal.map(|_| types());
    let table = Table { names, types, rows, right, gap };
    let left_out = table.print(sink, look.terminal)?;
    let mut note = units::rows(kept.total);
    if hidden > 0 {
        note = format!("{note} ({} shown)", units::grouped(shown));
    }
    if left_out > 0 {
        note = format!(
            "{note}, {columns} columns ({} shown; .mode line shows all)",
            columns - left_out
        );
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
    let names = names.iter().map(|name| name.to_string()).collect();
    let table = Table { names, types: None, rows: rows.to_vec(), right: right.to_vec(), gap: None };
    table.print(sink, None)?;
    Ok(())
}

/// A table of texts.
struct Table {
    names: Vec<String>,
    /// Types of the columns, to be shown below their names.
    types: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
    /// Columns whose values stand at the right.
    right: Vec<bool>,
    /// The row before which some were left out.
    gap: Option<usize>,
}

impl Table {
    /// Prints it; answers how many columns were left out.
    fn print(mut self, sink: &mut impl Write, terminal: Option<usize>) -> Outcome<usize> {
        let mut widths = self.needed_widths();
        let left_out = terminal.map_or(0, |terminal| self.leave_out(&mut widths, terminal));
        if let Some(terminal) = terminal {
            shorten(&mut widths, terminal);
        }
        self.draw(sink, &widths)?;
        Ok(left_out)
    }

    fn draw(&self, sink: &mut impl Write, widths: &[usize]) -> Outcome {
        let rule = |left: &str, middle: &str, end: &str| {
            let parts: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            format!("{left}{}{end}", parts.join(middle))
        };
        // Only a terminal is shown colours, and one that wants none is not.
        let style = |style: Style| if self.types.is_some() { style } else { Style::new() };
        let line = |cells: &[String], right: &[bool], style: &Style| {
            let fitted = cells.iter().zip(widths).zip(right);
            let fitted = fitted.map(|((cell, width), right)| {
                style.apply_to(fit(cell, *width, *right)).to_string()
            });
            format!("│ {} │", fitted.collect::<Vec<_>>().join(" │ "))
        };
        let left = vec![false; self.names.len()];
        writeln!(sink, "{}", rule("┌", "┬", "┐"))?;
        writeln!(sink, "{}", line(&self.names, &left, &style(Style::new().bold())))?;
        if let Some(types) = &self.types {
            writeln!(sink, "{}", line(types, &left, &style(Style::new().dim())))?;
        }
        writeln!(sink, "{}", rule("├", "┼", "┤"))?;
        for (i, row) in self.rows.iter().enumerate() {
            if self.gap == Some(i) {
                let dots = vec!["…".to_string(); self.names.len()];
                writeln!(sink, "{}", line(&dots, &self.right, &Style::new()))?;
            }
            writeln!(sink, "{}", line(row, &self.right, &Style::new()))?;
        }
        writeln!(sink, "{}", rule("└", "┴", "┘"))?;
        Ok(())
    }

    /// The widths that all names and values need, up to a limit.
    fn needed_widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.names.iter().map(|name| name.width()).collect();
        for row in self.rows.iter().chain(&self.types) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = usize::max(*width, cell.width());
            }
        }
        widths.iter_mut().for_each(|width| *width = (*width).clamp(1, MAX_CELL_WIDTH));
        widths
    }

    /// Leaves out columns in the middle that do not fit even when all are as narrow as can be.
    /// Answers how many.
    fn leave_out(&mut self, widths: &mut Vec<usize>, terminal: usize) -> usize {
        let least = |width: &usize| usize::min(*width, MIN_CELL_WIDTH) + 3;
        if widths.iter().map(least).sum::<usize>() < terminal {
            return 0;
        }
        // From both ends, as far as there is room beside the column of dots.
        let (mut first, mut last, mut room) = (0, widths.len(), terminal.saturating_sub(1 + 4));
        while first < last {
            let from_left = first <= widths.len() - last;
            let next = if from_left { first } else { last - 1 };
            let Some(left) = room.checked_sub(least(&widths[next])) else { break };
            room = left;
            if from_left { first += 1 } else { last -= 1 }
        }
        // One is always shown; and what would only make place for the dots is not left out.
        first = first.max(1);
        if last <= first + 1 {
            return 0;
        }
        let dots = || "…".to_string();
        let all = [&mut self.names].into_iter().chain(&mut self.types).chain(&mut self.rows);
        all.for_each(|row| drop(row.splice(first..last, [dots()])));
        self.right.splice(first..last, [false]);
        widths.splice(first..last, [1]);
        last - first
    }
}

/// Shortens the columns from the widest on to fit the terminal.
fn shorten(widths: &mut [usize], terminal: usize) {
    let frame = 3 * widths.len() + 1;
    while widths.iter().sum::<usize>() + frame > terminal {
        let Some(widest) = widths.iter_mut().max_by_key(|width| **width) else { break };
        if *widest <= MIN_CELL_WIDTH {
            break;
        }
        *widest -= 1;
    }
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
        let names = vec!["id".to_string(), "naïve name".to_string()];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| cell.to_string()).collect()).collect();
        let table = Table { names, types: None, rows, right: vec![true, false], gap: None };
        let mut text = Vec::new();
        table.print(&mut text, terminal).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_in_the_middle_make_place() {
        let row = |of: fn(usize) -> String| (0..30).map(of).collect::<Vec<_>>();
        let names = row(|i| format!("column_{i}"));
        let types = Some(row(|_| "BIGINT".to_string()));
        for terminal in [20, 40, 79, 120] {
            let (names, types) = (names.clone(), types.clone());
            let rows = vec![row(|i| i.to_string())];
            let table = Table { names, types, rows, right: vec![true; 30], gap: None };
            let mut text = Vec::new();
            let left_out = table.print(&mut text, Some(terminal)).unwrap();
            let text = console::strip_ansi_codes(&String::from_utf8(text).unwrap()).to_string();
            assert!(text.lines().all(|line| line.width() <= terminal), "{terminal}:\n{text}");
            assert_eq!(text.matches("BIGINT").count(), 30 - left_out);
            assert!(text.contains("column_0") && text.contains(" … "), "{text}");
            assert!(terminal < 40 || text.contains("column_29"), "{text}");
        }
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
