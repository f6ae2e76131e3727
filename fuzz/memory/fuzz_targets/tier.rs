//! Arbitrary bytes for every decoder of a log's files on a disk.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swing_tier::decode_anything(bytes));
