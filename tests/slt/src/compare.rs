//! How values are written in test files, and when a result is the expected one.
//!
//! The three kinds of files differ in that. Ours: one row a line, values as text, compared to the
//! letter. DuckDB's: rows separated by tabs or one value a line, or a hash; numbers compare as
//! numbers. SQLite's: one value a line or a hash; the type letter says how a value is written.

use md5::{Digest, Md5};
use std::cell::RefCell;
use std::collections::HashMap;

/// Relative and absolute distance at which DuckDB's runner takes two floats for equal.
const RELATIVE: f64 = 0.01;
const ABSOLUTE: f64 = 1e-8;

/// Whose files these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Own,
    DuckDb,
    Sqlite,
}

/// How the rows of a record are ordered before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    AsIs,
    Rows,
    Values,
}

/// What the record that runs now expects; the validator is a plain function and finds it here.
#[derive(Clone)]
pub struct Expected {
    pub dialect: Dialect,
    pub types: String,
    pub order: Order,
    /// A result to compare with the first one of the same label.
    pub label: Option<String>,
    /// Whether the rows may come in any order.
    pub any_order: bool,
}

thread_local! {
    static EXPECTED: RefCell<Expected> = const {
        RefCell::new(Expected {
            dialect: Dialect::Own,
            types: String::new(),
            order: Order::AsIs,
            label: None,
            any_order: false,
        })
    };
    /// Type letters of the last result.
    static ACTUAL: RefCell<String> = const { RefCell::new(String::new()) };
    static LABELS: RefCell<HashMap<String, Vec<Vec<String>>>> = RefCell::new(HashMap::new());
}

/// Says what the next record expects.
pub fn expect(expected: Expected) {
    EXPECTED.with_borrow_mut(|kept| *kept = expected);
}

/// Whether the number of changed rows is to be a result: in DuckDB's files it is one.
pub fn wants_count() -> bool {
    EXPECTED.with_borrow(|kept| kept.dialect == Dialect::DuckDb && !kept.types.is_empty())
}

/// Forgets the results of labels: a new file, or `reset label`.
pub fn forget_labels() {
    LABELS.with_borrow_mut(HashMap::clear);
}

/// The texts of a result as the files write them.
pub fn texts(types: &str, rows: Vec<Vec<Option<String>>>) -> Vec<Vec<String>> {
    ACTUAL.with_borrow_mut(|kept| *kept = types.to_string());
    let expected = EXPECTED.with_borrow(Clone::clone);
    let written = |(place, value): (usize, Option<String>)| match expected.dialect {
        Dialect::Sqlite => sqlite(expected.types.chars().nth(place).unwrap_or('T'), value),
        Dialect::Own | Dialect::DuckDb => plain(value),
    };
    rows.into_iter().map(|row| row.into_iter().enumerate().map(written).collect()).collect()
}

fn plain(value: Option<String>) -> String {
    match value {
        None => "NULL".to_string(),
        Some(text) if text.is_empty() => "(empty)".to_string(),
        Some(text) => text.replace('\0', "\\0"),
    }
}

/// SQLite's runner prints values with printf, by the letter that the file gives the column.
fn sqlite(letter: char, value: Option<String>) -> String {
    let Some(text) = value else { return "NULL".to_string() };
    match letter {
        'I' => match (text.as_str(), text.parse::<f64>()) {
            ("true", _) => "1".to_string(),
            ("false", _) => "0".to_string(),
            (_, Ok(_)) if text.parse::<i128>().is_ok() => text,
            (_, Ok(number)) => format!("{}", number.trunc() as i64),
            _ => "0".to_string(),
        },
        'R' => format!("{:.3}", text.parse::<f64>().unwrap_or(0.0)),
        _ if text.is_empty() => "(empty)".to_string(),
        _ => text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect(),
    }
}

/// The validator: whether a result, sorted already, is what the lines of the file say.
pub fn is_same(actual: &[Vec<String>], lines: &[String]) -> bool {
    let expected = EXPECTED.with_borrow(Clone::clone);
    if let Some(label) = &expected.label {
        return LABELS.with_borrow_mut(|labels| match labels.get(label) {
            Some(first) => first.as_slice() == actual,
            None => {
                labels.insert(label.clone(), actual.to_vec());
                true
            }
        });
    }
    if expected.dialect == Dialect::Own {
        let rows = actual.iter().map(|row| spaced(&row.join("\t")));
        let (mut rows, mut lines) =
            (rows.collect::<Vec<_>>(), lines.iter().map(|line| spaced(line)).collect::<Vec<_>>());
        if expected.any_order {
            rows.sort_unstable();
            lines.sort_unstable();
        }
        return rows == lines;
    }
    if let [line] = lines
        && let Some((count, hash)) = line.split_once(" values hashing to ")
    {
        let values: Vec<&String> = actual.iter().flatten().collect();
        return count.trim() == values.len().to_string() && hash.trim() == digest(&values);
    }
    let Some(cells) = cells(actual, lines) else { return false };
    let cells = sorted(cells, expected.order);
    actual.len() == cells.len()
        && actual.iter().zip(&cells).all(|(row, cells)| same_row(row, cells))
}

/// Whether a statement says how its rows are ordered: `ORDER BY` outside of parentheses, texts,
/// quoted names and comments.
pub fn is_ordered(sql: &str) -> bool {
    let (mut depth, mut quote, mut plain) = (0_i32, None, String::new());
    let mut characters = sql.chars().peekable();
    while let Some(next) = characters.next() {
        match (quote, next) {
            (Some(end), _) if end == next => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(next),
            (None, '-') if characters.peek() == Some(&'-') => quote = Some('\n'),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth -= 1;
                plain.push(' ');
            }
            (None, _) if depth == 0 => plain.push(next),
            (None, _) => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is = |word: &str, name| word.eq_ignore_ascii_case(name);
    words.windows(2).any(|pair| is(pair[0], "ORDER") && is(pair[1], "BY"))
}

/// Whether only the order of the rows differs. With a hash nobody knows.
pub fn is_other_order(actual: &str, expected: &str) -> bool {
    let rows = |text: &str| {
        let row = |line: &str| line.split_whitespace().map(plainest).collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = text.lines().map(row).collect();
        rows.sort_unstable();
        rows
    };
    rows(actual) == rows(expected) || expected.contains(" values hashing to ")
}

/// A value in one of the ways to write it: `1.000000` and `true` are 1.
fn plainest(value: &str) -> String {
    match (value, value.parse::<f64>()) {
        ("true", _) => "1".to_string(),
        ("false", _) => "0".to_string(),
        (_, Ok(number)) => number.to_string(),
        _ => value.to_string(),
    }
}

/// Runs of blanks and tabs as one blank: columns may be aligned.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The expected values, one list a row: lines are rows with tabs between values, or single values.
fn cells(actual: &[Vec<String>], lines: &[String]) -> Option<Vec<Vec<String>>> {
    let columns = actual.first().map_or(0, Vec::len);
    let by_tabs: Vec<Vec<String>> =
        lines.iter().map(|line| line.split('\t').map(str::to_string).collect()).collect();
    if by_tabs.iter().all(|row| row.len() == columns) {
        return Some(by_tabs);
    }
    let whole = columns > 0 && lines.len().is_multiple_of(columns);
    whole.then(|| lines.chunks(columns).map(<[String]>::to_vec).collect())
}

/// The actual rows come sorted by the runner; the expected ones are sorted in the same way.
fn sorted(mut cells: Vec<Vec<String>>, order: Order) -> Vec<Vec<String>> {
    match order {
        Order::AsIs => {}
        Order::Rows => cells.sort_unstable(),
        Order::Values => {
            let mut values: Vec<String> = cells.into_iter().flatten().collect();
            values.sort_unstable();
            cells = values.into_iter().map(|value| vec![value]).collect();
        }
    }
    cells
}

fn same_row(actual: &[String], expected: &[String]) -> bool {
    actual.len() == expected.len()
        && ACTUAL.with_borrow(|types| {
            let letters = types.chars().chain(std::iter::repeat('T'));
            actual.iter().zip(expected).zip(letters).all(|((a, e), letter)| same(a, e, letter))
        })
}

/// DuckDB's rules: text, else numbers as numbers, booleans also as 0 and 1, patterns.
fn same(actual: &str, expected: &str, letter: char) -> bool {
    if actual == expected {
        return true;
    }
    if let Some(pattern) = expected.strip_prefix("<REGEX>:") {
        return matches(pattern, actual);
    }
    if let Some(pattern) = expected.strip_prefix("<!REGEX>:") {
        return !matches(pattern, actual);
    }
    match letter {
        'B' => plainest(actual) == plainest(&expected.to_ascii_lowercase()),
        'R' if actual.eq_ignore_ascii_case(expected) => true,
        'I' | 'R' => same_number(actual, expected.trim()),
        _ => false,
    }
}

/// Whole numbers are equal or not; only fractions are near each other.
fn same_number(actual: &str, expected: &str) -> bool {
    if let (Ok(actual), Ok(expected)) = (actual.parse::<i128>(), expected.parse::<i128>()) {
        return actual == expected;
    }
    match (actual.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(a), Ok(e)) => a == e || (a - e).abs() <= e.abs() * RELATIVE + ABSOLUTE,
        _ => false,
    }
}

/// A pattern covers the whole value, and a dot also newlines.
fn matches(pattern: &str, text: &str) -> bool {
    regex::Regex::new(&format!("(?s)^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(text))
}

fn digest(values: &[&String]) -> String {
    let mut md5 = Md5::new();
    for value in values {
        md5.update(value.as_bytes());
        md5.update(b"\n");
    }
    md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[&[&str]]) -> Vec<Vec<String>> {
        text.iter().map(|row| row.iter().map(|value| (*value).to_string()).collect()).collect()
    }

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_string()).collect()
    }

    fn set(dialect: Dialect, types: &str, order: Order) {
        let types_text = types.to_string();
        expect(Expected { dialect, types: types_text, order, label: None, any_order: false });
        ACTUAL.with_borrow_mut(|kept| *kept = types.to_string());
    }

    #[test]
    fn own_files_are_compared_to_the_letter() {
        set(Dialect::Own, "RT", Order::AsIs);
        assert!(is_same(&rows(&[&["1.5", "a b"]]), &lines(&["1.5  a b"])));
        assert!(!is_same(&rows(&[&["1.5", "a"]]), &lines(&["1.50 a"])));
        assert!(!is_same(&rows(&[&["1.5", "a"]]), &lines(&[])));
        assert!(!is_same(&rows(&[]), &lines(&["1"])));
        let (two, other) = (rows(&[&["1", "a"], &["2", "b"]]), lines(&["2 b", "1 a"]));
        assert!(!is_same(&two, &other));
        EXPECTED.with_borrow_mut(|kept| kept.any_order = true);
        assert!(is_same(&two, &other) && !is_same(&two, &lines(&["2 a", "1 b"])));
    }

    #[test]
    fn rows_have_an_order_where_the_statement_says_one() {
        for ordered in ["SELECT a FROM t ORDER BY a", "(SELECT 1) order\nby 1 LIMIT 1"] {
            assert!(is_ordered(ordered), "{ordered}");
        }
        for open in [
            "SELECT a FROM t",
            "SELECT rank() OVER (ORDER BY a) FROM t",
            "SELECT 'x ORDER BY (' FROM t",
            "SELECT a AS \"ORDER BY\", [border by_x] FROM t",
            "SELECT a FROM t -- ORDER BY a",
        ] {
            assert!(!is_ordered(open), "{open}");
        }
    }

    #[test]
    fn numbers_of_duckdb_are_near_each_other_and_whole_ones_are_not() {
        set(Dialect::DuckDb, "RI", Order::AsIs);
        assert!(is_same(&rows(&[&["1.0", "7"]]), &lines(&["1.000000001\t7"])));
        assert!(is_same(&rows(&[&["1.0", "7"]]), &lines(&["1", "7"])));
        assert!(!is_same(&rows(&[&["1.0", "10000001"]]), &lines(&["1.0\t10000000"])));
        assert!(!is_same(&rows(&[&["1.0", "7"]]), &lines(&["1.2\t7"])));
        set(Dialect::DuckDb, "BT", Order::AsIs);
        assert!(is_same(&rows(&[&["true", "abc"]]), &lines(&["1\t<REGEX>:a.*"])));
        assert!(!is_same(&rows(&[&["true", "abc"]]), &lines(&["0\t<REGEX>:a.*"])));
        assert!(!is_same(&rows(&[&["true", "abc"]]), &lines(&["1\t<!REGEX>:a.*"])));
        set(Dialect::DuckDb, "TT", Order::Rows);
        assert!(is_same(&rows(&[&["a", "x"], &["b", "y"]]), &lines(&["b\ty", "a\tx"])));
    }

    #[test]
    fn values_of_sqlite_follow_their_letter() {
        let text = |letter, value: &str| sqlite(letter, Some(value.to_string()));
        assert_eq!(sqlite('I', None), "NULL");
        assert_eq!(text('I', "-3.9"), "-3");
        assert_eq!(text('I', "true"), "1");
        assert_eq!(text('I', "word"), "0");
        assert_eq!(text('R', "2"), "2.000");
        assert_eq!(text('T', ""), "(empty)");
        assert_eq!(text('T', "a\tb"), "a@b");
    }

    #[test]
    fn other_orders_are_told_from_other_rows() {
        assert!(is_other_order("true 2\nNULL 3", "NULL\t3.000\n1\t2"));
        assert!(!is_other_order("1 2\nNULL 4", "NULL\t3\n1\t2"));
    }

    #[test]
    fn hashes_are_those_of_the_values() {
        set(Dialect::Sqlite, "I", Order::AsIs);
        let expected = lines(&["2 values hashing to 6ddb4095eb719e2a9f0a3f95677d24e0"]);
        assert!(is_same(&rows(&[&["1"], &["2"]]), &expected));
        assert!(!is_same(&rows(&[&["2"], &["1"]]), &expected));
    }
}
