//! `swingdb restore`: a database from a store on a disk, in memory.

use crate::args::RestoreArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::progress;
use crate::units;
use std::time::Instant;

pub fn run(home: &Home, args: &RestoreArgs) -> Outcome {
    let start = Instant::now();
    let name = args.name.as_deref();
    let database =
        progress::during("restore", |report| home.restore(&args.directory, name, report))?;
    database.share()?;
    let info = database.info();
    let name = info.name.as_deref().unwrap_or_default();
    let taken = units::duration(start.elapsed());
    println!("{name}: {} tables, {} rows, in {taken}; shared", info.tables, info.rows);
    database.close()?;
    Ok(())
}
