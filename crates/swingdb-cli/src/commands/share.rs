//! `swingdb share`: the last committed state of a database becomes the one that snapshots see.

use crate::args::ShareArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::units;
use std::time::Instant;

pub fn run(home: &Home, args: &ShareArgs) -> Outcome {
    // Opening creates what is missing; sharing an empty database by a typing error helps nobody.
    let known = home.lineage()?;
    let mut names = known.iter().filter_map(|node| node.info.name.as_ref());
    if !names.any(|name| name.as_str() == args.database) {
        return Err(Failure::message(format!("database {:?} does not exist", args.database)));
    }
    let database = home.open(&args.database)?;
    let start = Instant::now();
    let shared = database.share()?;
    let taken = units::duration(start.elapsed());
    println!("{} shared, epoch {}, in {taken}", args.database, shared.epoch);
    Ok(())
}
