//! Functions of lists, structs and maps.

pub mod appended;
pub mod chosen;
pub mod elements;
pub mod fields;
pub mod joined_lists;
pub mod lambdas;
pub mod lengths;
pub mod lists;
pub mod map;
pub mod map_values;
pub mod membership;
pub mod parts;
pub mod places;
pub mod sorted;
pub mod structs;
pub mod unified;
