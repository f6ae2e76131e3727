//! Lives of an allocator made from bytes, against a naive model: the same code as the test
//! `sessions_made_from_bytes_agree_with_the_model` of swing-malloc.

#![no_main]

#[path = "../../../crates/swing-malloc/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| common::world::session(bytes));
