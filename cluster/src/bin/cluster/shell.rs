//! The shell: statements and dot commands, typed, from a pipe, a file or the command line
//! ([`Shell`]).

use std::fmt::Display;
use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use clap::ValueEnum;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use swingdb::cutter::split;
use swingdb::{HISTORY_LINES, history_file};
use swingdb_cluster::{Cut, Error, Session};

use crate::print::{Mode, Printer};

/// How deep `.read` may nest.
const MAX_READ_DEPTH: usize = 16;
const PROMPT: &str = "cluster> ";
const CONTINUED: &str = "    ...> ";
const HELP: &str = "\
.cut CUT          how tables that follow are cut: as_it_lies, replicated, hash:COLUMN, range:...
.cut              how they are cut now
.epochs           the state that is read: the epoch of each shard's database
.help             this list
.mode MODE        shape of results: table, csv, tsv, json, jsonl
.nodes            the nodes
.quit             leave
.read FILE        run a file
.recover          settle a change that a dead coordinator has left
.refresh          read the newest state of all nodes
.tables           the tables and how they are cut
.timer on|off     print how long statements took
Statements end with a semicolon. The session reads one state of all nodes until .refresh, or a
change of its own.";

/// Why something ends.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The cluster refused.
    #[error(transparent)]
    Cluster(#[from] Error),
    /// A message of the program itself.
    #[error("{0}")]
    Message(String),
    /// The output is gone.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

impl Failure {
    pub fn message(text: impl Display) -> Self {
        Self::Message(text.to_string())
    }
}

/// See the [module documentation](self).
pub struct Shell {
    session: Session,
    cut: Cut,
    printer: Printer,
    quit: bool,
    depth: usize,
}

/// What has been read of a statement that is not finished.
#[derive(Default)]
struct Unfinished {
    text: String,
    /// Lines of the input before `text`.
    line: usize,
}

impl Shell {
    pub fn new(session: Session, cut: Cut, printer: Printer) -> Self {
        Self { session, cut, printer, quit: false, depth: 0 }
    }

    /// Talks with a person, or reads the standard input.
    pub fn start(&mut self) -> Result<(), Failure> {
        match std::io::stdin().is_terminal() {
            true => self.converse(),
            false => self.lines(std::io::stdin().lock()),
        }
    }

    /// Runs a whole text; ends at the first error.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.lines(text.as_bytes())
    }

    /// Runs what comes, each statement as soon as it is complete: whoever writes into a pipe may
    /// wait for the answer.
    fn lines(&mut self, input: impl BufRead) -> Result<(), Failure> {
        let mut unfinished = Unfinished::default();
        for line in input.lines() {
            self.line(&line?, &mut unfinished)?;
            if self.quit {
                return Ok(());
            }
        }
        self.finish(&mut unfinished)
    }

    /// Takes a line: a dot command, or a part of statements.
    fn line(&mut self, line: &str, unfinished: &mut Unfinished) -> Result<(), Failure> {
        let is_new = unfinished.text.trim().is_empty();
        if is_new && line.trim_start().starts_with('.') {
            unfinished.line += 1;
            return self.dot(line.trim());
        }
        unfinished.text.push_str(line);
        unfinished.text.push('\n');
        // Only a line with a semicolon can finish a statement.
        if line.contains(';') { self.complete(unfinished) } else { Ok(()) }
    }

    /// Runs the statements that are complete.
    fn complete(&mut self, unfinished: &mut Unfinished) -> Result<(), Failure> {
        let text = std::mem::take(&mut unfinished.text);
        let parts = split(&text);
        let place = |part: &str| part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
        let lines = |end: usize| text.get(..end).unwrap_or_default().matches('\n').count();
        for sql in &parts.complete {
            let line = unfinished.line + lines(place(sql)) + 1;
            self.statement(sql).map_err(|failure| located(failure, line))?;
        }
        let rest = if parts.rest.is_empty() { text.len() } else { place(parts.rest) };
        unfinished.line += lines(rest);
        unfinished.text = text.get(rest..).unwrap_or_default().to_string();
        Ok(())
    }

    /// Runs what has no semicolon at the end.
    fn finish(&mut self, unfinished: &mut Unfinished) -> Result<(), Failure> {
        if split(&unfinished.text).is_empty() {
            unfinished.text.clear();
            return Ok(());
        }
        unfinished.text.push(';');
        self.complete(unfinished)?;
        match unfinished.text.trim().is_empty() {
            true => Ok(()),
            false => Err(Failure::message("a string, a quoted name or a comment does not end")),
        }
    }

    fn statement(&mut self, sql: &str) -> Result<(), Failure> {
        let start = Instant::now();
        let rows = self.session.execute(sql, &self.cut)?;
        self.printer.result(rows)?;
        self.printer.time(start.elapsed());
        Ok(())
    }

    /// Reads lines from a terminal; errors are shown, and the shell goes on.
    fn converse(&mut self) -> Result<(), Failure> {
        let config = Config::builder().max_history_size(HISTORY_LINES).map_err(Failure::message)?;
        let config = config.auto_add_history(false).history_ignore_space(true).build();
        let mut editor = DefaultEditor::with_config(config).map_err(Failure::message)?;
        let history = history_file();
        if let Some(path) = &history {
            // A missing file is an empty history.
            let _ = editor.load_history(path);
        }
        let running = self.session.connection().interrupt_handle();
        // Without the handler Ctrl-C ends the program, as everywhere else.
        let _ = ctrlc::set_handler(move || running.interrupt());
        let cluster = self.session.cluster();
        let (shards, version) = (cluster.shards(), env!("CARGO_PKG_VERSION"));
        match cluster.copies() {
            1 => println!("SwingDB {version}: a cluster of {shards} nodes"),
            copies => println!("SwingDB {version}: {shards} shards of {copies} copies each"),
        }
        println!("End statements with `;`, see `.help`, leave with `.quit`.");
        let mut unfinished = Unfinished::default();
        while !self.quit {
            let prompt = if unfinished.text.trim().is_empty() { PROMPT } else { CONTINUED };
            match editor.readline(prompt) {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    // Lines are counted within what was typed for one statement.
                    if unfinished.text.is_empty() {
                        unfinished.line = 0;
                    }
                    match self.line(&line, &mut unfinished) {
                        Err(Failure::Output(error)) => return Err(error.into()),
                        Err(failure) => {
                            eprintln!("error: {failure}");
                            unfinished = Unfinished::default();
                        }
                        Ok(()) => {}
                    }
                }
                // Ctrl-C throws away what was typed, as in other shells; Ctrl-D leaves.
                Err(ReadlineError::Interrupted) => unfinished = Unfinished::default(),
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(Failure::message(error)),
            }
        }
        if let Some(path) = &history {
            // Others may have written it meanwhile. One that cannot be written is no reason to fail
            // now.
            let _ = editor.append_history(path);
        }
        Ok(())
    }

    fn dot(&mut self, line: &str) -> Result<(), Failure> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim().trim_end_matches(';').trim_end();
        match (name.trim_end_matches(';'), argument) {
            (".quit" | ".exit", "") => self.quit = true,
            (".help", "") => self.printer.line(HELP)?,
            (".refresh", "") => self.session.refresh()?,
            (".recover", "") => {
                self.session.cluster().recover()?;
                self.session.refresh()?;
            }
            (".epochs", "") => {
                let epochs = self.session.epochs().into_iter().map(|epoch| epoch.to_string());
                self.printer.line(&epochs.collect::<Vec<_>>().join(" "))?;
            }
            (".nodes", "") => {
                for line in self.session.nodes() {
                    self.printer.line(&line)?;
                }
            }
            (".tables", "") => {
                for (table, cut) in self.session.cuts() {
                    self.printer.line(&format!("{table}  {cut}"))?;
                }
            }
            (".cut", "") => self.printer.line(&self.cut.to_string())?,
            (".cut", cut) => self.cut = cut.parse()?,
            (".mode", mode) => {
                self.printer.mode = Mode::from_str(mode, true).map_err(|_| {
                    Failure::message(".mode is one of table, csv, tsv, json, jsonl")
                })?;
            }
            (".timer", "on") => self.printer.timer = true,
            (".timer", "off") => self.printer.timer = false,
            (".read", file) if !file.is_empty() => self.read(file)?,
            _ => return Err(Failure::message(format!("{line} is not understood; see .help"))),
        }
        Ok(())
    }

    fn read(&mut self, file: &str) -> Result<(), Failure> {
        if self.depth >= MAX_READ_DEPTH {
            let text = format!(".read: files read each other more than {MAX_READ_DEPTH} deep");
            return Err(Failure::Message(text));
        }
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| Failure::message(format!("{file}: {error}")))?;
        self.depth += 1;
        let done = self.text(&text);
        self.depth -= 1;
        done
    }
}

/// An error of a statement with the line that it begins at; the first line goes without saying.
fn located(failure: Failure, line: usize) -> Failure {
    match failure {
        Failure::Output(_) => failure,
        other if line <= 1 => other,
        other => Failure::message(format!("line {line}: {other}")),
    }
}
