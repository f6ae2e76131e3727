//! Types by their names in SQL: [`sql_names`] says what a type is called, [`arrow_types`] what a
//! declaration means.

pub mod arrow_types;
pub mod sql_names;
