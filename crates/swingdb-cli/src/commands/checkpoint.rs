//! `swingdb checkpoint`: the last committed state of a database gets to its store on a disk, or
//! into a directory of its own.

use crate::args::CheckpointArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::units;
use std::time::Instant;
use swingdb::{Error, ObjectKind};

pub fn run(home: &Home, args: &CheckpointArgs) -> Outcome {
    let start = Instant::now();
    let (info, place) = match &args.directory {
        Some(directory) => {
            let info = home.snapshot(&args.database)?.checkpoint_to(directory)?;
            (info, directory.display().to_string())
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
