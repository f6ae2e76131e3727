//! SHOW FUNCTIONS: the names of all functions that a statement may call, and of which kind each is.
//!
//! Functions that stand in plans only ([`INTERNAL`]) are left out: a statement that calls one by
//! its name gets what the planner makes of the call, which no document promises.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::execute::show::table::{result, strings};
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::sql::bind::functions::stand_ins;
use crate::sql::bind::macros::known;

/// Functions that the binder and the planner put into plans, and two of the engine that need scans
/// of its own.
const INTERNAL: [&str; 29] = [
    "array_agg_in_order",
    "as_json",
    "as_parts",
    "as_uuid",
    "asof_join",
    "at_time_zone",
    "bitwise_not",
    "byte_length",
    "bytes_text",
    "drawn_once",
    "file_row_index",
    "first_elements",
    "first_value_in_order",
    "input_file_name",
    "last_value_in_order",
    "map_of_lists",
    "mode_in_order",
    "nth_value_in_order",
    "only_element",
    "regexp_extract_all_names",
    "regexp_extract_names",
    "string_agg_in_order",
    "text_bytes",
    "time_of_parts",
    "timestamp_of_parts",
    "try_as_json",
    "try_as_parts",
    "try_as_uuid",
    "zone_offset",
];

/// Runs SHOW FUNCTIONS.
pub(crate) fn functions(session: &Arc<Session>) -> Result<QueryResult> {
    let engine = session.engine()?;
    let mut all = known::names(&session.view()?);
    let aggregates = engine.aggregate_functions();
    let of_rows = engine.scalar_functions().keys().chain(engine.higher_order_functions().keys());
    all.extend(of_rows.map(|name| (name.clone(), "scalar")));
    all.extend(aggregates.keys().map(|name| (name.clone(), "aggregate")));
    all.extend(engine.window_functions().keys().map(|name| (name.clone(), "window")));
    all.extend(engine.table_functions().keys().map(|name| (name.clone(), "table")));
    // Macros may have the names of internal functions.
    all.retain(|(name, kind)| kind.ends_with("macro") || !INTERNAL.contains(&name.as_str()));
    for (name, stands_for) in stand_ins() {
        let mut words = stands_for.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_aggregate = words.any(|word| aggregates.contains_key(word));
        all.push((name.to_string(), if is_aggregate { "aggregate" } else { "scalar" }));
    }
    all.sort();
    all.dedup();
    let (names, kinds): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    result(vec![("name", strings(names)), ("kind", strings(kinds))], "SHOW")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::engine;

    #[test]
    fn internal_functions_are_registered() {
        let engine = engine::base_state().unwrap();
        for name in INTERNAL {
            let is_known = engine.scalar_functions().contains_key(name)
                || engine.aggregate_functions().contains_key(name)
                || engine.window_functions().contains_key(name);
            assert!(is_known, "{name}");
        }
    }
}
