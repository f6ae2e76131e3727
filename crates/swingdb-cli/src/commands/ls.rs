//! `swingdb ls`: what is there, how large it is, who writes and who reads it.

use crate::args::ListArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::output::fixed_table;
use crate::units;
use serde_json::{Value, json};
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
        let values = nodes.iter().map(|node| {
            let mut value = json_of(node);
            let store = home.store_of(&node.name);
            value["store"] = json!(store.as_ref().map(|(path, _)| path.to_string_lossy()));
            value["durability"] = json!(store.as_ref().map(|(_, when)| when.to_string()));
            value
        });
        let mut values: Vec<_> = values.collect();
        values.extend(removed.iter().map(|info| json_of_removed(info, &nodes)));
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

/// The names of those that came from it.
fn dependants(info: &AreaInfo, nodes: &[LineageNode]) -> Vec<String> {
    let from_it = |node: &&LineageNode| node.info.parents.iter().any(|p| p.id == info.id);
    nodes.iter().filter(from_it).map(|node| node.name.clone()).collect()
}

/// As [`json_of`], of what is left of a dropped database.
fn json_of_removed(info: &AreaInfo, nodes: &[LineageNode]) -> Value {
    json!({
        "name": null,
        "dropped": true,
        "id": info.id.to_string(),
        "own_bytes": info.own.0,
        "created_ns": info.created_ns,
        "reader_pids": info.readers,
        "children": dependants(info, nodes),
    })
}

/// Its name, with what its owner calls it, or its identity in parentheses.
pub fn display_name(info: &AreaInfo) -> String {
    match (&info.name, &info.label) {
        (Some(name), Some(label)) => format!("{label} ({})", name.as_str()),
        (Some(name), None) => name.as_str().to_string(),
        (None, _) => format!("({})", info.id),
    }
}

/// Everything about a database, sizes in bytes, times in nanoseconds since 1970.
pub fn json_of(node: &LineageNode) -> Value {
    let info = &node.info;
    json!({
        "name": info.name.as_ref().map(|name| name.as_str()),
        "label": info.label,
        "dropped": false,
        "memory_gone": info.lost,
        "id": info.id.to_string(),
        "own_bytes": info.own.0,
        "shared_bytes": info.shared.0,
        "private_bytes": info.private.0,
        "mapped_bytes": info.mapped.0,
        "shared_epoch": info.shared_epoch.map(|epoch| epoch.0),
        "committed_epoch": info.committed_epoch.map(|epoch| epoch.0),
        "created_ns": info.created_ns,
        "shared_ns": info.shared_ns,
        "writer": info.owner.as_ref().map(|owner| json!({
            "pid": owner.pid,
            "command": owner.command,
        })),
        "reader_pids": info.readers,
        "parents": node.parents,
        "children": node.children,
    })
}
