//! `swingdb checkpoint`: the last committed state of a database gets to its store on a disk, or
//! into a directory of its own.

use crate::args::CheckpointArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::units;
use std::path::Path;
use std::time::Instant;
use swingdb::{CheckpointInfo, Error, ObjectKind};

pub fn run(home: &Home, args: &CheckpointArgs) -> Outcome {
    let start = Instant::now();
    let (info, place) = match &args.directory {
        Some(directory) => {
            (copy(home, &args.database, directory)?, directory.display().to_string())
        }
        None => {
            let known = home.lineage()?;
            let names = known.iter().filter_map(|node| node.info.name.as_ref());
            let names = names.map(|name| name.as_str());
            if !home.has_store() && !names.clone().any(|name| name == args.database) {
                return Err(Error::not_found(ObjectKind::Database, &args.database, names).into());
            }
            let database = home.open(&args.database)?;
            let info = database.checkpoint()?;
            let place = database.durable_info().map(|info| info.path.display().to_string());
            database.close()?;
            (info, place.unwrap_or_default())
        }
    };
    let written = units::bytes(info.written_bytes);
    let taken = units::duration(start.elapsed());
    println!("{} is in {place}: {written} written in {taken}", args.database);
    Ok(())
}

/// Copies what was shared last, while somebody writes the database or not. A database of which
/// nothing was shared has a last commit, too: it is opened for that, if nobody has it open.
fn copy(home: &Home, name: &str, directory: &Path) -> Outcome<CheckpointInfo> {
    let not_shared = match home.snapshot(name) {
        Ok(snapshot) => return Ok(snapshot.checkpoint_to(directory)?),
        Err(failure @ Failure::Database(Error::NotShared { .. })) => failure,
        Err(failure) => return Err(failure),
    };
    let database = match home.open(name) {
        Err(Failure::Database(Error::Busy { .. })) => return Err(not_shared),
        opened => opened?,
    };
    let info = database.checkpoint_to(directory)?;
    database.close()?;
    Ok(info)
}
