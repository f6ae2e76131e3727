//! `swingdb checkpoint`: the last committed state of a database gets to its store on a disk, or
//! into a directory of its own.
//!
//! The store of a database that another process has open is that process's alone. With durability
//! `commit` it has every commit already; else only that process can bring it up to date.

use crate::args::CheckpointArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::units;
use std::path::Path;
use std::time::Instant;
use swingdb::{CheckpointInfo, Durability, Error, ObjectKind};

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
            let database = match home.open(&args.database) {
                Err(Failure::Database(busy @ Error::Busy { .. })) if !home.has_store() => {
                    return of_another_process(home, &args.database, busy);
                }
                opened => opened?,
            };
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

/// Says how the store stands of a database that another process has open.
fn of_another_process(home: &Home, name: &str, busy: Error) -> Outcome {
    let Error::Busy { pid: Some(pid), command, .. } = &busy else { return Err(busy.into()) };
    let process = match (pid, command) {
        (0, _) => "a process that cannot be seen from here".to_owned(),
        (pid, Some(command)) => format!("process {pid} ({command})"),
        (pid, None) => format!("process {pid}"),
    };
    let writes = match home.store_of(name) {
        Some((path, Durability::Commit)) => {
            println!("{name} is in {}: {process} writes each commit there", path.display());
            return Ok(());
        }
        Some((path, Durability::Interval(every))) => {
            let every = units::duration(every);
            format!("it writes the store {} every {every}", path.display())
        }
        Some((path, Durability::Manual)) => {
            format!("it writes the store {} with CHECKPOINT alone", path.display())
        }
        None => "no state with a store was shared yet, so it cannot be told how its store stands"
            .to_owned(),
    };
    Err(Failure::message(format!(
        "database {name:?} is open for writing in {process}; {writes}. Run CHECKPOINT there, or \
         copy what it has shared: swingdb checkpoint {name} DIR"
    )))
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
