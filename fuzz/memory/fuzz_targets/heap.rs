//! Arbitrary bytes for every decoder of an object heap: blocks, tables, shared states.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swing_heap::decode_anything(bytes));
