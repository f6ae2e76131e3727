//! Sessions of changes, shares and snapshots made from bytes, against a simple model.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_processes::fuzz::session(bytes));
