//! Runs sqllogictest files on SwingDB: ours, and those of other engines that a developer names.
//!
//!     swingdb-slt [OPTION VALUE]... PATH...
//!
//! | option | meaning |
//! |---|---|
//! | `--session COMMAND` | the process that answers statements, words separated by blanks |
//! | `--known FILE` | differences that are no failures, each with a reason |
//! | `--known-files run` | files that are known as a whole are run: what fails in them is known |
//! | `--unused-known fail` | for a whole suite: an entry that fits nothing is a failure |
//! | `--folder DIR` | what names of files are relative to; else the folder above `test` |
//! | `--label NAME` | the engine's name for `skipif` and `onlyif`; may be repeated |
//! | `--errors any` | errors may say what they like: for the files of one engine on another |
//! | `--order any` | rows are in any order where a statement has no ORDER BY of its own |
//! | `--jobs N` | files at a time |
//! | `--timeout SECONDS` | for one statement; then the process is killed |
//! | `--report FILE` | one JSON object a line for each record that did not pass |
//! | `--shown N` | most failures that are printed |
//!
//! A PATH is a file or a folder; a folder stands for its `*.slt`, `*.test` and `*.test_slow` files.
//! Each file has a process and so a database of its own. The process is the Python package
//! (`session.py`) and not the command `swingdb`: the command has one session, ends at the first
//! error, and does not say where a result ends; the package has many sessions, exceptions with
//! classes, and is the same engine. Exit status: 0 all passed or known, 1 failures, 2 wrong usage.

#![forbid(unsafe_code)]

mod compare;
mod dialect;
mod known;
mod run;
mod session;

use known::Known;
use run::{Settings, Told, Verdict};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: u8 = 2;
const SHOWN_FAILURES: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Reasons for skipping that the summary prints.
const SHOWN_REASONS: usize = 25;

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|options| run_all(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("swingdb-slt: {message}");
            ExitCode::from(USAGE)
        }
    }
}

struct Options {
    settings: Settings,
    paths: Vec<PathBuf>,
    jobs: usize,
    report: Option<PathBuf>,
    shown: usize,
    /// Entries of the list of known differences that are no reason are failures.
    no_unused: bool,
}

fn arguments(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let settings = Settings {
        command: Vec::new(),
        timeout: TIMEOUT,
        folder: PathBuf::new(),
        labels: Vec::new(),
        any_error: false,
        any_order: false,
        known: Known::default(),
        runs_known_files: false,
    };
    let mut options = Options {
        settings,
        paths: Vec::new(),
        jobs: 1,
        report: None,
        shown: SHOWN_FAILURES,
        no_unused: false,
    };
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            options.paths.push(argument.into());
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{argument}: {value:?} is no number"));
        let settings = &mut options.settings;
        match argument.as_str() {
            "--session" => {
                settings.command = value.split_whitespace().map(str::to_string).collect();
            }
            "--known" => settings.known = Known::read(Path::new(&value))?,
            "--known-files" if value == "run" => settings.runs_known_files = true,
            "--unused-known" if value == "fail" => options.no_unused = true,
            "--folder" => settings.folder = value.into(),
            "--label" => settings.labels.push(value),
            "--errors" if value == "any" => settings.any_error = true,
            "--order" if value == "any" => settings.any_order = true,
            "--jobs" => options.jobs = number()?,
            "--timeout" => settings.timeout = Duration::from_secs(number()? as u64),
            "--report" => options.report = Some(value.into()),
            "--shown" => options.shown = number()?,
            _ => return Err(format!("there is no option {argument}")),
        }
    }
    let Some(first) = options.paths.first() else {
        return Err("at least one path is needed".to_string());
    };
    if options.settings.command.is_empty() {
        return Err("a --session is needed".to_string());
    }
    if options.settings.folder.as_os_str().is_empty() {
        options.settings.folder = above_test(first)?;
    }
    Ok(options)
}

/// The nearest folder above a path that holds a folder `test`, as other engines' repositories do;
/// else the path itself.
fn above_test(path: &Path) -> Result<PathBuf, String> {
    let whole = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let above = whole.ancestors().skip(1).find(|folder| folder.join("test").is_dir());
    let itself = if whole.is_dir() { Some(whole.as_path()) } else { whole.parent() };
    Ok(above.or(itself).unwrap_or(&whole).to_path_buf())
}

/// The test files below a path, in the order of their names.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        std::fs::metadata(path).map_err(failed)?;
        files.push(path.to_path_buf());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut inside: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
        .collect::<Result<_, _>>()?;
    inside.sort();
    for inner in inside {
        let ending = inner.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if inner.is_dir() || ["slt", "test", "test_slow"].contains(&ending) {
            collect(&inner, files)?;
        }
    }
    Ok(())
}

/// Counts and what is printed of them.
#[derive(Default)]
struct Summary {
    passed: usize,
    failed: usize,
    known: usize,
    followed: usize,
    skipped: usize,
    reasons: BTreeMap<String, usize>,
    report: Option<BufWriter<File>>,
}

impl Summary {
    fn add(&mut self, file: &str, told: &Told, shown: usize) {
        let (kind, text) = match &told.verdict {
            Verdict::Passed => {
                self.passed += 1;
                return;
            }
            Verdict::Failed(text) => {
                self.failed += 1;
                if self.failed <= shown {
                    println!("{file}:{}: {text}\n", told.line);
                }
                ("failed", text)
            }
            Verdict::Followed(text) => {
                self.followed += 1;
                ("followed", text)
            }
            Verdict::Known(text) => {
                self.known += 1;
                *self.reasons.entry(format!("known: {text}")).or_default() += 1;
                ("known", text)
            }
            Verdict::Skipped(text) => {
                self.skipped += 1;
                *self.reasons.entry(format!("skipped: {text}")).or_default() += 1;
                ("skipped", text)
            }
        };
        if let Some(report) = &mut self.report {
            let line = json!({
                "file": file, "line": told.line, "verdict": kind, "sql": told.sql, "text": text
            });
            // The report is for reading afterwards; its failure is no failure of a test.
            let _ = writeln!(report, "{line}");
        }
    }

    fn print(&mut self, files: usize, taken: Duration) {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons.iter().take(SHOWN_REASONS) {
            println!("{count:8}  {reason}");
        }
        if reasons.len() > SHOWN_REASONS {
            println!("          and {} further reasons (--report)", reasons.len() - SHOWN_REASONS);
        }
        println!(
            "{files} files in {:.1} s: {} records passed, {} failed, {} behind a failed statement, \
             {} known differences, {} skipped",
            taken.as_secs_f64(),
            self.passed,
            self.failed,
            self.followed,
            self.known,
            self.skipped
        );
    }
}

/// Runs all files; whether none failed.
fn run_all(options: &Options) -> Result<bool, String> {
    let mut files = Vec::new();
    for path in &options.paths {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        return Err("there are no test files".to_string());
    }
    let folder = options.settings.folder.canonicalize().map_err(|error| error.to_string())?;
    let report = options.report.as_ref().map(File::create).transpose();
    let report = report.map_err(|error| error.to_string())?.map(BufWriter::new);
    let summary = Mutex::new(Summary { report, ..Summary::default() });
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let name = |path: &PathBuf| {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        whole.strip_prefix(&folder).unwrap_or(path).to_string_lossy().into_owned()
    };
    let names: Vec<String> = files.iter().map(name).collect();
    let work = || {
        let taken = || next.fetch_add(1, Ordering::Relaxed);
        while let Some((path, name)) = files.iter().zip(&names).nth(taken()) {
            run::file(&options.settings, path, name, &mut |told| {
                let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                summary.add(name, &told, options.shown);
            });
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        if ended.iter().any(Result::is_err) {
            return Err("the runner failed (see above)".to_string());
        }
        Ok(())
    })?;
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.print(files.len(), start.elapsed());
    let unused = options.settings.known.unused(&names, options.no_unused);
    for entry in &unused {
        println!("known differences, {entry}");
    }
    let as_listed = unused.is_empty() || !options.no_unused;
    Ok(summary.failed == 0 && summary.passed > 0 && as_listed)
}
