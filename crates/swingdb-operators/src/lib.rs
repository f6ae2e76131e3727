//! Operators of physical plans that the query engine lacks, and the rules that place them.
//!
//! This crate knows DataFusion's physical plans and Arrow. It knows no text of SQL, no catalog and
//! no session.
//!
//! - [`shared_join`]: a hash join whose one table is built by all threads.
//! - [`grace_join`]: a hash join that goes on in temporary files where its table does not fit.
//! - [`top_of_groups`]: the first rows of each group, without a sort of all rows.

#![forbid(unsafe_code)]

pub mod grace_join;
mod join_display;
mod meeting;
pub mod shared_join;
pub mod top_of_groups;
