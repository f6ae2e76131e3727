//! The shell: which database, where statements come from, and the loop that reads them.

mod complete;
pub mod dot;

use crate::args::ShellArgs;
use crate::commands::cluster;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::interrupt;
use crate::output::Printer;
use crate::runner::Runner;
use complete::{Assistant, is_finished};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::io::{self, BufRead, IsTerminal};
use swingdb::{Database, HISTORY_LINES, history_file};
use unicode_width::UnicodeWidthStr;

/// Starts the shell, or runs what `-c` or the standard input says.
pub fn start(home: &Home, args: &ShellArgs) -> Outcome {
    if let Some(file) = &args.cluster {
        return cluster::run(home, file, args);
    }
    let interactive = args.commands.is_empty() && io::stdin().is_terminal();
    let database = open(home, args)?;
    let output = &args.output;
    let printer = Printer::stdout(output.mode, output.max_rows, output.timer, interactive);
    let mut runner = Runner::new(home, database, printer)?;
    runner.dots = Some(dot::run);
    if !interactive {
        interrupt::attach_once(&runner.connection);
    }
    let outcome = match (interactive, args.commands.is_empty()) {
        (true, _) => converse(&mut runner),
        (false, true) => follow(&mut runner, io::stdin().lock()),
        (false, false) => args.commands.iter().try_for_each(|text| runner.text(text)),
    };
    home.tell_if_new(&runner.database);
    outcome
}

/// Runs what arrives, each statement as soon as it is complete: whoever writes into the pipe may
/// wait for the answer.
fn follow(runner: &mut Runner<'_>, input: impl BufRead) -> Outcome {
    let mut text = String::new();
    for line in input.lines() {
        let line = line?;
        let dot = text.trim().is_empty() && line.trim_start().starts_with('.');
        text.push_str(&line);
        text.push('\n');
        // Only a line with a semicolon can finish a statement.
        if dot || (line.contains(';') && is_finished(&text)) {
            runner.text(&text)?;
            text.clear();
        }
        if runner.quit {
            return Ok(());
        }
    }
    runner.text(&text)
}

fn open(home: &Home, args: &ShellArgs) -> Outcome<Database> {
    match &args.database {
        None => home.private(),
        Some(name) if args.snapshot => home.snapshot(name),
        Some(name) => home.open(name),
    }
}

fn converse(runner: &mut Runner<'_>) -> Outcome {
    let config = Config::builder().max_history_size(HISTORY_LINES).map_err(Failure::message)?;
    let config = config.auto_add_history(false).history_ignore_space(true).build();
    let mut editor: Editor<Assistant, FileHistory> =
        Editor::with_config(config).map_err(Failure::message)?;
    editor.set_helper(Some(Assistant::new(runner.connection.clone())));
    let history = history_file();
    if let Some(path) = &history {
        // A missing file is an empty history.
        let _ = editor.load_history(path);
    }
    interrupt::attach(&runner.connection);
    println!("{}", greeting(runner.home, &runner.database));
    // What was typed of a statement that is not finished.
    let mut text = String::new();
    while !runner.quit {
        let prompt = prompt(&runner.database, !text.is_empty());
        if let Some(helper) = editor.helper_mut() {
            helper.stands_behind(&text);
        }
        match editor.readline(&prompt) {
            Ok(line) => {
                text.push_str(&line);
                if !is_finished(&text) && dot::plain_command(&text).is_none() {
                    text.push('\n');
                    continue;
                }
                if !text.trim().is_empty() {
                    let _ = editor.add_history_entry(text.trim_end());
                }
                attempt(runner, &std::mem::take(&mut text))?;
                if let Some(helper) = editor.helper_mut() {
                    helper.forget(&runner.connection);
                }
            }
            // Ctrl-C throws away what was typed, as in other shells; Ctrl-D leaves.
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::message(error)),
        }
    }
    if let Some(path) = &history {
        // A history that cannot be written is no reason to fail now.
        let _ = editor.save_history(path);
    }
    Ok(())
}

/// `name> `, or of the same width for the further lines of a statement.
fn prompt(database: &Database, continued: bool) -> String {
    let name = database.name().unwrap_or("swingdb");
    if !continued {
        return format!("{name}> ");
    }
    format!("{:>width$}> ", "...", width = name.width().max(3))
}

/// Runs what was typed; errors are shown and the shell goes on.
fn attempt(runner: &mut Runner<'_>, text: &str) -> Outcome {
    let done = match dot::plain_command(text) {
        Some(command) => dot::run(runner, command),
        None => runner.text(text),
    };
    match done {
        Err(Failure::Closed) => Err(Failure::Closed),
        Err(failure) => {
            eprintln!("error: {}", failure.text());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn greeting(home: &Home, database: &Database) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let what = home.describe(database);
    format!("SwingDB {version}: {what}\nEnd statements with `;`, see `.help`, leave with `.quit`.")
}
