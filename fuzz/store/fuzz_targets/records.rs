//! Arbitrary bytes for every decoder of a store's records: root, tables, pages.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swingdb_store::decode_anything(bytes));
