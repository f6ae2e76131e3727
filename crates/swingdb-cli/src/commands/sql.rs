//! `swingdb sql`: statements on a snapshot, on the database itself, or on files.

use crate::args::SqlArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::interrupt;
use crate::output::Printer;
use crate::runner::Runner;
use std::io::{self, IsTerminal, Read};

/// Why a snapshot is not changed.
const LOST: &str = "the statement would change only this command's own snapshot, which ends with \
                    it: add --write to change the database, or --scratch to change the snapshot";

pub fn run(home: &Home, args: &SqlArgs) -> Outcome {
    let (database, sql) = arguments(args);
    let sql = match sql {
        Some(sql) => sql.to_string(),
        None => standard_input()?,
    };
    let database = match database {
        Some(name) if args.write => home.open(name)?,
        Some(name) => home.snapshot(name)?,
        None if args.write => return Err(Failure::usage("--write needs a database")),
        None => home.private()?,
    };
    let output = &args.output;
    let printer = Printer::stdout(output.mode, output.max_rows, output.timer, false);
    let mut runner = Runner::new(home, database, printer)?;
    if runner.database.is_snapshot() && !args.scratch {
        runner.connection.set_read_only(LOST);
    }
    interrupt::attach_once(&runner.connection);
    runner.text(&sql)?;
    if args.share {
        runner.database.share()?;
    }
    home.tell_if_new(&runner.database);
    Ok(())
}

/// Database and SQL. A single argument that cannot be a sensible name is SQL.
fn arguments(args: &SqlArgs) -> (Option<&str>, Option<&str>) {
    match (args.first.as_deref(), args.second.as_deref()) {
        (Some(text), None) if looks_like_sql(text) => (None, Some(text)),
        pair => pair,
    }
}

fn looks_like_sql(text: &str) -> bool {
    text.trim().contains([' ', '\n', '\t', ';', '(', '\''])
}

fn standard_input() -> Outcome<String> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("no SQL: give it as an argument or on the standard input"));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_statement_is_not_taken_for_a_name() {
        for sql in ["SELECT 1", "TABLE t;", "SELECT\n1", "VALUES(1)"] {
            assert!(looks_like_sql(sql), "{sql}");
        }
        for name in ["taxi", "my-db", "a.b", " taxi "] {
            assert!(!looks_like_sql(name), "{name}");
        }
    }
}
