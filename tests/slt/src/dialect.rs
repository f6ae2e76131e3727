//! From a file to steps: the records of `sqllogictest`, and what else happens between them.
//!
//! Our own files and SQLite's are in the dialect that the crate reads. DuckDB's have loops,
//! conditions on loop variables, requirements and more: they are expanded here, and each record is
//! handed to the crate's parser as a text of its own. A directive that is not known stops the file
//! with a reason: nothing is passed over in silence.

use crate::compare::{Dialect, Order};
use sqllogictest::{ColumnType, Record, parse_with_name};

/// A type letter, whatever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter(pub char);

impl ColumnType for Letter {
    fn from_char(value: char) -> Option<Self> {
        Some(Letter(value))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// One step of a file.
pub enum Step {
    /// A record to run.
    Run(Box<Run>),
    /// A record that is not run.
    Skip { line: usize, reason: String },
    /// The database goes on as a new, empty one.
    Fresh,
    /// The default session ends and another takes its place.
    Reconnect,
    /// The rest of the file is not run.
    Stop { line: usize, reason: String },
}

/// A record to run, and what the crate's record has no place for.
pub struct Run {
    pub line: usize,
    pub record: Record<Letter>,
    pub order: Order,
    /// The statement may fail or not.
    pub maybe: bool,
    /// A result without expected rows: it is that of the first record with this label.
    pub label: Option<String>,
}

/// Whose dialect a file is in.
pub fn of_file(name: &str, text: &str) -> Dialect {
    if name.ends_with(".slt") {
        return Dialect::Own;
    }
    let head = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if head.starts_with("# name:") { Dialect::DuckDb } else { Dialect::Sqlite }
}

/// The steps of a file. `temporary` is a folder of its own for the files that statements write.
pub fn steps(dialect: Dialect, name: &str, text: &str, temporary: &str) -> Vec<Step> {
    if dialect != Dialect::DuckDb {
        return standard(name, &text.replace("__TEST_DIR__", temporary));
    }
    let mut expansion = Expansion {
        temporary: temporary.to_string(),
        steps: Vec::new(),
        has_run: false,
        skipping: None,
        stopped: false,
    };
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(i, l)| (i + 1, l)).collect();
    expansion.lines(&lines, &[]);
    expansion.steps
}

/// Files that the crate reads as they are.
fn standard(name: &str, text: &str) -> Vec<Step> {
    // The crate takes no comment behind the label of a condition.
    let plain = |line: &str| match line.split_once('#') {
        Some((condition, _)) if line.starts_with("skipif") || line.starts_with("onlyif") => {
            condition.trim_end().to_string()
        }
        _ => line.trim_end_matches('\r').to_string(),
    };
    let text: Vec<String> = text.lines().map(plain).collect();
    let records = match parse_with_name::<Letter>(&text.join("\n"), name) {
        Ok(records) => records,
        Err(error) => {
            let line = error.location().line() as usize;
            return vec![Step::Stop { line, reason: format!("not understood: {}", error.kind()) }];
        }
    };
    let mut steps = Vec::new();
    for record in records {
        let (line, order) = match &record {
            Record::Statement { loc, .. } | Record::Let { loc, .. } => (loc.line(), Order::AsIs),
            Record::Query { loc, expected, .. } => (loc.line(), order_of(expected)),
            Record::Halt { loc } => {
                let reason = "halt".to_string();
                steps.push(Step::Stop { line: loc.line() as usize, reason });
                break;
            }
            Record::Include { loc, .. } | Record::System { loc, .. } => {
                let line = loc.line() as usize;
                steps.push(Step::Skip { line, reason: "include or system".to_string() });
                continue;
            }
            Record::Control(_) | Record::Sleep { .. } => (0, Order::AsIs),
            // Hashes are compared as such, whatever the threshold; the rest is layout.
            _ => continue,
        };
        let run = Run { line: line as usize, record, order, maybe: false, label: None };
        steps.push(Step::Run(Box::new(run)));
    }
    steps
}

fn order_of(expected: &sqllogictest::QueryExpect<Letter>) -> Order {
    use sqllogictest::{QueryExpect, SortMode};
    match expected {
        QueryExpect::Results { sort_mode: Some(SortMode::RowSort), .. } => Order::Rows,
        QueryExpect::Results { sort_mode: Some(SortMode::ValueSort), .. } => Order::Values,
        _ => Order::AsIs,
    }
}

/// What `require` may ask for that is here.
const PRESENT: &[&str] = &[
    "parquet",
    "json",
    "icu",
    "core_functions",
    "skip_reload",
    "vector_size",
    "noforcestorage",
    "no_force_storage",
    "no_alternative_verify",
    "notwindows",
    "notmingw",
    "notmusl",
    "64bit",
    "no_vector_verification",
    "no_extension_autoloading",
    "longdouble",
    "no_latest_storage",
];

const INTEGRAL: &[&str] = &["tinyint", "smallint", "integer", "bigint", "hugeint"];
const SIGNED: &[&str] = INTEGRAL;
const UNSIGNED: &[&str] = &["utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"];
const NUMERIC: &[&str] = &["float", "double"];
const OTHERS: &[&str] = &["bool", "interval", "varchar"];

/// Names and values of the loops around a line.
type Variables = [(String, String)];

struct Expansion {
    temporary: String,
    steps: Vec<Step>,
    /// A statement stands before: the database is no new one.
    has_run: bool,
    /// Records are skipped, and why (`mode skip`).
    skipping: Option<String>,
    stopped: bool,
}

impl Expansion {
    fn lines(&mut self, lines: &[(usize, &str)], variables: &Variables) {
        let mut at = 0;
        while at < lines.len() && !self.stopped {
            let (number, line) = lines[at];
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => at += 1,
                [first, ..] if first.starts_with('#') => at += 1,
                ["loop" | "foreach", ..] => {
                    let Some(end) = end_of_loop(lines, at) else {
                        return self.stop(number, "a loop has no end");
                    };
                    self.repeat(number, &words, &lines[at + 1..end], variables);
                    at = end + 1;
                }
                ["statement" | "query" | "skipif" | "onlyif", ..] => {
                    let end = end_of_record(lines, at);
                    self.record(&lines[at..end], variables);
                    at = end;
                }
                _ => {
                    self.directive(number, &words);
                    at += 1;
                }
            }
        }
    }

    fn stop(&mut self, line: usize, reason: impl Into<String>) {
        self.steps.push(Step::Stop { line, reason: reason.into() });
        self.stopped = true;
    }

    /// A directive of one line.
    fn directive(&mut self, line: usize, words: &[&str]) {
        match words {
            ["require", what, ..] if PRESENT.contains(what) => {}
            ["mode", "unskip"] => self.skipping = None,
            ["mode", "skip", why @ ..] => self.skipping = Some(format!("skip {}", why.join(" "))),
            ["load"] => self.fresh(),
            // A new file; one that is there already would have to be read.
            ["load", file, ..] if file.starts_with("{TEST_DIR}") && !self.has_run => {}
            ["reconnect"] => self.steps.push(Step::Reconnect),
            ["tags", ..] | ["set", "ignore_error_messages", ..] => {}
            ["halt"] => self.stop(line, "halt"),
            _ => self.stop(line, format!("directive: {}", words.join(" "))),
        }
    }

    fn fresh(&mut self) {
        if self.has_run {
            self.steps.push(Step::Fresh);
        }
        self.has_run = false;
    }

    /// Runs the body of a loop once a value.
    fn repeat(
        &mut self,
        line: usize,
        words: &[&str],
        body: &[(usize, &str)],
        variables: &Variables,
    ) {
        let values = match words {
            ["loop", _, from, to] => {
                let (from, to) = (self.filled(from, variables), self.filled(to, variables));
                let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) else {
                    return self.stop(line, format!("bounds of a loop: {from} {to}"));
                };
                (from..to).map(|value| value.to_string()).collect()
            }
            ["foreach", _, list @ ..] => {
                let list: Vec<String> = list.iter().map(|v| self.filled(v, variables)).collect();
                match values_of(&list) {
                    Ok(values) => values,
                    Err(reason) => return self.stop(line, reason),
                }
            }
            _ => return self.stop(line, format!("directive: {}", words.join(" "))),
        };
        let names: Vec<&str> = words[1].split(',').collect();
        for value in values {
            let parts: Vec<&str> =
                if names.len() > 1 { value.split(',').collect() } else { vec![&value] };
            if parts.len() != names.len() {
                return self.stop(line, format!("values of a loop: {value}"));
            }
            let mut inner = variables.to_vec();
            let pairs = names.iter().zip(parts);
            inner.extend(pairs.map(|(name, part)| ((*name).to_string(), part.to_string())));
            self.lines(body, &inner);
        }
    }

    /// Conditions, the first line, the SQL, the expected rows: one record.
    fn record(&mut self, lines: &[(usize, &str)], variables: &Variables) {
        let mut lines = lines;
        while let [(number, line), rest @ ..] = lines
            && (line.starts_with("skipif") || line.starts_with("onlyif"))
        {
            match self.condition(line, variables) {
                Some(true) => lines = rest,
                Some(false) => return,
                None => {
                    let reason = format!("condition: {line}");
                    return self.steps.push(Step::Skip { line: *number, reason });
                }
            }
        }
        let Some(((number, head), body)) = lines.split_first() else { return };
        let number = *number;
        if let Some(reason) = &self.skipping {
            return self.steps.push(Step::Skip { line: number, reason: reason.clone() });
        }
        self.has_run = true;
        let head = self.filled(head, variables);
        let body: Vec<String> = body.iter().map(|(_, l)| self.filled(l, variables)).collect();
        let separator = body.iter().position(|line| line == "----");
        let sql = body[..separator.unwrap_or(body.len())].join("\n");
        let results = separator.map(|at| &body[at + 1..]);
        match translated(&head, &sql, results) {
            Ok(text) => self.translated(number, &text),
            Err(reason) => self.steps.push(Step::Skip { line: number, reason }),
        }
    }

    fn translated(&mut self, line: usize, text: &Translated) {
        let records = match parse_with_name::<Letter>(&text.text, "") {
            Ok(records) => records,
            Err(error) => {
                let reason = format!("not understood: {}", error.kind());
                return self.steps.push(Step::Skip { line, reason });
            }
        };
        let is_run = |record: &Record<Letter>| {
            matches!(record, Record::Statement { .. } | Record::Query { .. })
        };
        for record in records.into_iter().filter(is_run) {
            let (order, maybe, label) = (text.order, text.maybe, text.label.clone());
            self.steps.push(Step::Run(Box::new(Run { line, record, order, maybe, label })));
        }
    }

    /// Whether a record is to be run; `None` if the condition is not understood.
    fn condition(&self, line: &str, variables: &Variables) -> Option<bool> {
        let (word, condition) = line.split_once(char::is_whitespace)?;
        let holds = condition.trim().split("&&").map(|part| compared(part, variables));
        let holds = holds.collect::<Option<Vec<bool>>>()?.into_iter().all(|holds| holds);
        Some(holds == (word == "onlyif"))
    }

    /// Puts the values of variables and folders into a line.
    fn filled(&self, line: &str, variables: &Variables) -> String {
        let mut text = line.to_string();
        if !text.contains(['{', '_']) {
            return text;
        }
        for (name, value) in variables {
            text = text.replace(&format!("${{{name}}}"), value);
            text = text.replace(&format!("{{{name}}}"), value);
        }
        for name in ["{TEST_DIR}", "__TEST_DIR__", "{TEMP_DIR}"] {
            text = text.replace(name, &self.temporary);
        }
        text.replace("{DATA_DIR}", "data").replace("{WORKING_DIR}", ".")
    }
}

/// `name<op>value` with a loop's variable.
fn compared(part: &str, variables: &Variables) -> Option<bool> {
    let operator = ["<>", "<=", ">=", "=", "<", ">"].into_iter().find(|op| part.contains(op))?;
    let (name, wanted) = part.split_once(operator)?;
    let (_, value) = variables.iter().find(|(known, _)| known == name.trim())?;
    let wanted = wanted.trim();
    let order = match (value.parse::<i64>(), wanted.parse::<i64>()) {
        (Ok(value), Ok(wanted)) => value.cmp(&wanted),
        _ => value.as_str().cmp(wanted),
    };
    Some(match operator {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        _ => order.is_gt(),
    })
}

/// A record of DuckDB's as the crate reads it.
struct Translated {
    text: String,
    order: Order,
    maybe: bool,
    label: Option<String>,
}

fn translated(head: &str, sql: &str, results: Option<&[String]>) -> Result<Translated, String> {
    let words: Vec<&str> = head.split_whitespace().collect();
    let (mut order, mut maybe, mut label) = (Order::AsIs, false, None);
    let text = match words.as_slice() {
        ["statement", what @ ("ok" | "error" | "maybe" | "debug"), rest @ ..] => {
            maybe = matches!(*what, "maybe" | "debug");
            let connection = rest.first().map(|name| format!("connection {name}\n"));
            // Messages are each engine's own: that it fails is what counts.
            let what = if *what == "error" { "error" } else { "ok" };
            format!("{}statement {what}\n{sql}\n", connection.unwrap_or_default())
        }
        ["query", types, rest @ ..] => {
            let mut connection = String::new();
            match rest {
                [] | ["nosort"] => {}
                ["rowsort" | "sort"] => order = Order::Rows,
                ["valuesort"] => order = Order::Values,
                [sort @ ("nosort" | "rowsort" | "sort" | "valuesort"), name] => {
                    order = match *sort {
                        "nosort" => Order::AsIs,
                        "valuesort" => Order::Values,
                        _ => Order::Rows,
                    };
                    if results.is_none_or(<[String]>::is_empty) {
                        label = Some((*name).to_string());
                    }
                }
                [name] => connection = format!("connection {name}\n"),
                _ => return Err(format!("directive: {head}")),
            }
            let sort = match order {
                Order::AsIs => "nosort",
                Order::Rows => "rowsort",
                Order::Values => "valuesort",
            };
            let results = results.unwrap_or_default();
            if results.iter().any(|line| line.starts_with("<FILE>:")) {
                return Err("the expected rows are in a file".to_string());
            }
            let results = results.join("\n");
            format!("{connection}query {types} {sort}\n{sql}\n----\n{results}\n")
        }
        _ => return Err(format!("directive: {head}")),
    };
    Ok(Translated { text, order, maybe, label })
}

/// The values of a `foreach`: words, names of lists, and words to leave out (`!word`).
fn values_of(list: &[String]) -> Result<Vec<String>, String> {
    let mut values: Vec<String> = Vec::new();
    for word in list {
        let lists: &[&[&str]] = match word.as_str() {
            "<integral>" => &[INTEGRAL, UNSIGNED],
            "<signed>" => &[SIGNED],
            "<unsigned>" => &[UNSIGNED],
            "<numeric>" => &[INTEGRAL, UNSIGNED, NUMERIC],
            "<alltypes>" => &[INTEGRAL, UNSIGNED, NUMERIC, OTHERS],
            word if word.starts_with('<') => return Err(format!("list of values: {word}")),
            word => match word.strip_prefix('!') {
                Some(out) => {
                    values.retain(|value| value != out);
                    continue;
                }
                None => {
                    values.push(word.to_string());
                    continue;
                }
            },
        };
        values.extend(lists.iter().copied().flatten().map(|value| (*value).to_string()));
    }
    Ok(values)
}

/// The line of the `endloop` that belongs to the loop at `start`.
fn end_of_loop(lines: &[(usize, &str)], start: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, (_, line)) in lines.iter().enumerate().skip(start) {
        match line.split_whitespace().next() {
            Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
            Some("endloop") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A record ends at an empty line.
fn end_of_record(lines: &[(usize, &str)], start: usize) -> usize {
    let blank = |(_, line): &(usize, &str)| line.trim().is_empty();
    lines[start..].iter().position(blank).map_or(lines.len(), |length| start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let tell = |step: Step| match step {
            Step::Run(run) => match run.record {
                Record::Statement { sql, .. } | Record::Query { sql, .. } => sql,
                other => format!("{other:?}"),
            },
            Step::Skip { reason, .. } => format!("skip: {reason}"),
            Step::Stop { reason, .. } => format!("stop: {reason}"),
            Step::Fresh => "fresh".to_string(),
            Step::Reconnect => "reconnect".to_string(),
        };
        steps(Dialect::DuckDb, "x.test", text, "/tmp/x").into_iter().map(tell).collect()
    }

    #[test]
    fn loops_are_unrolled() {
        let text = "loop i 0 2\n\nforeach t <signed> !hugeint !bigint\n\nonlyif i=1\n\
                    statement ok\nSELECT ${i}::${t}\n\nendloop\n\nendloop\n";
        let expected = ["SELECT 1::tinyint", "SELECT 1::smallint", "SELECT 1::integer"];
        assert_eq!(told(text), expected);
        let pairs =
            "foreach a,b 1,x 2,y\n\nquery I\nSELECT '{TEST_DIR}${a}${b}'\n----\n1\n\nendloop";
        assert_eq!(told(pairs), ["SELECT '/tmp/x1x'", "SELECT '/tmp/x2y'"]);
    }

    #[test]
    fn what_is_not_known_is_said() {
        assert_eq!(
            told("require spatial\n\nstatement ok\nSELECT 1"),
            ["stop: directive: require spatial"]
        );
        assert_eq!(told("dance\n"), ["stop: directive: dance"]);
        let skipped = "mode skip flaky\n\nstatement ok\nSELECT 1\n\nmode unskip\n\n\
                       statement ok\nSELECT 2\n\nskipif nosuch=1\nstatement ok\nSELECT 3";
        let expected = ["skip: skip flaky", "SELECT 2", "skip: condition: skipif nosuch=1"];
        assert_eq!(told(skipped), expected);
        assert_eq!(
            told("concurrentloop i 0 2\n\nendloop"),
            ["stop: directive: concurrentloop i 0 2"]
        );
        assert_eq!(
            told("statement ok\nSELECT 1\n\nload {TEST_DIR}/a.db"),
            ["SELECT 1", "stop: directive: load {TEST_DIR}/a.db"]
        );
    }

    #[test]
    fn conditions_with_comments_are_read() {
        let text = "onlyif mysql # DIV\nquery I rowsort x\nSELECT 1\n----\n1\n\nhalt\n\nbad";
        assert!(matches!(
            steps(Dialect::Sqlite, "x.test", text, "").as_slice(),
            [Step::Stop { line: 9, .. }]
        ));
        let text = "onlyif mysql # DIV\nquery I rowsort x\nSELECT 1\n----\n1\n\nhalt\n";
        let steps = steps(Dialect::Sqlite, "x.test", text, "");
        let [Step::Run(run), Step::Stop { line: 7, .. }] = steps.as_slice() else {
            panic!("{}", steps.len());
        };
        assert_eq!((run.line, run.order), (2, Order::Rows));
    }
}
