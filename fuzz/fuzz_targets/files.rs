//! Damaged Parquet, Arrow and JSON files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_processes::fuzz::files(bytes));
