//! `swingdb drop`: names go at once, memory when nobody needs it.

use crate::args::DropArgs;
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::units;
use swingdb::Error;

pub fn run(home: &Home, args: &DropArgs) -> Outcome {
    let mut failed = false;
    for name in &args.names {
        match home.drop(name) {
            Ok(report) => {
                let freed = units::bytes(report.freed.0);
                let kept = match report.kept.0 {
                    0 => String::new(),
                    kept => format!(", {} still used by snapshots", units::bytes(kept)),
                };
                println!("{name} dropped: {freed} freed{kept}");
            }
            Err(Error::NotFound { .. }) if args.if_exists => {}
            Err(error) => {
                // The others are dropped all the same.
                eprintln!("error: {error}");
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}
