//! `swingdb ls`: what is there, how large it is, who writes and who reads it.

use crate::args::ListArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::listing::{self, dependants, display_name};
use crate::output::fixed_table;
use crate::units;
use std::io::{BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use swingdb::{AreaInfo, LineageNode};

pub fn run(home: &Home, args: &ListArgs) -> Outcome {
    print(home, args.json)
}

/// Prints the listing.
pub fn print(home: &Home, as_json: bool) -> Outcome {
    let (nodes, removed) = (home.lineage()?, home.removed()?);
    let mut sink = BufWriter::new(std::io::stdout());
    if as_json {
        let values = listing::all(home, &nodes, &removed);
        serde_json::to_writer_pretty(&mut sink, &values).map_err(std::io::Error::from)?;
        writeln!(sink)?;
    } else if nodes.is_empty() && removed.is_empty() {
        writeln!(sink, "no databases")?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut rows: Vec<_> = nodes.iter().map(|node| row(home, &node.info, now_ns)).collect();
        rows.extend(removed.iter().map(|info| removed_row(info, &nodes)));
        let names = [
            "name",
            "own",
            "shared",
            "private",
            "epoch",
            "shared ago",
            "writer",
            "readers",
            "store",
        ];
        let right = [false, true, true, true, true, true, false, false, false];
        fixed_table(&mut sink, &names, &rows, &right)?;
    }
    sink.flush()?;
    Ok(())
}

fn row(home: &Home, info: &AreaInfo, now_ns: u64) -> Vec<String> {
    let dash = || "-".to_string();
    let readers: Vec<_> = info.readers.iter().map(u32::to_string).collect();
    let store = info.name.as_ref().and_then(|name| home.store_of(name.as_str()));
    let store = store.map(|(path, when)| format!("{} ({when})", path.display()));
    vec![
        display_name(info),
        units::bytes(info.own.0),
        units::bytes(info.shared.0),
        units::bytes(info.private.0),
        info.shared_epoch.map_or_else(dash, |epoch| epoch.0.to_string()),
        info.shared_ns.map_or_else(dash, |then| units::age(then, now_ns)),
        match &info.owner {
            Some(owner) => format!("{} {}", owner.pid, owner.command),
            None if info.lost => "- (memory gone)".to_string(),
            None => dash(),
        },
        if readers.is_empty() { dash() } else { readers.join(" ") },
        store.unwrap_or_else(dash),
    ]
}

/// What is left of a dropped database, and who holds it.
fn removed_row(info: &AreaInfo, nodes: &[LineageNode]) -> Vec<String> {
    let dash = || "-".to_string();
    let holders: Vec<_> = info.readers.iter().map(u32::to_string).collect();
    let holders: Vec<_> = holders.into_iter().chain(dependants(info, nodes)).collect();
    vec![
        format!("(dropped {})", info.id),
        units::bytes(info.own.0),
        units::bytes(info.shared.0),
        units::bytes(info.private.0),
        dash(),
        dash(),
        dash(),
        if holders.is_empty() { dash() } else { holders.join(" ") },
        dash(),
    ]
}
