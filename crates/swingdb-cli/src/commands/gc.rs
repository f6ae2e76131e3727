//! `swingdb gc`: what dead processes left behind.

use crate::failure::Outcome;
use crate::home::Home;
use crate::units;

pub fn run(home: &Home) -> Outcome {
    let report = home.gc()?;
    println!(
        "{} freed: {} removed, {} of dead writers cleaned",
        units::bytes(report.freed.0),
        report.removed,
        report.swept
    );
    Ok(())
}
