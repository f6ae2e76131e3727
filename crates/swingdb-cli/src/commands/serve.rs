//! `swingdb serve`: runs `swingdb-server`, a program of its own, in the place of this one.

use crate::args::ServeArgs;
use crate::commands::beside;
use crate::failure::Outcome;
use crate::home::Home;

/// The program that serves.
const SERVER: &str = "swingdb-server";
/// How one gets it.
const INSTALL: &str = "build it with `cargo build --release -p swingdb-server`, or install \
                       everything with `make install`";

pub fn run(home: &Home, args: &ServeArgs) -> Outcome {
    beside::exec(SERVER, INSTALL, |command| {
        if let Some(directory) = home.directory() {
            command.arg("--home").arg(directory);
        }
        command.args(&args.arguments);
    })
}
