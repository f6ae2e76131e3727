//! Bytes, by LZ4 (crate `lz4_flex`, whose decoder checks every length): for text.
//!
//! Frames of 256 KiB, each with the length of its encoded bytes (4 bytes) before it. A frame that
//! does not get smaller has the length that it has decoded, and is stored as it is.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use super::reader::{Reader, Result, damaged};

/// Bytes of a frame when it is decoded.
const FRAME: usize = 256 << 10;
/// Bytes of one part of the sample.
const SAMPLE: usize = 8 << 10;

/// How many bytes the encoded ones take of 1000, from a sample.
pub(super) fn estimate(bytes: &[u8]) -> usize {
    let parts = bytes.len().div_ceil(SAMPLE);
    let (mut encoded, mut whole) = (0, 0);
    let mut out = vec![0; get_maximum_output_size(SAMPLE)];
    for some in bytes.chunks(SAMPLE).step_by(parts.div_ceil(4).max(1)) {
        encoded += compress_into(some, &mut out).unwrap_or(some.len()).min(some.len());
        whole += some.len();
    }
    encoded * 1000 / whole.max(1)
}

/// Appends frames.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for frame in bytes.chunks(FRAME) {
        let start = out.len() + 4;
        out.resize(start + get_maximum_output_size(frame.len()), 0);
        let len = compress_into(frame, &mut out[start..]).unwrap_or(usize::MAX);
        let len = if len < frame.len() {
            len
        } else {
            out[start..start + frame.len()].copy_from_slice(frame);
            frame.len()
        };
        out.truncate(start + len);
        out[start - 4..start].copy_from_slice(&(len as u32).to_le_bytes());
    }
}

/// Reads the frames of which `out` is full.
pub(super) fn decode(from: &mut Reader<'_>, out: &mut [u8]) -> Result<()> {
    for frame in out.chunks_mut(FRAME) {
        let len = from.len()?;
        let encoded = from.take(len)?;
        if len == frame.len() {
            frame.copy_from_slice(encoded);
        } else if decompress_into(encoded, frame).ok() != Some(frame.len()) {
            return Err(damaged("LZ4 of other bytes"));
        }
    }
    Ok(())
}
