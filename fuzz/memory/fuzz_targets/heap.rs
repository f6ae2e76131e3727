//! Arbitrary bytes for every decoder of what an object heap keeps on a disk or shows to others.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| swing_heap::decode_anything(bytes));
