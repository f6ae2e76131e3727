//! Which method a block is encoded with: [`encode`], and back: [`decode`].

use super::number::Number;
use super::reader::{PackError, Reader, Result, damaged};
use super::{bytes, dictionary, numbers, views};

const NUMBERS: u8 = 1;
const DICTIONARY: u8 = 2;
const VIEWS: u8 = 3;
const BYTES: u8 = 4;

/// Blocks below this length, in bytes, are stored as they are: a request reads more anyway.
const SMALLEST: usize = 512;
/// The same for LZ4, which clears tables of several KiB before it looks at the first byte.
const LZ4_SMALLEST: usize = 4 << 10;
/// An encoded block takes at most so many of 1000 bytes: decoding is not free.
const WORTH: usize = 875;
/// Vectors of numbers in a sample, and stretches in one for a dictionary.
const SAMPLED: usize = 12;
/// LZ4 is the slowest to decode, and is used where it saves more.
const LZ4_WORTH: usize = 750;

/// What a block is made of, as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Numbers of 1, 2, 4, 8 or 16 bytes, little-endian.
    Numbers {
        /// Bytes of a number.
        width: u8,
    },
    /// Views of Arrow's columnar format, 16 bytes each.
    Views,
    /// Anything else.
    Bytes,
}

/// The same block in fewer bytes; `None`: it is not worth it.
pub fn encode(block: &[u8], shape: Shape) -> Option<Vec<u8>> {
    if block.len() < SMALLEST || u32::try_from(block.len()).is_err() {
        return None;
    }
    let mut out = Vec::new();
    let encoded = match shape {
        Shape::Numbers { width: 1 } => encode_numbers::<i8>(block, &mut out),
        Shape::Numbers { width: 2 } => encode_numbers::<i16>(block, &mut out),
        Shape::Numbers { width: 4 } => encode_numbers::<i32>(block, &mut out),
        Shape::Numbers { width: 8 } => encode_numbers::<i64>(block, &mut out),
        Shape::Numbers { width: 16 } => encode_numbers::<i128>(block, &mut out),
        Shape::Views => encode_views(block, &mut out),
        Shape::Numbers { .. } | Shape::Bytes => false,
    };
    let encoded = encoded || encode_bytes(block, &mut out);
    (encoded && is_worth(out.len(), block.len(), WORTH)).then_some(out)
}

fn is_worth(encoded: usize, whole: usize, of_1000: usize) -> bool {
    (encoded as u64) * 1000 <= whole as u64 * of_1000 as u64
}

fn encode_numbers<N: Number>(block: &[u8], out: &mut Vec<u8>) -> bool {
    let (packed, sampled) = numbers::estimate::<N>(block, SAMPLED);
    let packed = (packed as u64 * block.len() as u64 / sampled.max(1) as u64) as usize;
    if let Some(bytes) = dictionary::estimate::<N>(block, SAMPLED)
        && bytes < packed
        && encode_dictionary::<N>(block, out)
        && out.len() <= packed
    {
        return true;
    }
    if !is_worth(packed, block.len(), WORTH) {
        return false;
    }
    out.clear();
    out.push(NUMBERS);
    out.push(N::BYTES as u8);
    numbers::encode::<N>(block, out);
    true
}

fn encode_dictionary<N: Number>(block: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(&[DICTIONARY, N::BYTES as u8]);
    dictionary::encode::<N>(block, out)
}

fn encode_views(block: &[u8], out: &mut Vec<u8>) -> bool {
    // Of short strings of few values; long ones have all different places.
    let estimate = dictionary::estimate::<i128>(block, SAMPLED);
    if estimate.is_some_and(|bytes| is_worth(bytes, block.len(), WORTH / 2))
        && encode_dictionary::<i128>(block, out)
    {
        return true;
    }
    out.clear();
    out.push(VIEWS);
    views::encode(block, out)
}

fn encode_bytes(block: &[u8], out: &mut Vec<u8>) -> bool {
    if block.len() < LZ4_SMALLEST || bytes::estimate(block) > LZ4_WORTH {
        return false;
    }
    out.clear();
    out.push(BYTES);
    bytes::encode(block, out);
    true
}

/// Fills `out` with the block that `encoded` was made of, which is exactly as long.
///
/// # Errors
/// [`PackError`] where `encoded` is no encoded block of this length; `out` holds anything then.
pub fn decode(encoded: &[u8], out: &mut [u8]) -> std::result::Result<(), PackError> {
    let mut from = Reader(encoded);
    match from.u8()? {
        NUMBERS => match from.u8()? {
            1 => numbers::decode::<i8>(&mut from, out)?,
            2 => numbers::decode::<i16>(&mut from, out)?,
            4 => numbers::decode::<i32>(&mut from, out)?,
            8 => numbers::decode::<i64>(&mut from, out)?,
            16 => numbers::decode::<i128>(&mut from, out)?,
            _ => return Err(damaged("numbers of another width")),
        },
        DICTIONARY => match from.u8()? {
            1 => dictionary::decode::<i8>(&mut from, out)?,
            2 => dictionary::decode::<i16>(&mut from, out)?,
            4 => dictionary::decode::<i32>(&mut from, out)?,
            8 => dictionary::decode::<i64>(&mut from, out)?,
            16 => dictionary::decode::<i128>(&mut from, out)?,
            _ => return Err(damaged("numbers of another width")),
        },
        VIEWS => views::decode(&mut from, out)?,
        BYTES => bytes::decode(&mut from, out)?,
        _ => return Err(damaged("an unknown method")),
    }
    finished(from)
}

fn finished(from: Reader<'_>) -> Result<()> {
    from.finish()
}
