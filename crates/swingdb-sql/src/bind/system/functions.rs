//! The names of all functions that a statement may call, and of which kind each is.
//!
//! Functions that stand in plans only ([`INTERNAL`]) are left out: a statement that calls one by
//! its name gets what the planner makes of the call, which no document promises.

use datafusion::execution::session_state::SessionState;
use swingdb_functions::json::rows;

use crate::bind::catalogs::Catalogs;
use crate::bind::functions::stand_ins;
use crate::bind::macros::known;
use crate::bind::named_queries;
use crate::bind::system::names::{FUNCTIONS, SCALARS};
use crate::desugar::json_transform;

/// Functions that the binder and the planner put into plans, and two of the engine that need scans
/// of its own.
pub const INTERNAL: [&str; 39] = [
    "array_agg_in_order",
    "as_enum",
    "as_json",
    "as_parts",
    "as_uuid",
    "asof_join",
    "at_time_zone",
    "bitwise_not",
    "byte_length",
    "bytes_text",
    "drawn_once",
    "enum_position",
    "file_row_index",
    "first_elements",
    "first_value_in_order",
    "input_file_name",
    "json_column_of_row",
    "json_each_rows",
    "json_tree_rows",
    "last_value_in_order",
    "like_pattern",
    "map_of_lists",
    "mode_in_order",
    "named_cast",
    "nth_value_in_order",
    "only_element",
    "regexp_extract_all_names",
    "regexp_extract_names",
    "string_agg_in_order",
    "text_bytes",
    "time_of_parts",
    "timestamp_of_micros",
    "timestamp_of_nanos",
    "timestamp_of_parts",
    "try_as_enum",
    "try_as_json",
    "try_as_parts",
    "try_as_uuid",
    "zone_offset",
];

/// Names and kinds: `scalar`, `aggregate`, `window`, `table`, `macro`, `table macro`; in order.
pub fn all(view: &Catalogs, engine: &SessionState) -> Vec<(String, &'static str)> {
    let mut all = known::names(view);
    let aggregates = engine.aggregate_functions();
    let of_rows = engine.scalar_functions().keys().chain(engine.higher_order_functions().keys());
    all.extend(of_rows.map(|name| (name.clone(), "scalar")));
    all.extend(SCALARS.iter().map(|name| (name.to_string(), "scalar")));
    all.extend(aggregates.keys().map(|name| (name.clone(), "aggregate")));
    all.extend(engine.window_functions().keys().map(|name| (name.clone(), "window")));
    all.extend(engine.table_functions().keys().map(|name| (name.clone(), "table")));
    all.extend(rows::names().map(|name| (name.to_string(), "table")));
    all.extend(named_queries::NAMES.map(|name| (name.to_string(), "table")));
    all.extend(json_transform::names().map(|name| (name.to_string(), "scalar")));
    all.extend(FUNCTIONS.iter().map(|name| (name.to_string(), "table")));
    // Macros may have the names of internal functions.
    all.retain(|(name, kind)| kind.ends_with("macro") || !INTERNAL.contains(&name.as_str()));
    for (name, stands_for) in stand_ins() {
        let mut words = stands_for.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_aggregate = words.any(|word| aggregates.contains_key(word));
        all.push((name.to_string(), if is_aggregate { "aggregate" } else { "scalar" }));
    }
    all.sort();
    all.dedup();
    all
}
