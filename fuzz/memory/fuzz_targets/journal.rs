//! Arbitrary bytes for the commits of a journal, behind their checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swing_tier::decode_any_commit(bytes));
