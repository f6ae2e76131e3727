//! Parquet files: read as columns by [`scan`], or by the query engine in place ([`table`]).

mod bounds;
mod chunks;
mod damage;
mod declared;
mod footer;
mod guarded_source;
mod intervals;
mod known;
pub mod scan;
pub mod table;
mod widths;
pub(crate) mod written;
