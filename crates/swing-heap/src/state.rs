//! What a shared state of a heap says besides the bytes of its area: the payload of the publish.
//!
//! | bytes | |
//! |---|---|
//! | 0-7 | `SwObSnap` |
//! | 8-11, 12-15 | version 1; ids in use |
//! | 16-23, 24-31 | seed of the checksums; the root object's handle, or 0 |
//! | 32-39 | the address at which the owner has the area |
//! | 40-43, 44-47 | the owner's process; the number at which it has the file of blocks |
//! | 48-55, 56-63 | device and inode of that file |
//! | 64-67, 68-71 | blocks of the file; zeros |
//! | 72-87 | the blocks in the four buffers; all ones: the buffer holds none |
//!
//! All numbers are little-endian. Nothing is believed before it is checked.

use crate::disk::BUFFERS;
use crate::entry::Handle;
use crate::memory::MAX_AREA_IDS;

const MAGIC: &[u8; 8] = b"SwObSnap";
const VERSION: u32 = 1;
const LEN: usize = 72 + 4 * BUFFERS;
const NO_BLOCK: u32 = u32::MAX;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) ids: u32,
    pub(crate) seed: u64,
    pub(crate) root: Option<Handle>,
    /// The address at which the owner has the area.
    pub(crate) base: u64,
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    /// Device and inode of the file.
    pub(crate) file: (u64, u64),
    pub(crate) blocks: u32,
    pub(crate) buffers: [Option<u32>; BUFFERS],
}

impl State {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend(MAGIC);
        let mut put = |number: u64, len: usize| bytes.extend(&number.to_le_bytes()[..len]);
        put(VERSION.into(), 4);
        put(self.ids.into(), 4);
        put(self.seed, 8);
        put(self.root.map_or(0, Handle::to_bits), 8);
        put(self.base, 8);
        put(self.pid.into(), 4);
        put(self.fd.into(), 4);
        put(self.file.0, 8);
        put(self.file.1, 8);
        put(self.blocks.into(), 8);
        self.buffers.iter().for_each(|block| put(block.unwrap_or(NO_BLOCK).into(), 4));
        assert_eq!(bytes.len(), LEN, "as the table says");
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != LEN || bytes[..8] != *MAGIC {
            return Err("its payload is that of another program");
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(8) != VERSION {
            return Err("it is of another version");
        }
        if word(12) > MAX_AREA_IDS || word(68) != 0 {
            return Err("its payload contradicts itself");
        }
        let block = |index: usize| Some(word(72 + 4 * index)).filter(|block| *block != NO_BLOCK);
        Ok(State {
            ids: word(12),
            seed: long(16),
            root: Some(long(24)).filter(|bits| *bits != 0).map(Handle::from_bits),
            base: long(32),
            pid: word(40),
            fd: word(44),
            file: (long(48), long(56)),
            blocks: word(64),
            buffers: std::array::from_fn(block),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_as_written_and_others_are_refused() {
        let state = State {
            ids: 7,
            seed: u64::MAX - 1,
            root: Some(Handle::from_bits(5 << 32)),
            base: 0x7000_0000_0000,
            pid: 1234,
            fd: 9,
            file: (77, 1 << 40),
            blocks: 3,
            buffers: [Some(0), None, Some(2), None],
        };
        let bytes = state.encode();
        assert_eq!(State::decode(&bytes), Ok(state));
        let none = State { root: None, ..state };
        assert_eq!(State::decode(&none.encode()), Ok(none));
        assert!((0..bytes.len()).all(|len| State::decode(&bytes[..len]).is_err()));
        for at in [0, 7, 8, 15, 68] {
            let mut other = bytes.clone();
            other[at] ^= 0x80;
            assert!(State::decode(&other).is_err(), "{at}");
        }
    }
}
