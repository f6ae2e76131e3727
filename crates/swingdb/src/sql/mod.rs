//! SQL: sessions, planning, reading and changing.
//!
//! A text goes through [`statement`] (parse, number parameters, dispatch), then [`planner`] (names
//! resolved against one immutable [`view::View`] of the catalogs) into DataFusion, and comes back
//! through [`stream`] as a [`result::QueryResult`]. Tables are read by [`provider`] and [`scan`]
//! straight from the segments. Statements that change something live in [`write`].

mod aggregates;
mod aliases;
pub(crate) mod append;
pub(crate) mod appender;
pub(crate) mod arithmetic;
mod asof;
mod backup;
pub(crate) mod calls;
pub(crate) mod clauses;
mod columns;
pub(crate) mod copy;
mod dependent;
pub(crate) mod depth;
pub(crate) mod dialect;
pub(crate) mod engine;
pub(crate) mod equality;
mod explain;
pub(crate) mod foreign;
pub(crate) mod forms;
mod given;
pub(crate) mod idents;
pub(crate) mod information;
mod lambda_types;
pub(crate) mod limits;
mod machine;
pub(crate) mod macros;
mod materialize;
mod one_input;
mod operators;
pub(crate) mod optimizer;
pub(crate) mod params;
mod physical;
pub(crate) mod planner;
mod plans;
pub(crate) mod prepared;
pub(crate) mod provider;
pub(crate) mod pruning;
pub(crate) mod result;
pub(crate) mod rewrites;
pub(crate) mod scan;
mod scopes;
pub(crate) mod sequences;
pub(crate) mod session;
pub(crate) mod settings;
mod settled;
pub(crate) mod show;
pub(crate) mod show_create;
mod size;
mod slices;
mod stars;
pub(crate) mod statement;
pub(crate) mod statistics;
mod steps;
pub(crate) mod stream;
pub(crate) mod table_scan;
pub(crate) mod temporary;
mod text_memory;
pub(crate) mod view;
pub(crate) mod visit;
mod withs;
pub(crate) mod write;
mod zones;
