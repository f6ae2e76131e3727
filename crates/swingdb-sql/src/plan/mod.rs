//! Planning: what the query engine's planner asks of us while it makes a logical plan of a bound
//! statement, and rewrites of that plan before types are settled.
//!
//! [`rewrite`] lists the rewrites that make a plan mean what the text says. [`operators`] and
//! [`aggregate_calls`] plan what the engine does not know; [`size`] refuses plans too large to
//! walk; [`materialized_parts`] finds what is computed once; [`sound_relations`] corrects what the
//! engine derives of relations.

pub(crate) mod absent_rows;
pub(crate) mod aggregate_calls;
pub(crate) mod calls_by_type;
pub(crate) mod dates;
pub(crate) mod dates_and_numbers;
pub(crate) mod decimals_and_floats;
pub(crate) mod drawn_once;
pub(crate) mod drawn_subqueries;
pub(crate) mod durations;
pub(crate) mod empty_subqueries;
pub(crate) mod enums;
pub(crate) mod lengths;
pub mod materialized_parts;
pub(crate) mod mixed_unions;
pub(crate) mod moments;
pub(crate) mod operators;
pub(crate) mod outer_aggregates;
pub(crate) mod patterns;
pub(crate) mod point_series;
pub(crate) mod range_frames;
pub(crate) mod recursive_json;
pub(crate) mod recursive_rows;
pub(crate) mod refused_casts;
pub(crate) mod repeated;
pub(crate) mod rewrite;
pub(crate) mod set_operations;
pub(crate) mod size;
pub(crate) mod sound_relations;
pub(crate) mod struct_fields;
pub(crate) mod structs;
pub(crate) mod times;
pub(crate) mod unsteady;
pub(crate) mod uuid_places;
pub(crate) mod uuids;
pub(crate) mod value_rows;
pub(crate) mod withs;
pub(crate) mod written_texts;
