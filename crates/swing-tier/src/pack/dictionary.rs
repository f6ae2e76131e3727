//! A dictionary: the different numbers of a block, and for each number its place among them.
//!
//! | bytes | |
//! |---|---|
//! | 2 | how many different numbers |
//! | width each | the numbers, in the order of their first use |
//! | | packed places (`bits`), as many bits as the last place needs |
//!
//! Bytes behind the last whole number follow as they are.

use super::bits::{GROUP, bits_of, group_bytes, pack, unpack};
use super::number::Number;
use super::reader::{Reader, Result, damaged};

/// The most different numbers.
pub(super) const MOST: usize = 4096;
/// Slots of the hash table: so many that chains are short.
const SLOTS: usize = 4 * MOST;
/// A slot that no number has.
const FREE: u16 = u16::MAX;

/// The different numbers seen so far.
struct Places<N> {
    values: Vec<N>,
    slots: Vec<u16>,
}

impl<N: Number> Places<N> {
    fn new() -> Self {
        Self { values: Vec::new(), slots: vec![FREE; SLOTS] }
    }

    /// The place of a number; `None`: there are too many.
    fn of(&mut self, number: N) -> Option<u64> {
        let mut slot = number.hash() as usize % SLOTS;
        loop {
            match self.slots[slot] {
                FREE => break,
                place if self.values[usize::from(place)] == number => return Some(place.into()),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
        if self.values.len() == MOST {
            return None;
        }
        self.slots[slot] = self.values.len() as u16;
        self.values.push(number);
        Some(self.values.len() as u64 - 1)
    }
}

fn place_bits(values: usize) -> u32 {
    bits_of(values.saturating_sub(1) as u64)
}

/// How many bytes a dictionary would take for `bytes`, judged by a sample of them; `None`: too
/// many different numbers for one.
pub(super) fn estimate<N: Number>(bytes: &[u8], stretches: usize) -> Option<usize> {
    /// Numbers of a stretch.
    const STRETCH: usize = 128;
    let (mut places, mut numbers, mut seen) = (Places::<N>::new(), Vec::new(), 0);
    let all = bytes.len().div_ceil(STRETCH * N::BYTES);
    for some in bytes.chunks(STRETCH * N::BYTES).step_by(all.div_ceil(stretches).max(1)) {
        N::load(some, &mut numbers);
        seen += numbers.len();
        for number in &numbers {
            places.of(*number)?;
        }
    }
    // Where most numbers of the sample are new, the rest has many more.
    let few = places.values.len() * 8 <= seen;
    let count = bytes.len() / N::BYTES;
    let bits = place_bits(places.values.len());
    few.then(|| 2 + places.values.len() * N::BYTES + count.div_ceil(GROUP) * group_bytes(bits))
}

/// Appends the numbers that `bytes` are; `false`: there are too many different ones, and `out` is
/// of no use.
pub(super) fn encode<N: Number>(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % N::BYTES);
    let mut places = Places::<N>::new();
    let (mut numbers, mut all) = (Vec::new(), Vec::with_capacity(whole.len() / N::BYTES));
    for some in whole.chunks(GROUP * N::BYTES) {
        N::load(some, &mut numbers);
        for number in &numbers {
            let Some(place) = places.of(*number) else { return false };
            all.push(place);
        }
    }
    out.extend_from_slice(&(places.values.len() as u16).to_le_bytes());
    places.values.iter().for_each(|value| value.append(out));
    pack(place_bits(places.values.len()), &all, out);
    out.extend_from_slice(rest);
    true
}

/// Reads the numbers of which `out` is full.
pub(super) fn decode<N: Number>(from: &mut Reader<'_>, out: &mut [u8]) -> Result<()> {
    let values = usize::from(u16::from_le_bytes(from.array()?));
    if values > MOST {
        return Err(damaged("a dictionary of too many values"));
    }
    let bytes = from.take(values * N::BYTES)?;
    let mut dictionary = Vec::new();
    N::load(bytes, &mut dictionary);
    let whole = out.len() - out.len() % N::BYTES;
    let (numbers, rest) = out.split_at_mut(whole);
    let mut found = true;
    unpack(place_bits(values), whole / N::BYTES, from, |at, places| {
        found &= N::put_values(&dictionary, places, &mut numbers[at * N::BYTES..]);
    })?;
    if !found {
        return Err(damaged("a place behind the end of its dictionary"));
    }
    rest.copy_from_slice(from.take(rest.len())?);
    Ok(())
}
