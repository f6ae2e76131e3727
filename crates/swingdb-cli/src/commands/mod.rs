//! The commands, one file each.

mod beside;
pub mod checkpoint;
pub mod cluster;
pub mod doctor;
pub mod drop;
pub mod export;
pub mod gc;
pub mod generate;
pub mod import;
pub mod ls;
pub mod node;
pub mod probe;
mod probe_plot;
pub mod restore;
pub mod serve;
pub mod share;
pub mod sql;
pub mod tree;
pub mod ui;
