//! SQL through the public interface: results, names, parameters, isolation, interrupts, scans.
//!
//! One binary for all modules: each test binary links the whole query engine.

#[path = "sql/aggregates.rs"]
mod aggregates;
#[path = "sql/asof.rs"]
mod asof;
#[path = "sql/blobs.rs"]
mod blobs;
#[path = "sql/casts.rs"]
mod casts;
#[path = "sql/clauses.rs"]
mod clauses;
#[path = "sql/common.rs"]
mod common;
#[path = "sql/confined.rs"]
mod confined;
#[path = "sql/conversions.rs"]
mod conversions;
#[path = "sql/dependent.rs"]
mod dependent;
#[path = "sql/digits.rs"]
mod digits;
#[path = "sql/duckdb_forms.rs"]
mod duckdb_forms;
#[path = "sql/duckdb_queries.rs"]
mod duckdb_queries;
#[path = "sql/equality.rs"]
mod equality;
#[path = "sql/forms.rs"]
mod forms;
#[path = "sql/functions.rs"]
mod functions;
#[path = "sql/grouping_sets.rs"]
mod grouping_sets;
#[path = "sql/groups.rs"]
mod groups;
#[path = "sql/identifiers.rs"]
mod identifiers;
#[path = "sql/interrupts.rs"]
mod interrupts;
#[path = "sql/isolation.rs"]
mod isolation;
#[path = "sql/json.rs"]
mod json;
#[path = "sql/limits.rs"]
mod limits;
#[path = "sql/macros.rs"]
mod macros;
#[path = "sql/meaning.rs"]
mod meaning;
#[path = "sql/memory.rs"]
mod memory;
#[path = "sql/moving.rs"]
mod moving;
#[path = "sql/nested_order.rs"]
mod nested_order;
#[path = "sql/nested_text.rs"]
mod nested_text;
#[path = "sql/order.rs"]
mod order;
#[path = "sql/overflow.rs"]
mod overflow;
#[path = "sql/parameters.rs"]
mod parameters;
#[path = "sql/queries.rs"]
mod queries;
#[path = "sql/scans.rs"]
mod scans;
#[path = "sql/scopes.rs"]
mod scopes;
#[path = "sql/sequences.rs"]
mod sequences;
#[path = "sql/show.rs"]
mod show;
#[path = "sql/sources.rs"]
mod sources;
#[path = "sql/temporary.rs"]
mod temporary;
#[path = "sql/times.rs"]
mod times;
#[path = "sql/uuids.rs"]
mod uuids;
#[path = "sql/which_rows.rs"]
mod which_rows;
#[path = "sql/with.rs"]
mod with;
