//! Functions of numbers.

pub mod of_numbers;
pub mod rounding;
