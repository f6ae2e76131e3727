//! Damaged manifests, with wrong and with right checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_processes::fuzz::manifest(bytes));
