//! Arbitrary bytes for the reader of saved device profiles.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swing_tier::decode_any_profile(bytes));
