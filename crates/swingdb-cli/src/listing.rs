//! What the listings say of a database: its name for people, and JSON for programs.

use crate::home::Home;
use serde_json::{Value, json};
use swingdb::{AreaInfo, LineageNode};

/// Everything about all databases, and about what is left of dropped ones.
pub fn all(home: &Home, nodes: &[LineageNode], removed: &[AreaInfo]) -> Vec<Value> {
    let values = nodes.iter().map(|node| {
        let mut value = json_of(node);
        let store = home.store_of(&node.name);
        value["store"] = json!(store.as_ref().map(|(path, _)| path.to_string_lossy()));
        value["durability"] = json!(store.as_ref().map(|(_, when)| when.to_string()));
        value
    });
    let mut values: Vec<_> = values.collect();
    values.extend(removed.iter().map(|info| json_of_removed(info, nodes)));
    values
}

/// The names of those that came from it.
pub fn dependants(info: &AreaInfo, nodes: &[LineageNode]) -> Vec<String> {
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
