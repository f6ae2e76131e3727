//! Equal floating point numbers are the same row of a join, a group, a partition.
//!
//! The query engine compares by bits wherever it hashes or sorts, and so tells `-0.0` from `0.0`
//! and one NaN from another. [`rule`] puts the function [`same_bits`] around every floating point
//! key: of joins and `IN (SELECT ...)`, of groups and DISTINCT (and with that of UNION, INTERSECT
//! and EXCEPT), of partitions and of ORDER BY; and around both sides of a comparison, unless one is
//! a plain number: the engine compares that right, and the scan can then skip segments. Other keys,
//! and so nearly all queries, stay as they are.
//!
//! A plain number is not compared right with a NaN whose sign is set, which the engine has below
//! all numbers. So what may be one ([`signs`] knows) gets the function there too, and below `min`,
//! `max`, quantiles, `greatest` and `least`. [`extremes`] finds the least and the greatest of
//! groups.
//!
//! What a group or DISTINCT shows is `0.0`.
//!
//! [`lists`] has `x IN (1, NULL)` and pairs of lists be what SQL says.
//!
//! Intervals are compared by their length in the same places, see [`intervals`], and lists, structs
//! and maps in an [`order`] in which a NULL inside is the greatest.
//!
//! [`same_bits`]: swingdb_functions::keys::same_bits
//! [`extremes`]: swingdb_functions::aggregates::extremes
//! [`intervals`]: swingdb_functions::keys::intervals
//! [`order`]: swingdb_functions::keys::order

mod comparisons;
pub(crate) mod groups;
mod keys;
mod lists;
mod nodes;
mod order;
pub(crate) mod rule;
pub(crate) mod signs;
