//! Dot commands: what the shell does itself, or says in SQL for people who know other shells.

use crate::failure::{Failure, Outcome};
use crate::output::Mode;
use crate::progress::{Bar, Statement};
use crate::runner::Runner;
use crate::units;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use swingdb::io::ImportOptions;

const HELP: &str = "\
.attach NAME [ALIAS]   take a snapshot of another database into this session
.cd DIRECTORY          change the directory that file names start from
.databases             list all databases (the command `swingdb ls` tells more)
.detach ALIAS          undo .attach
.dump [TABLE]          print the SQL that makes the database, or one table's rows, anew
.help                  this text
.import FILE TABLE     append a file to a table, which is created when missing
.maxrows N             most rows that mode table shows; 0 shows all
.mode [MODE] [TABLE]   table, csv, tsv, json, jsonl, markdown, line, or insert (into TABLE)
.nullvalue [TEXT]      what is shown for NULL; without TEXT as the mode has it
.once FILE             write the next result to a file
.open [NAME]           leave this database and open another; without NAME a private one
.output [FILE]         write results to a file; without FILE to the screen again
.pager on|off          whether what does not fit on the screen goes through $PAGER, else less
.print TEXT            print a text, where results go
.quit                  leave (also .exit, quit, exit, \\q, Ctrl-D)
.read FILE             run the SQL and dot commands of a file
.refresh               move a snapshot to the newest shared state
.schema [TABLE]        columns of a table, or of all
.share                 make the committed state the one that new snapshots see
.shell COMMAND         run a command of the system
.snapshots             list databases and below them the snapshots taken from them
.tables                list tables and views
.timer on|off          print how long statements take
SQL statements end with `;`. Ctrl-C interrupts a running statement. Tab completes names.";

/// The commands, without their dots.
pub const NAMES: &[&str] = &[
    "attach",
    "cd",
    "databases",
    "detach",
    "dump",
    "exit",
    "help",
    "import",
    "maxrows",
    "mode",
    "nullvalue",
    "once",
    "open",
    "output",
    "pager",
    "print",
    "quit",
    "read",
    "refresh",
    "schema",
    "share",
    "shell",
    "snapshots",
    "tables",
    "timer",
];

/// What people type to leave, or for help, in other shells: the command that it means here.
pub fn plain_command(text: &str) -> Option<&'static str> {
    match text.trim().trim_end_matches(';').to_ascii_lowercase().as_str() {
        "exit" | "quit" | "\\q" => Some(".quit"),
        "help" | "\\?" | "\\h" => Some(".help"),
        _ => None,
    }
}

/// Runs one line that begins with a dot.
pub fn run(runner: &mut Runner<'_>, line: &str) -> Outcome {
    if let Some(command) = line.trim().strip_prefix(".shell ") {
        return system(command);
    }
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
        (".open", []) => open(runner, None),
        (".open", [name]) => open(runner, Some(name)),
        (".import", [file, table]) => import(runner, file, table),
        (".dump", []) => dump(runner, None),
        (".dump", [table]) => dump(runner, Some(table)),
        (".read", [file]) => runner.file(file),
        (".cd", [directory]) => std::env::set_current_dir(directory)
            .map_err(|error| Failure::message(format!("{directory}: {error}"))),
        _ => set(runner, command, &arguments),
    }
}

/// Commands that say where and how results are shown.
fn set(runner: &mut Runner<'_>, command: &str, arguments: &[&str]) -> Outcome {
    let printer = &mut runner.printer;
    match (command, arguments) {
        (".output", []) => printer.use_stdout(),
        (".output", [file]) => printer.use_file(Path::new(file), false)?,
        (".once", [file]) => printer.use_file(Path::new(file), true)?,
        (".nullvalue", []) => printer.null = None,
        (".nullvalue", [text]) => printer.null = Some(text.to_string()),
        (".pager", [switch @ ("on" | "off")]) => printer.pager = *switch == "on",
        (".timer", [switch @ ("on" | "off")]) => printer.timer = *switch == "on",
        (".print", words) => return printer.line(&words.join(" ")),
        (".mode", []) => return printer.line(printer.mode.name()),
        (".mode", [mode, rest @ ..]) if rest.len() < 2 => {
            let unknown = || Failure::message(format!("modes are {}", Mode::NAMES.join(", ")));
            let mode = Mode::parse(mode).ok_or_else(unknown)?;
            match (rest, mode) {
                ([table], Mode::Insert) => printer.insert_into = table.to_string(),
                ([_], _) => return Err(Failure::message("only the mode insert takes a table")),
                _ => {}
            }
            printer.mode = mode;
        }
        (".maxrows", [number]) => {
            let wrong = |_| Failure::message(format!("{number:?} is no number of rows"));
            printer.max_rows = number.parse().map_err(wrong)?;
        }
        _ => return Err(unknown(command)),
    }
    Ok(())
}

/// Leaves the database, and opens another or a private one.
fn open(runner: &mut Runner<'_>, name: Option<&str>) -> Outcome {
    if runner.connection.in_transaction() {
        return Err(Failure::message("a transaction is open: COMMIT or ROLLBACK first"));
    }
    // Before it is opened: a process opens a name only once.
    let before = runner.database.name().map(str::to_string);
    let same = name.is_some() && before.as_deref() == name && !runner.database.is_snapshot();
    if same {
        return Ok(());
    }
    let database = match name {
        Some(name) => runner.home.without_store().open(name)?,
        None => runner.home.private()?,
    };
    runner.home.tell_if_new(&runner.database);
    runner.move_to(database)?;
    if runner.printer.talkative {
        runner.printer.line(&runner.home.describe(&runner.database))?;
    }
    Ok(())
}

/// A command of the system, on the same terminal.
fn system(command: &str) -> Outcome {
    let failed = |error| Failure::message(format!("{command}: {error}"));
    let status = Command::new("sh").arg("-c").arg(command).status().map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::message(format!("{command}: {status}"))),
    }
}

/// The SQL that makes a database anew: definitions, rows, and what only SwingDB knows; or only the
/// rows of one table.
fn dump(runner: &mut Runner<'_>, table: Option<&str>) -> Outcome {
    let mode = runner.printer.mode;
    let named = std::mem::take(&mut runner.printer.insert_into);
    // All of it is one result.
    let once = std::mem::take(&mut runner.printer.once);
    runner.printer.mode = Mode::Insert;
    let outcome = match table {
        Some(table) => rows(runner, table),
        None => whole(runner),
    };
    runner.printer.mode = mode;
    runner.printer.insert_into = named;
    if once {
        runner.printer.use_stdout();
    }
    outcome
}

fn whole(runner: &mut Runner<'_>) -> Outcome {
    let definitions = runner.connection.definitions()?;
    runner.printer.line("BEGIN;")?;
    runner.printer.line(definitions.schema.trim_end())?;
    for table in &definitions.tables {
        rows(runner, table)?;
    }
    if !definitions.own.is_empty() {
        runner.printer.line(definitions.own.trim_end())?;
    }
    runner.printer.line("COMMIT;")
}

fn rows(runner: &mut Runner<'_>, table: &str) -> Outcome {
    runner.printer.insert_into = table.to_string();
    let result = runner.connection.query(&format!("SELECT * FROM {table}"))?;
    runner.printer.result(result)
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
    let bar = Statement::begin(&runner.connection);
    let shared = runner.connection.share()?;
    drop(bar);
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
