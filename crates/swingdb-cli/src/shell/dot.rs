//! Dot commands: what the shell does itself, or says in SQL for people who know other shells.

use crate::failure::{Failure, Outcome};
use crate::output::Mode;
use crate::progress::Bar;
use crate::runner::Runner;
use crate::units;
use std::path::Path;
use std::time::Instant;
use swingdb::io::ImportOptions;

const HELP: &str = "\
.attach NAME [ALIAS]   take a snapshot of another database into this session
.databases             list all databases (the command `swingdb ls` tells more)
.detach ALIAS          undo .attach
.help                  this text
.import FILE TABLE     append a file to a table, which is created when missing
.maxrows N             most rows that mode table shows; 0 shows all
.mode [MODE]           table, csv, json, jsonl, markdown or line
.output [FILE]         write results to a file; without FILE to the screen again
.quit                  leave (also .exit, Ctrl-D)
.read FILE             run the SQL and dot commands of a file
.refresh               move a snapshot to the newest shared state
.schema [TABLE]        columns of a table, or of all
.share                 make the committed state the one that new snapshots see
.snapshots             list databases and below them the snapshots taken from them
.tables                list tables and views
.timer on|off          print how long statements take
SQL statements end with `;`. Ctrl-C interrupts a running statement. Tab completes names.";

/// The commands, without their dots.
pub const NAMES: &[&str] = &[
    "attach",
    "databases",
    "detach",
    "exit",
    "help",
    "import",
    "maxrows",
    "mode",
    "output",
    "quit",
    "read",
    "refresh",
    "schema",
    "share",
    "snapshots",
    "tables",
    "timer",
];

/// Runs one line that begins with a dot.
pub fn run(runner: &mut Runner<'_>, line: &str) -> Outcome {
    let words = words(line.trim().trim_end_matches(';'))?;
    let mut words = words.iter().map(String::as_str);
    let command = words.next().unwrap_or_default();
    let arguments: Vec<_> = words.collect();
    match (command, arguments.as_slice()) {
        (".help", _) => runner.printer.line(HELP),
        (".quit" | ".exit" | ".q", _) => {
            runner.quit = true;
            Ok(())
        }
        (".tables", _) => runner.statement("SHOW TABLES"),
        (".databases", _) => crate::commands::ls::print(runner.home, false),
        (".snapshots", _) => crate::commands::tree::print(runner.home),
        (".schema", []) => all_schemas(runner),
        (".schema", [table]) => runner.statement(&format!("DESCRIBE {table}")),
        (".share", _) => share(runner),
        (".refresh", _) => refresh(runner),
        (".attach", [name, rest @ ..]) if rest.len() < 2 => {
            let database = runner.home.snapshot(name)?;
            Ok(runner.connection.attach(&database, rest.first().unwrap_or(name))?)
        }
        (".detach", [alias]) => Ok(runner.connection.detach(alias)?),
        (".import", [file, table]) => import(runner, file, table),
        (".read", [file]) => runner.file(file),
        (".output", []) => {
            runner.printer.use_stdout();
            Ok(())
        }
        (".output", [file]) => runner.printer.use_file(Path::new(file)),
        (".mode", []) => {
            let name = runner.printer.mode.name();
            runner.printer.line(name)
        }
        (".mode", [mode]) => {
            let unknown = || Failure::message(format!("modes are {}", Mode::NAMES.join(", ")));
            runner.printer.mode = Mode::parse(mode).ok_or_else(unknown)?;
            Ok(())
        }
        (".timer", [switch @ ("on" | "off")]) => {
            runner.printer.timer = *switch == "on";
            Ok(())
        }
        (".maxrows", [number]) => {
            let wrong = |_| Failure::message(format!("{number:?} is no number of rows"));
            runner.printer.max_rows = number.parse().map_err(wrong)?;
            Ok(())
        }
        _ => Err(unknown(command)),
    }
}

fn unknown(command: &str) -> Failure {
    let usage = HELP.lines().find(|line| {
        let name = line.split_whitespace().next();
        name == Some(command)
    });
    match usage {
        Some(line) => Failure::message(format!("usage: {line}")),
        None => Failure::message(format!("there is no {command}; see .help")),
    }
}

fn all_schemas(runner: &mut Runner<'_>) -> Outcome {
    for table in runner.connection.tables()? {
        runner.printer.line(&table)?;
        runner.statement(&format!("DESCRIBE {table}"))?;
    }
    Ok(())
}

fn share(runner: &mut Runner<'_>) -> Outcome {
    let start = Instant::now();
    let shared = runner.database.share()?;
    let taken = units::duration(start.elapsed());
    runner.printer.line(&format!("shared epoch {} in {taken}", shared.epoch))
}

fn refresh(runner: &mut Runner<'_>) -> Outcome {
    let newer = runner.database.refresh()?;
    let epoch = runner.database.epoch().map(|epoch| format!(": epoch {epoch}")).unwrap_or_default();
    let text = if newer { "moved to the newest state" } else { "there is no newer state" };
    runner.printer.line(&format!("{text}{epoch}"))
}

fn import(runner: &mut Runner<'_>, file: &str, table: &str) -> Outcome {
    let bar = Bar::show(&runner.connection, file);
    let report = runner.connection.import_file(file, table, ImportOptions::default())?;
    drop(bar);
    let (rows, taken) = (units::rows(report.rows), units::duration(report.duration));
    runner.printer.line(&format!("{rows} imported in {taken}"))
}

/// Words separated by blanks; quotes of both kinds keep blanks.
fn words(line: &str) -> Outcome<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(first) = chars.peek().copied() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(c) = chars.next_if(|c| quote.is_some() || !c.is_whitespace()) {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '\'' || (c == '"' && word.is_empty()) => quote = Some(c),
                _ => word.push(c),
            }
        }
        if quote.is_some() {
            return Err(Failure::message("a quote is not closed"));
        }
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_quoted() {
        let cut = |line| words(line).unwrap();
        assert_eq!(cut(" .import 'my file.csv'  trips "), [".import", "my file.csv", "trips"]);
        assert_eq!(cut(".read \"a b\""), [".read", "a b"]);
        assert_eq!(cut(""), Vec::<String>::new());
        assert!(words(".read 'a").is_err());
    }

    #[test]
    fn every_command_is_in_the_help() {
        for name in NAMES {
            assert!(HELP.contains(&format!(".{name}")), "{name}");
        }
        assert!(NAMES.is_sorted());
        assert!(unknown(".mode").text().starts_with("usage: .mode"));
        assert!(unknown(".nothing").text().contains("see .help"));
    }
}
