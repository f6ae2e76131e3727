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
//! [`planner`], which takes a statement through binding and planning, and [`engine`], which lists
//! the rules of the later stages in their order. A stage uses those before it only;
//! `tools/check_layers.py` sees to it. Who carries plans out is [`execute`](crate::execute).

pub(crate) mod analyze;
pub(crate) mod ast;
pub(crate) mod bind;
pub(crate) mod check;
pub(crate) mod desugar;
pub(crate) mod engine;
pub(crate) mod nodes;
pub(crate) mod optimize;
pub(crate) mod options;
pub(crate) mod physical;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod scan;
pub(crate) mod text;
