//! `swingdb generate`: data to play with and to measure on.

use crate::args::{GenerateArgs, Generated};
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::progress::Bar;
use crate::units;
use std::time::Instant;
use swingdb_generate::TaxiOptions;

pub fn run(home: &Home, args: &GenerateArgs) -> Outcome {
    let (name, share) = match &args.what {
        Generated::Taxi { database, no_share, .. } => (database, !no_share),
        Generated::Tpch { database, no_share, .. } => (database, !no_share),
    };
    if let Generated::Tpch { scale, .. } = args.what
        && !(scale > 0.0 && scale.is_finite())
    {
        return Err(Failure::usage("--scale is a number above 0"));
    }
    let database = home.open(name)?;
    let connection = database.connect();
    let start = Instant::now();
    let bar = Bar::show(&connection, name);
    let rows = match &args.what {
        Generated::Taxi { table, rows, seed, .. } => {
            let options = TaxiOptions { rows: *rows, seed: *seed, ..TaxiOptions::default() };
            swingdb_generate::fill_taxi(&connection, table, &options)?
        }
        Generated::Tpch { scale, keys, .. } => {
            let tables = swingdb_generate::fill_tpch(&connection, *scale, *keys)?;
            tables.iter().map(|(_, rows)| rows).sum()
        }
    };
    drop(bar);
    let taken = units::duration(start.elapsed());
    println!("{} generated in {name} in {taken}", units::rows(rows));
    if share {
        database.share()?;
    }
    Ok(())
}
