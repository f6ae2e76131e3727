//! SQL: sessions, planning, reading and changing.
//!
//! A text goes through [`statement`] (parse, number parameters, dispatch), then [`planner`] (names
//! resolved against one immutable [`view::View`] of the catalogs) into DataFusion, and comes back
//! through [`stream`] as a [`result::QueryResult`]. Tables are read by [`provider`] and [`scan`]
//! straight from the segments. Statements that change something live in [`write`].

pub(crate) mod analyze;
pub(crate) mod ast;
pub(crate) mod bind;
pub(crate) mod clauses;
pub(crate) mod desugar;
pub(crate) mod engine;
pub(crate) mod nodes;
pub(crate) mod optimize;
pub(crate) mod options;
pub(crate) mod physical;
pub(crate) mod plan;
pub(crate) mod scan;
pub(crate) mod text;
