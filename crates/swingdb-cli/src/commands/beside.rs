//! Programs of their own, which one command starts in the place of this one: [`exec`].

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// How one gets the programs of a cluster.
pub const INSTALL_CLUSTER: &str = "it is not a part of the usual build; `make cluster` builds it \
                                   (docs/cluster.md)";

/// Runs `program` with arguments in the place of this one; returns only if that fails. `install`
/// says how one gets it.
pub fn exec(program: &str, install: &str, arguments: impl FnOnce(&mut Command)) -> Outcome {
    // Installed and built together, both lie in one directory; else $PATH says where.
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(program));
    let found = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(program));
    let mut command = Command::new(&found);
    arguments(&mut command);
    let error = command.exec();
    Err(Failure::message(match error.kind() {
        ErrorKind::NotFound => {
            format!("the program {program} is neither beside this one nor in $PATH: {install}")
        }
        _ => format!("{}: {error}", found.display()),
    }))
}
