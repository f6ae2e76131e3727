//! Packed numbers: for each vector of 1024 the distance from the least one, or from one number to
//! the next.
//!
//! | bytes | vector |
//! |---|---|
//! | 1 | bits of a packed number, 0 to 64; 128 more: differences; 127: the numbers |
//! | width | the least number; of differences the first number |
//! | 8 | of differences: the least one |
//! | | packed: how far each is above the least (`bits`) |
//!
//! Bytes behind the last whole number follow as they are.

use super::bits::{bits_of, group_bytes, pack, unpack};
use super::number::Number;
use super::reader::{Reader, Result, damaged};

/// Numbers that have one header.
pub(super) const VECTOR: usize = 1024;
/// The number of bits is one of differences.
const DIFFERENCES: u8 = 128;
/// The numbers follow as they are.
const PLAIN: u8 = 127;
/// Differences have to save so many bits of a number: reading them takes a chain of additions.
const WORTH: u32 = 2;

/// How a vector is encoded.
enum Encoding<N> {
    Plain,
    Offsets { bits: u32, least: N },
    Differences { bits: u32, first: N, least: i64 },
}

impl<N: Number> Encoding<N> {
    fn of(numbers: &[N]) -> Self {
        let (mut least, mut most) = (numbers[0], numbers[0]);
        for number in numbers {
            least = least.min(*number);
            most = most.max(*number);
        }
        let offsets = most.above(least).map(bits_of).filter(|b| (*b as usize) < N::BYTES * 8);
        let offset_bits = offsets.unwrap_or(N::BYTES as u32 * 8);
        if offset_bits > WORTH
            && let Some((low, bits)) = steps(numbers)
            && bits + WORTH <= offset_bits
        {
            return Encoding::Differences { bits, first: numbers[0], least: low };
        }
        offsets.map_or(Encoding::Plain, |bits| Encoding::Offsets { bits, least })
    }

    /// Bytes of a vector of `count` numbers.
    fn bytes(&self, count: usize) -> usize {
        let groups = count.div_ceil(super::bits::GROUP);
        match *self {
            Encoding::Plain => 1 + count * N::BYTES,
            Encoding::Offsets { bits, .. } => 1 + N::BYTES + groups * group_bytes(bits),
            Encoding::Differences { bits, .. } => 9 + N::BYTES + groups * group_bytes(bits),
        }
    }
}

/// The least step from number to number, and how many bits the others need above it.
fn steps<N: Number>(numbers: &[N]) -> Option<(i64, u32)> {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for pair in numbers.windows(2) {
        let step = pair[1].step(pair[0])?;
        (least, most) = (least.min(step), most.max(step));
    }
    Some(if least > most { (0, 0) } else { (least, bits_of(most.abs_diff(least))) })
}

/// How many bytes the packed numbers would take, from a sample: bytes of vectors, and of these as
/// they are.
pub(super) fn estimate<N: Number>(bytes: &[u8], vectors: usize) -> (usize, usize) {
    let (mut packed, mut whole, mut numbers) = (0, 0, Vec::with_capacity(VECTOR));
    let all = bytes.len().div_ceil(VECTOR * N::BYTES);
    for some in bytes.chunks(VECTOR * N::BYTES).step_by(all.div_ceil(vectors).max(1)) {
        N::load(some, &mut numbers);
        if !numbers.is_empty() {
            packed += Encoding::of(&numbers).bytes(numbers.len());
            whole += some.len();
        }
    }
    (packed, whole)
}

/// Appends the numbers that `bytes` are.
pub(super) fn encode<N: Number>(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut numbers, mut packed) = (Vec::with_capacity(VECTOR), Vec::with_capacity(VECTOR));
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % N::BYTES);
    for some in whole.chunks(VECTOR * N::BYTES) {
        N::load(some, &mut numbers);
        packed.clear();
        match Encoding::of(&numbers) {
            Encoding::Plain => {
                out.push(PLAIN);
                out.extend_from_slice(some);
            }
            Encoding::Offsets { bits, least } => {
                out.push(bits as u8);
                least.append(out);
                packed.extend(numbers.iter().map(|n| n.above(least).unwrap_or(0)));
                pack(bits, &packed, out);
            }
            Encoding::Differences { bits, first, least } => {
                out.push(DIFFERENCES | bits as u8);
                first.append(out);
                out.extend_from_slice(&least.to_le_bytes());
                // The first number is `least` above one that does not exist.
                packed.push(0);
                let steps = numbers.windows(2).map(|pair| pair[1].step(pair[0]).unwrap_or(least));
                packed.extend(steps.map(|step| step.abs_diff(least)));
                pack(bits, &packed, out);
            }
        }
    }
    out.extend_from_slice(rest);
}

/// Reads the numbers of which `out` is full.
pub(super) fn decode<N: Number>(from: &mut Reader<'_>, out: &mut [u8]) -> Result<()> {
    let whole = out.len() - out.len() % N::BYTES;
    let (numbers, rest) = out.split_at_mut(whole);
    for some in numbers.chunks_mut(VECTOR * N::BYTES) {
        vector::<N>(from, some)?;
    }
    rest.copy_from_slice(from.take(rest.len())?);
    Ok(())
}

fn vector<N: Number>(from: &mut Reader<'_>, out: &mut [u8]) -> Result<()> {
    let (header, count) = (from.u8()?, out.len() / N::BYTES);
    if header == PLAIN {
        out.copy_from_slice(from.take(out.len())?);
        return Ok(());
    }
    let bits = u32::from(header & !DIFFERENCES);
    let base = N::read(from.take(N::BYTES)?).ok_or(damaged("a vector without a base"))?;
    if header & DIFFERENCES == 0 {
        return unpack(bits, count, from, |at, offsets| {
            N::put_offsets(base, offsets, &mut out[at * N::BYTES..]);
        });
    }
    let least = i64::from_le_bytes(from.array()?);
    // The first step comes to the first number.
    let mut last = N::before(base, least);
    unpack(bits, count, from, |at, steps| {
        last = N::put_steps(last, least, steps, &mut out[at * N::BYTES..]);
    })
}
