//! The commands, one file each.

pub mod checkpoint;
pub mod doctor;
pub mod drop;
pub mod export;
pub mod gc;
pub mod generate;
pub mod import;
pub mod ls;
pub mod probe;
mod probe_plot;
pub mod restore;
pub mod serve;
pub mod share;
pub mod sql;
pub mod tree;
