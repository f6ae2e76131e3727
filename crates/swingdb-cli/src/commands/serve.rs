//! `swingdb serve`: runs `swingdb-server`, a program of its own, in the place of this one.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::args::ServeArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;

/// The program that serves.
const SERVER: &str = "swingdb-server";

pub fn run(home: &Home, args: &ServeArgs) -> Outcome {
    if home.has_store() {
        return Err(Failure::usage("--store: a server reads the memory of a database"));
    }
    // Installed and built together, both lie in one directory; else $PATH says where.
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(SERVER));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(SERVER));
    let mut command = Command::new(&program);
    if let Some(directory) = home.directory() {
        command.arg("--home").arg(directory);
    }
    let error = command.args(&args.arguments).exec();
    Err(Failure::message(match error.kind() {
        ErrorKind::NotFound => format!(
            "the program {SERVER} is neither beside this one nor in $PATH: build it with \
             `cargo build --release -p {SERVER}`, or install everything with `make install`"
        ),
        _ => format!("{}: {error}", program.display()),
    }))
}
