//! How small a file's bytes get, and how fast they are encoded and decoded, block by block.
//!
//!     cargo run --release -p swing-tier --example pack_speed -- FILE SHAPE [BLOCK_BYTES]
//!
//! SHAPE is `bytes`, `views`, or the width of numbers.

use std::time::Instant;

use swing_tier::pack::{Shape, decode, encode};

/// Each block is decoded so often; the fastest counts.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, shape, rest @ ..] = arguments.as_slice() else {
        return Err("FILE SHAPE [BLOCK_BYTES]".into());
    };
    let bytes = std::fs::read(file)?;
    let shape = match shape.as_str() {
        "bytes" => Shape::Bytes,
        "views" => Shape::Views,
        width => Shape::Numbers { width: width.parse()? },
    };
    let block_bytes = rest.first().map_or(Ok(2 << 20), |bytes| bytes.parse())?;
    let begun = Instant::now();
    let blocks: Vec<_> = bytes.chunks(block_bytes).map(|block| encode(block, shape)).collect();
    let encoding = begun.elapsed();
    let (mut out, mut small, mut packed) = (vec![0; block_bytes], 0, 0);
    let mut decoding = std::time::Duration::ZERO;
    for (block, encoded) in bytes.chunks(block_bytes).zip(&blocks) {
        let Some(encoded) = encoded else {
            small += block.len();
            continue;
        };
        small += encoded.len();
        packed += block.len();
        let mut best = std::time::Duration::MAX;
        for _ in 0..RUNS {
            let begun = Instant::now();
            decode(encoded, &mut out[..block.len()])?;
            best = best.min(begun.elapsed());
        }
        decoding += best;
        assert!(out[..block.len()] == *block, "other bytes come back");
    }
    let method = blocks.iter().flatten().next().map(|encoded| encoded[0]);
    println!(
        "{file}: {:.3} of its bytes (method {method:?}); encoded at {:.0}, decoded at {:.0} MB/s",
        small as f64 / bytes.len() as f64,
        bytes.len() as f64 / 1e6 / encoding.as_secs_f64(),
        packed as f64 / 1e6 / decoding.as_secs_f64().max(1e-9),
    );
    Ok(())
}
