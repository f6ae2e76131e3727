//! `swingdb node`: runs `swingdb-node`, a program of its own, in the place of this one.

use crate::args::NodeArgs;
use crate::commands::beside;
use crate::failure::Outcome;
use crate::home::Home;

/// The program that serves databases to a cluster.
const NODE: &str = "swingdb-node";

pub fn run(home: &Home, args: &NodeArgs) -> Outcome {
    beside::exec(NODE, beside::INSTALL_CLUSTER, |command| {
        if let Some(directory) = home.directory() {
            command.arg("--home").arg(directory);
        }
        command.args(&args.arguments);
    })
}
