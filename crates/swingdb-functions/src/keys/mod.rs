//! What compares as equal is the same row of a join, a group, a partition: floating point with one
//! zero and one NaN, intervals by their length, nested values with a NULL above all others.

pub mod bit_set;
pub mod intervals;
pub mod nested;
pub mod order;
pub mod same_bits;
