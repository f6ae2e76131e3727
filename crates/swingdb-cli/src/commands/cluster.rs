//! `swingdb --cluster`: runs `swingdb-cluster`, a program of its own, in the place of this one.

use std::path::Path;

use crate::args::ShellArgs;
use crate::commands::beside;
use crate::failure::{Failure, Outcome};
use crate::home::Home;

/// The program with the shell on a cluster.
const SHELL: &str = "swingdb-cluster";

pub fn run(home: &Home, file: &Path, args: &ShellArgs) -> Outcome {
    if home.has_store() || home.directory().is_some() {
        let message = "--home and --store: the databases of a cluster are at its nodes";
        return Err(Failure::usage(message));
    }
    beside::exec(SHELL, beside::INSTALL_CLUSTER, |command| {
        let output = &args.output;
        command.arg("--mode").arg(output.mode.name());
        command.arg("--max-rows").arg(output.max_rows.to_string());
        if output.timer {
            command.arg("--timer");
        }
        for text in &args.commands {
            // In one word: a text may begin with a hyphen.
            command.arg(format!("--command={text}"));
        }
        command.arg("--").arg(file);
    })
}
