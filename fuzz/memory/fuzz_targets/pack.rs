//! Encoded blocks: any bytes are decoded to something or refused, and any block comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use swing_tier::pack::{Shape, decode, encode};

/// The most bytes of a decoded block.
const MOST: usize = 1 << 16;

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (shape, len, bytes) = input;
    let mut out = vec![0; usize::from(len).min(MOST)];
    let _ = decode(bytes, &mut out);
    let shape = match shape % 7 {
        width @ 0..5 => Shape::Numbers { width: 1 << width },
        5 => Shape::Views,
        _ => Shape::Bytes,
    };
    // Longer than the smallest block that is encoded at all.
    let block = bytes.repeat(1 + usize::from(len) % 9);
    if let Some(encoded) = encode(&block, shape) {
        let mut decoded = vec![0xAA; block.len()];
        decode(&encoded, &mut decoded).expect("what was encoded");
        assert_eq!(decoded, block);
    }
});
