//! What all layers of the database share: errors, values, types by their SQL names, conversion
//! between types, dates and times, threads and cancellation.
//!
//! Nothing here knows a table, a file format or a statement.
//!
//! * [`error`]: the one error type, with [`area_errors`] for what the memory layer reports.
//! * [`cast`]: values of one type as another, as SQL converts them, and as text.
//! * [`types`]: what SQL calls types, and which types a declaration names.
//! * [`time`]: the calendar, time zones, intervals, and all of them as text.
//! * [`runtime`]: the threads that statements run on, how they are interrupted, their memory.

#![deny(unsafe_code)]

pub mod area_errors;
pub mod cast;
mod engine_words;
pub mod enums;
pub mod error;
pub mod floats;
pub mod json;
pub mod names;
pub mod own_texts;
pub mod progress;
pub mod runtime;
pub mod time;
mod type_names;
pub mod types;
pub mod uuid;
pub mod value;
