//! Databases, and which process holds which memory.

use crate::failure::Outcome;
use crate::home::Home;
use crate::listing;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use swingdb::{AreaInfo, Finding};

/// The databases as `swingdb ls --json` has them, and the processes that hold their memory.
pub fn all(home: &Home) -> Outcome<Value> {
    let (nodes, removed) = (home.lineage()?, home.removed()?);
    let mut held: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    for node in &nodes {
        hold(&mut held, &node.info, &node.name);
    }
    for info in &removed {
        hold(&mut held, info, &format!("(dropped {})", info.id));
    }
    let processes = held.into_iter().map(|(pid, holds)| process(pid, holds));
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "databases": listing::all(home, &nodes, &removed),
        "processes": processes.collect::<Vec<_>>(),
    }))
}

/// Notes who writes and who reads a database. Its writer keeps its own memory; a reader shares what
/// the newest state shows.
fn hold(held: &mut BTreeMap<u32, Vec<Value>>, info: &AreaInfo, name: &str) {
    if let Some(owner) = &info.owner {
        let value = json!({"database": name, "role": "writer", "bytes": info.own.0});
        held.entry(owner.pid).or_default().push(value);
    }
    for pid in &info.readers {
        // What is left of a dropped database shows nothing any more.
        let bytes = if info.mapped.0 > 0 { info.mapped.0 } else { info.own.0 };
        let value = json!({"database": name, "role": "reader", "bytes": bytes});
        held.entry(*pid).or_default().push(value);
    }
}

fn process(pid: u32, holds: Vec<Value>) -> Value {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let status = read("status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    json!({
        "pid": pid,
        "command": read("comm").map(|name| name.trim_end().to_string()),
        "resident_bytes": field("VmRSS:"),
        "is_this": pid == std::process::id(),
        "holds": holds,
    })
}

/// What `swingdb doctor` says.
pub fn findings(home: &Home) -> Value {
    let value = |f: &Finding| json!({"what": f.what, "cost": f.cost, "mend": f.mend});
    json!({"findings": home.doctor().iter().map(value).collect::<Vec<_>>()})
}
