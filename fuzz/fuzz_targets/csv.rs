//! Bytes taken for CSV, cut into pieces in several ways.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_processes::fuzz::csv(bytes));
