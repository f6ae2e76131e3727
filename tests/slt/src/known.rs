//! The list of known differences of a foreign suite: where, what, and why.
//!
//! One entry a line: `FILES WHAT : REASON`. FILES is a path relative to the suite with `*` for any
//! text. WHAT is nothing (the whole file is not run), `line N`, `sql /REGEX/` (the statement), or
//! `error /REGEX/`: what SwingDB says, or what differs when it fails in no way: `rows`, `columns`,
//! `count`, `no error`, `null order` (the order of rows alone, in a file that wants NULL first by a
//! setting). A reason is a must.

use regex::Regex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The entries, in the order of the file: the first that fits gives the reason.
#[derive(Default)]
pub struct Known {
    entries: Vec<Entry>,
}

struct Entry {
    /// The line of the list, from 1.
    line: usize,
    files: Regex,
    what: What,
    reason: String,
    /// Whether it was the reason of anything.
    used: AtomicBool,
}

impl Entry {
    fn reason(&self) -> &str {
        self.used.store(true, Ordering::Relaxed);
        &self.reason
    }
}

enum What {
    File,
    Line(usize),
    Sql(Regex),
    Error(Regex),
}

impl Known {
    /// Reads the list; a line that makes no sense is an error that names it.
    pub fn read(path: &Path) -> Result<Known, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(number + 1, line);
            entries.push(entry.map_err(|why| format!("{}:{}: {why}", path.display(), number + 1))?);
        }
        Ok(Known { entries })
    }

    /// Why a whole file is not run.
    pub fn file(&self, file: &str) -> Option<&str> {
        let fits = |entry: &&Entry| matches!(entry.what, What::File) && entry.files.is_match(file);
        self.entries.iter().find(fits).map(Entry::reason)
    }

    /// Why a failure was to be expected. `answer` is the error's text, or `rows`.
    pub fn failure(&self, file: &str, line: usize, sql: &str, answer: &str) -> Option<&str> {
        let fits = |entry: &&Entry| {
            let what = match &entry.what {
                What::File => true,
                What::Line(at) => *at == line,
                What::Sql(pattern) => pattern.is_match(sql),
                What::Error(pattern) => pattern.is_match(answer),
            };
            what && entry.files.is_match(file)
        };
        self.entries.iter().find(fits).map(Entry::reason)
    }

    /// The entries that were no reason in a run of these files, with their lines: those of files
    /// that were not run are left out unless `whole`, when all files of the suite were run.
    pub fn unused(&self, files: &[String], whole: bool) -> Vec<String> {
        let unused = self.entries.iter().filter(|entry| !entry.used.load(Ordering::Relaxed));
        let told = unused.filter_map(|entry| {
            let ran = files.iter().any(|file| entry.files.is_match(file));
            let why = match (ran, whole) {
                (true, _) => "fits nothing",
                (false, true) => "fits no file",
                (false, false) => return None,
            };
            Some(format!("line {}: {why}: {}", entry.line, entry.reason))
        });
        told.collect()
    }
}

fn entry(line_number: usize, line: &str) -> Result<Entry, String> {
    let (place, reason) = line.rsplit_once(" : ").ok_or("no ` : ` before a reason")?;
    let (files, what) = place.trim().split_once(' ').unwrap_or((place.trim(), ""));
    let files = files.split('*').map(regex::escape).collect::<Vec<_>>().join(".*");
    let pattern = |text: &str| {
        let inner = text.trim().strip_prefix('/').and_then(|text| text.strip_suffix('/'));
        let inner = inner.ok_or("a pattern stands between slashes")?;
        Regex::new(&format!("(?is){inner}")).map_err(|error| error.to_string())
    };
    let what = match what.trim().split_once(' ').unwrap_or((what.trim(), "")) {
        ("", _) => What::File,
        ("line", number) => What::Line(number.trim().parse().map_err(|_| "no line number")?),
        ("sql", text) => What::Sql(pattern(text)?),
        ("error", text) => What::Error(pattern(text)?),
        (word, _) => return Err(format!("{word:?} is none of line, sql, error")),
    };
    let files = Regex::new(&format!("^{files}$")).map_err(|error| error.to_string())?;
    let reason = reason.trim().to_string();
    if reason.is_empty() {
        return Err("the reason is empty".to_string());
    }
    Ok(Entry { line: line_number, files, what, reason, used: AtomicBool::new(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_files_lines_and_patterns() {
        let lines = [
            "test/sql/copy/* : no such files",
            "*/x.test line 7 : other order",
            r"* sql /\bTRIGGER\b/ : there are no triggers",
            "* error /^NotSupported/ : refused",
        ];
        let known = list(&lines);
        assert_eq!(known.file("test/sql/copy/a/b.test"), Some("no such files"));
        assert_eq!(known.file("test/sql/join.test"), None);
        assert_eq!(known.failure("a/x.test", 7, "", ""), Some("other order"));
        assert_eq!(known.failure("a/x.test", 8, "", ""), None);
        let why = known.failure("a", 1, "create trigger t", "rows");
        assert_eq!(why, Some("there are no triggers"));
        assert_eq!(known.failure("a", 1, "", "NotSupportedError: x"), Some("refused"));
        assert!(entry(1, "a/b").is_err() && entry(1, "a line x : y").is_err());
        assert!(entry(1, "a words : y").is_err());
    }

    fn list(lines: &[&str]) -> Known {
        let numbered = lines.iter().enumerate();
        Known { entries: numbered.map(|(at, line)| entry(at + 1, line).unwrap()).collect() }
    }

    #[test]
    fn entries_that_were_no_reason_are_told() {
        let known = list(&[
            "a/* : whole files",
            "b.test error /^rows$/ : an answer",
            "* sql /TRIGGER/ : statements",
            "gone/* : files that are not there",
            "* sql /INDEX/ : behind another",
        ]);
        let files = ["a/x.test", "b.test"].map(str::to_string);
        let lines = |whole| -> Vec<String> {
            let told = known.unused(&files, whole).into_iter();
            told.map(|text| text.split(':').take(2).collect()).collect()
        };
        let all = ["line 1 fits nothing", "line 2 fits nothing", "line 3 fits nothing"];
        assert_eq!(lines(false), [&all[..], &["line 5 fits nothing"]].concat());
        assert!(known.file("a/x.test").is_some());
        assert!(known.failure("b.test", 3, "CREATE TRIGGER ... INDEX", "rows").is_some());
        // The first that fits is the reason, and so another is none.
        let left = ["line 3 fits nothing", "line 4 fits no file", "line 5 fits nothing"];
        assert_eq!(lines(true), left);
    }
}
