//! Functions of lists, structs and maps.

pub mod chosen;
pub mod fields;
pub mod joined_lists;
pub mod lambdas;
pub mod lists;
pub mod map;
pub mod map_values;
pub mod parts;
pub mod structs;
