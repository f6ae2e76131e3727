//! `swingdb share`: the last committed state of a database becomes the one that snapshots see.

use crate::args::ShareArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::units;
use std::time::Instant;
use swingdb::{Error, ObjectKind};

pub fn run(home: &Home, args: &ShareArgs) -> Outcome {
    // Opening creates what is missing; sharing an empty database by a typing error helps nobody.
    let known = home.lineage()?;
    let names = known.iter().filter_map(|node| node.info.name.as_ref()).map(|name| name.as_str());
    if !names.clone().any(|name| name == args.database) {
        return Err(Error::not_found(ObjectKind::Database, &args.database, names).into());
    }
    let database = home.open(&args.database)?;
    let start = Instant::now();
    let shared = database.share()?;
    let taken = units::duration(start.elapsed());
    println!("{} shared, epoch {}, in {taken}", args.database, shared.epoch);
    Ok(())
}
