//! Arrow IPC files and streams.

pub mod check;
mod lengths;
pub mod scan;
