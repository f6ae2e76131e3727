//! The bytes of a block, and the checksum of a piece.
//!
//! A block is 4096-byte units in a row of one file: a header of 64 bytes, then the payload, then
//! zeros. The header lets a reader of the file tell where it is; whether the payload is right, only
//! the reference to it says: a [`Piece`] holds file, offset, length and checksum. So a block that
//! was written to the wrong place, or never, is found too, and not only a damaged one.
//!
//! | bytes | header |
//! |---|---|
//! | 0-3 | `SwBk` |
//! | 4-5 | version, 1 |
//! | 6-7 | kind: 1 data, 2 commit |
//! | 8-11 | file |
//! | 12-15 | unit: offset in the file / 4096 |
//! | 16-23 | generation of the file |
//! | 24-27 | bytes of payload |
//! | 28-31 | checksum of bytes 0-27 (low half of XXH3) |
//! | 32-63 | reserved for the nonce and the tag of an encrypted payload; zeros |

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::units::{FileId, Generation, MAX_BLOCK_BYTES, UNIT_BYTES, round_up};

/// Length of a block's header, in bytes.
pub(crate) const HEADER_BYTES: u64 = 64;
/// The most bytes of payload a block holds.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = MAX_BLOCK_BYTES - HEADER_BYTES;
/// Records that are cut are cut at multiples of this many bytes, counted from the record's begin.
/// So no number in an array of them is cut in two.
pub const CHUNK_ALIGN: usize = 64;
const _: () = assert!(MAX_PAYLOAD_BYTES.is_multiple_of(CHUNK_ALIGN as u64));
/// The version of the format of all files of a log.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"SwBk";

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records, or parts of a manifest.
    Data = 1,
    /// One commit.
    Commit = 2,
}

/// Where some bytes of a record lie, and what they must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub file: FileId,
    /// The first byte's place in the file.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
    /// XXH3 of the bytes, seeded with file, offset and generation.
    pub checksum: u64,
}

impl Piece {
    /// The reference to `bytes` that lie, or will lie, at `offset` of a file.
    pub(crate) fn of(bytes: &[u8], file: FileId, generation: Generation, offset: u64) -> Self {
        let checksum = checksum(bytes, file, generation, offset);
        Piece { file, offset, len: bytes.len() as u32, checksum }
    }

    /// Whether `bytes` are those that the reference is to (INV-TIER-2).
    pub(crate) fn matches(&self, bytes: &[u8], generation: Generation) -> bool {
        bytes.len() == self.len as usize
            && self.checksum == checksum(bytes, self.file, generation, self.offset)
    }

    /// The first byte after the piece.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

fn checksum(bytes: &[u8], file: FileId, generation: Generation, offset: u64) -> u64 {
    xxh3_64_with_seed(bytes, place_seed(file, generation, offset))
}

/// A seed that no other place of any file has.
pub(crate) fn place_seed(file: FileId, generation: Generation, offset: u64) -> u64 {
    let mut place = [0_u8; 20];
    place[..4].copy_from_slice(&file.0.to_le_bytes());
    place[4..12].copy_from_slice(&generation.0.to_le_bytes());
    place[12..].copy_from_slice(&offset.to_le_bytes());
    xxh3_64(&place)
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: Kind,
    pub(crate) file: FileId,
    pub(crate) unit: u32,
    pub(crate) generation: Generation,
    pub(crate) payload_len: u32,
}

impl BlockHeader {
    /// The whole block's length in bytes.
    pub(crate) fn block_len(&self) -> u64 {
        round_up(HEADER_BYTES + u64::from(self.payload_len))
    }

    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&(FORMAT_VERSION as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.file.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.unit.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_len.to_le_bytes());
        let check = xxh3_64(&bytes[..28]) as u32;
        bytes[28..32].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..32)?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let known = head[..4] == MAGIC && u32::from(half(4)) == FORMAT_VERSION;
        if !known || word(28) != xxh3_64(&head[..28]) as u32 {
            return None;
        }
        let kind = match half(6) {
            1 => Kind::Data,
            2 => Kind::Commit,
            _ => return None,
        };
        let generation = u64::from(word(16)) | u64::from(word(20)) << 32;
        let header = BlockHeader {
            kind,
            file: FileId(word(8)),
            unit: word(12),
            generation: Generation(generation),
            payload_len: word(24),
        };
        Some(header).filter(|h| u64::from(h.payload_len) <= MAX_PAYLOAD_BYTES)
    }
}

/// The unit of an offset, as a header holds it. Files are far shorter than 2^32 units.
pub(crate) fn unit_of(offset: u64) -> u32 {
    (offset / UNIT_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        let (file, generation) = (FileId(7), Generation(0x0123_4567_89ab_cdef));
        BlockHeader { kind: Kind::Commit, file, unit: 9, generation, payload_len: 5000 }
    }

    #[test]
    fn a_header_reads_as_written() {
        assert_eq!(BlockHeader::decode(&header().encode()), Some(header()));
        assert_eq!(header().block_len(), 8192);
    }

    #[test]
    fn each_single_bit_of_a_header_counts() {
        let good = header().encode();
        for bit in 0..32 * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(BlockHeader::decode(&[0; 64]), None);
        assert_eq!(BlockHeader::decode(&good[..10]), None);
    }

    #[test]
    fn a_piece_matches_its_bytes_in_its_place_only() {
        let (file, generation) = (FileId(3), Generation(99));
        let piece = Piece::of(b"hello", file, generation, 64);
        assert!(piece.matches(b"hello", generation));
        assert!(!piece.matches(b"hellp", generation) && !piece.matches(b"hell", generation));
        assert!(!piece.matches(b"hello", Generation(98)), "a file of another generation");
        assert!(!Piece { offset: 4160, ..piece }.matches(b"hello", generation), "another place");
        assert!(!Piece { file: FileId(4), ..piece }.matches(b"hello", generation), "another file");
    }
}
