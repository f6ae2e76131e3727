//! Parquet files: read as columns by [`scan`], or by the query engine in place ([`table`]).

mod bounds;
mod chunks;
mod damage;
pub(crate) mod described;
mod footer;
mod guarded_source;
mod intervals;
pub mod scan;
pub mod table;
mod widths;
