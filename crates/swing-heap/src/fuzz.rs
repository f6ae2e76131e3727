//! Arbitrary bytes for every decoder of what a heap keeps on a disk or shows to other processes,
//! past the checksums: an error, or something that is written and read as the same.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use swing_tier::storage::{IoResult, StorageFile};

use crate::core::Core;
use crate::disk::{BLOCK_BYTES, Disk, objects_in};
use crate::entry::{Changes, DiskPlace, GROUP_ENTRIES, Table};
use crate::memory::Memory;
use crate::policy::PolicyKind;
use crate::state::State;
use crate::store::Payload;

/// Blocks of the heap whose entries are decoded.
const BLOCKS: usize = 4;

/// A file that nobody reads or writes.
#[derive(Debug)]
struct NoFile;

impl StorageFile for NoFile {
    fn path(&self) -> &Path {
        Path::new("no file")
    }
    fn len(&self) -> IoResult<u64> {
        Ok((BLOCKS * BLOCK_BYTES) as u64)
    }
    fn preallocate(&self, _offset: u64, _len: u64) -> IoResult<()> {
        Ok(())
    }
    fn truncate(&self, _len: u64) -> IoResult<()> {
        Ok(())
    }
    fn sync(&self) -> IoResult<()> {
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Gives the bytes to the decoder that the first one names.
///
/// # Panics
/// If what was decoded is not decoded again from its own encoding, or breaks an invariant.
pub fn decode_anything(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 4 {
        0 => {
            if let Ok(state) = State::decode(bytes) {
                assert_eq!(State::decode(&state.encode()), Ok(state));
            }
        }
        1 => {
            if let Ok(payload) = Payload::decode(bytes, Path::new("fuzz")) {
                let again = Payload::decode(&payload.encode(), Path::new("fuzz"));
                assert_eq!(again.ok(), Some(payload));
            }
        }
        2 => {
            let bytes = &bytes[..bytes.len().min(BLOCK_BYTES)];
            let mut end = 0;
            for (_, offset, len) in objects_in(bytes) {
                assert!(offset as usize >= end && offset as usize + len <= bytes.len());
                end = offset as usize + len;
            }
        }
        _ => recover(bytes),
    }
}

/// Takes the words of entries in, as after opening, as far as they are entries.
fn recover(bytes: &[u8]) {
    let disk = Disk::on(Arc::new(NoFile), 1, (BLOCKS * BLOCK_BYTES) as u64, &Memory::Process);
    let changes = Arc::new(Changes::new(false));
    let table = Table::new(Memory::Process);
    let mut core = Core::new(disk, (8 << 20, PolicyKind::default()), 0, changes, Memory::Process);
    core.disk.recover_blocks(BLOCKS);
    let word = |at: &[u8]| at.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    for (id, words) in bytes.chunks_exact(16).take(GROUP_ENTRIES).enumerate() {
        let (state, place) = (word(&words[..8]), word(&words[8..]));
        let decoded = DiskPlace::decode(place);
        assert_eq!(DiskPlace::decode(decoded.encode()), decoded);
        if !core.recover_entry(&table, id as u32, (state, place)) {
            return;
        }
    }
    core.disk.recovered();
    core.check(&table).unwrap_or_else(|what| panic!("{what}"));
    // Free ids are used again, each once.
    let mut taken = std::collections::HashSet::new();
    for _ in 0..4 {
        if let Ok(handle) = core.take_id(&table) {
            assert!(taken.insert(handle.id()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::BUFFERS;
    use crate::entry::{Handle, evicted, with_generation};
    use crate::store::tests::payload;

    /// Good bytes of each decoder, to begin from.
    fn seeds() -> Vec<Vec<u8>> {
        let state = State {
            ids: 7,
            seed: 1,
            root: Some(Handle::from_bits(5 << 32)),
            base: 0x7000_0000_0000,
            pid: 1234,
            fd: 9,
            file: (77, 1 << 40),
            blocks: 3,
            buffers: [None; BUFFERS],
        };
        let mut block = vec![0; 64];
        for len in [1_u16, 9, 100] {
            block.extend(7_u32.to_le_bytes());
            block.extend((len - 1).to_le_bytes());
            block.resize(block.len() + 2 + usize::from(len).next_multiple_of(8), 0);
        }
        let mut group = Vec::new();
        for id in 0..8_u64 {
            let place = DiskPlace { block: 1, offset: 72 + 16 * id as u32, len: 8, era: 0 };
            let free = (with_generation(3, 0), 0);
            let words = if id % 3 == 0 { free } else { (evicted(1, 7), place.encode()) };
            group.extend([words.0, words.1].into_iter().flat_map(u64::to_le_bytes));
        }
        let encoded = [state.encode(), payload().encode(), block, group];
        encoded
            .into_iter()
            .zip(0_u8..)
            .map(|(bytes, which)| [vec![which], bytes].concat())
            .collect()
    }

    #[test]
    fn changed_bytes_are_refused_or_decoded_for_good() {
        let seed = std::env::var("SWING_SEED").map_or_else(
            |_| swing_tier::random_u64(),
            |text| text.parse().expect("SWING_SEED is a number"),
        );
        println!("SWING_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let seeds = seeds();
        seeds.iter().for_each(|seed| decode_anything(seed));
        for _ in 0..8000 {
            let mut bytes = seeds[random.usize(0..seeds.len())].clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(1..bytes.len());
                bytes[at] = random.u8(..);
            }
            if random.u32(0..4) == 0 {
                bytes.truncate(random.usize(1..=bytes.len()));
            }
            decode_anything(&bytes);
        }
    }
}
