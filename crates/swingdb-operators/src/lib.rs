//! Operators of physical plans that the query engine lacks, and the rules that place them.
//!
//! This crate knows DataFusion's physical plans and Arrow. It knows no text of SQL, no catalog and
//! no session.
//!
//! - [`shared_join`]: a hash join whose one table is built by all threads.

#![forbid(unsafe_code)]

pub mod shared_join;
