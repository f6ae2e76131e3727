//! Text as values: fields of CSV records and values of JSON, decoded into columns.
//!
//! [`split`] cuts whole records, [`fields`] finds their fields, [`parse`] makes batches of them.
//! [`columns`] decodes the fields of a column, [`json_values`] what [`json_scanner`] reads;
//! [`json_writer`] writes values as JSON. What single values look like is in [`values`] (numbers,
//! dates, times), in [`styles`] (what the user has said of them) and in [`types`] (names of types);
//! a [`dialect`] has quotes and separators.

pub(crate) mod columns;
pub(crate) mod dialect;
pub(crate) mod fields;
pub(crate) mod json_scanner;
pub(crate) mod json_values;
pub(crate) mod json_writer;
pub(crate) mod parse;
pub(crate) mod shown;
pub(crate) mod split;
pub(crate) mod styles;
pub(crate) mod types;
pub(crate) mod values;
