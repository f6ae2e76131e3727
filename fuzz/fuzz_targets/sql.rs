//! Bytes made into statements.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_processes::fuzz::sql(bytes));
