//! Packing numbers of a few bits: 64 numbers of `b` bits take `b` words of 64 bits.
//!
//! The number `k` begins at bit `k * b`, counted from the lowest bit of the first word on. With the
//! width known when the program is compiled, all shifts are constants; so there is one function for
//! each width, in a table.

use super::reader::{Reader, Result, damaged};

/// Numbers that are packed together.
pub(super) const GROUP: usize = 64;

/// Bytes of a packed group.
pub(super) fn group_bytes(bits: u32) -> usize {
    bits as usize * 8
}

/// Bits that a number needs.
pub(super) fn bits_of(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

/// Appends numbers below `2^bits`; the last group is filled up with zeros.
pub(super) fn pack(bits: u32, numbers: &[u64], out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    for some in numbers.chunks(GROUP) {
        let end = out.len() + group_bytes(bits);
        let (mut word, mut used) = (0u64, 0);
        for number in some {
            word |= number << used;
            used += bits;
            if used >= u64::BITS {
                out.extend_from_slice(&word.to_le_bytes());
                used -= u64::BITS;
                // The bits that did not fit; none if the number ended with the word.
                word = if used == 0 { 0 } else { number >> (bits - used) };
            }
        }
        if used > 0 {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.resize(end, 0);
    }
}

/// Calls `take` for each group of `count` numbers: with its place, counted in numbers, and the
/// numbers.
pub(super) fn unpack(
    bits: u32,
    count: usize,
    from: &mut Reader<'_>,
    mut take: impl FnMut(usize, &[u64]),
) -> Result<()> {
    let unpack = UNPACK.get(bits as usize).ok_or(damaged("numbers of too many bits"))?;
    let packed = from.take(count.div_ceil(GROUP) * group_bytes(bits))?;
    let mut numbers = [0; GROUP];
    for at in (0..count).step_by(GROUP) {
        let start = at / GROUP * group_bytes(bits);
        unpack(&packed[start..start + group_bytes(bits)], &mut numbers);
        take(at, &numbers[..GROUP.min(count - at)]);
    }
    Ok(())
}

/// Unpacks a group of numbers of `BITS` bits.
fn unpack_group<const BITS: usize>(from: &[u8], numbers: &mut [u64; GROUP]) {
    let (words, _) = from.as_chunks::<8>();
    let mut word = [0u64; BITS];
    for (word, bytes) in word.iter_mut().zip(words) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mask = if BITS == 0 { 0 } else { u64::MAX >> (64 - BITS) };
    for (k, number) in numbers.iter_mut().enumerate() {
        let (at, shift) = (k * BITS / 64, k * BITS % 64);
        *number = if BITS == 0 {
            0
        } else if shift + BITS <= 64 {
            word[at] >> shift & mask
        } else {
            (word[at] >> shift | word[at + 1] << (64 - shift)) & mask
        };
    }
}

type Unpack = fn(&[u8], &mut [u64; GROUP]);

macro_rules! table {
    ($($bits:literal)*) => { [$(unpack_group::<$bits>),*] };
}

/// By the number of bits.
static UNPACK: [Unpack; 65] = table!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for bits in 0..=64 {
            for count in [0, 1, 63, 64, 65, 1000] {
                let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
                let numbers: Vec<u64> =
                    (0..count).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
                let mut packed = Vec::new();
                pack(bits, &numbers, &mut packed);
                let (mut reader, mut found) = (Reader(&packed), Vec::new());
                unpack(bits, count as usize, &mut reader, |at, some| {
                    assert_eq!(at, found.len());
                    found.extend_from_slice(some);
                })
                .unwrap();
                reader.finish().unwrap();
                assert_eq!(found, numbers, "{bits} bits");
                assert!(numbers.iter().all(|n| bits_of(*n) <= bits));
            }
        }
        assert!(unpack(65, 1, &mut Reader(&[0; 600]), |_, _| {}).is_err());
        assert!(unpack(9, 64, &mut Reader(&[0; 71]), |_, _| {}).is_err());
    }
}
