//! SQL: from a text to an executable plan, stage by stage.
//!
//! | stage | from | to | may know |
//! |---|---|---|---|
//! | [`text`] | characters | statements | the text |
//! | [`desugar`] | syntax tree | syntax tree, short forms written out | one statement |
//! | [`bind`] | syntax tree | syntax tree, every name resolved | one state of the catalogs |
//! | [`plan`] | syntax tree | logical plan | functions, operators |
//! | [`analyze`] | logical plan | logical plan, types settled | the plan |
//! | [`optimize`] | logical plan | logical plan, faster | also statistics |
//! | [`physical`] | logical plan | execution plan | also partitions |
//!
//! Below the stages lie [`ast`], [`nodes`], [`options`] and [`scan`], which they share; above them
//! [`planner`], which takes a statement through binding and planning, `passes.rs`, the list of all
//! passes in their order, from which they are run, and [`engine`], what all sessions share. A stage
//! uses only those before it; `tools/check_layers.py` checks it. Nothing here knows a session: the
//! crate `swingdb` above takes a statement through the stages, and carries the plan out.

#![forbid(unsafe_code)]

mod analyze;
pub mod ast;
pub mod bind;
pub mod check;
mod desugar;
pub mod engine;
mod merge_shares;
mod nodes;
mod optimize;
pub mod optimized;
pub mod options;
mod passes;
mod physical;
pub mod plan;
pub mod planner;
pub mod scan;
mod spill_files;
pub mod text;
