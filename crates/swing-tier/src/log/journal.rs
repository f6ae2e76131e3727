//! The journal: a file of commits, one behind the other.
//!
//! A commit is one block: header, sequence, small records, what changes. It is written only after
//! the one before is durable, and its checksum is seeded with that of the one before. So a journal
//! is a chain: a reader follows it until the next block is not the continuation. The last block may
//! be torn by a crash; nobody was told of it. A block that is damaged *before* the end of the chain
//! shows, because a later commit stands behind it: that is an error, not an end (INV-TIER-3).
//!
//! | bytes | payload of a commit |
//! |---|---|
//! | 0-7 | epoch |
//! | 8-11 | bytes of small records |
//! | 12-15 | bytes of changes |
//! | 16-23 | XXH3 of header, bytes 0-15 and the rest, seeded with the checksum before |
//! | 24- | small records, then changes |

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::error::Damage;
use crate::log::files::LogFile;
use crate::log::format::{BlockHeader, HEADER_BYTES, Kind, MAX_PAYLOAD_BYTES, place_seed, unit_of};
use crate::log::state::Delta;
use crate::units::{Epoch, FileId, Generation, UNIT_BYTES};

/// Bytes of a commit's payload before the small records.
const PREFACE_BYTES: u64 = 24;
/// How far ahead of the commits a journal is filled with zeros.
const ZERO_BYTES: u64 = 256 << 10;
/// Small records begin so many bytes into the block.
pub(crate) const SMALL_AT: u64 = HEADER_BYTES + PREFACE_BYTES;
/// The most bytes of small records and changes in one commit of a journal; larger ones are written
/// as a manifest.
pub(crate) const MAX_COMMIT_BYTES: usize = (MAX_PAYLOAD_BYTES - PREFACE_BYTES) as usize;

/// Where the next commit of a journal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) file: FileId,
    pub(crate) generation: Generation,
    /// Offset in the file, in bytes.
    pub(crate) next: u64,
    /// The checksum of the commit before.
    pub(crate) chain: u64,
}

/// The journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) file: Arc<LogFile>,
    pub(crate) tail: Tail,
    /// Length of the file, in bytes.
    pub(crate) end: u64,
    /// So many bytes from the begin were written already, with commits or with zeros. A sync of a
    /// write that goes beyond has to bring the file's extents to the disk as well, which takes
    /// several times as long.
    pub(crate) zeroed: u64,
}

impl Journal {
    /// Where zeros go when a commit has been written up to `end`: enough for some dozens of small
    /// commits. Empty as long as the commit lies in room that was written before.
    pub(crate) fn zeros_behind(&self, end: u64) -> std::ops::Range<u64> {
        match end > self.zeroed {
            true => end..(end + ZERO_BYTES).min(self.end),
            false => end..end,
        }
    }
}

impl Tail {
    /// The begin of a journal.
    pub(crate) fn start(file: FileId, generation: Generation) -> Self {
        Tail { file, generation, next: 0, chain: place_seed(file, generation, 0) }
    }

    /// The next block, and the tail behind it.
    pub(crate) fn encode(&self, epoch: Epoch, small: &[u8], changes: &[u8]) -> (Vec<u8>, Tail) {
        let payload_len = (PREFACE_BYTES as usize + small.len() + changes.len()) as u32;
        let header = self.header(payload_len);
        let mut block = Vec::with_capacity(header.block_len() as usize);
        block.extend_from_slice(&header.encode());
        block.extend_from_slice(&epoch.0.to_le_bytes());
        block.extend_from_slice(&(small.len() as u32).to_le_bytes());
        block.extend_from_slice(&(changes.len() as u32).to_le_bytes());
        block.extend_from_slice(&[0; 8]);
        block.extend_from_slice(small);
        block.extend_from_slice(changes);
        let check = self.checksum(&block);
        let at = (HEADER_BYTES + PREFACE_BYTES) as usize;
        block[at - 8..at].copy_from_slice(&check.to_le_bytes());
        block.resize(header.block_len() as usize, 0);
        let next = Tail { next: self.next + block.len() as u64, chain: check, ..*self };
        (block, next)
    }

    fn header(&self, payload_len: u32) -> BlockHeader {
        let (file, generation) = (self.file, self.generation);
        BlockHeader { kind: Kind::Commit, file, unit: unit_of(self.next), generation, payload_len }
    }

    /// Over the block without the checksum's own bytes, and without what fills up the last unit.
    fn checksum(&self, block: &[u8]) -> u64 {
        let at = (HEADER_BYTES + PREFACE_BYTES) as usize;
        let mut hash = Xxh3::with_seed(self.chain);
        hash.update(&block[..at - 8]);
        hash.update(&block[at..]);
        hash.digest()
    }

    /// The commit at the tail, and the tail behind it; `None` if there is no whole one.
    fn decode(&self, bytes: &[u8]) -> Option<(Delta, Tail)> {
        let header = BlockHeader::decode(bytes)?;
        if header != self.header(header.payload_len) {
            return None;
        }
        let len = HEADER_BYTES as usize + header.payload_len as usize;
        let at = (HEADER_BYTES + PREFACE_BYTES) as usize;
        let block = bytes.get(..len).filter(|block| block.len() >= at)?;
        let check = u64::from_le_bytes(block[at - 8..at].try_into().ok()?);
        if check != self.checksum(block) {
            return None;
        }
        let small_len = u32::from_le_bytes(block[at - 16..at - 12].try_into().ok()?);
        let changes = block.get(at + small_len as usize..)?;
        let next = Tail { next: self.next + header.block_len(), chain: check, ..*self };
        Some((Delta::decode(changes)?, next))
    }
}

/// Follows the chain through the bytes of a journal.
///
/// # Errors
/// [`Damage`] if a later commit stands behind one that is not whole.
pub(crate) fn replay(
    file: &LogFile,
    bytes: &[u8],
    mut apply: impl FnMut(&Delta) -> bool,
) -> Result<Tail, Damage> {
    let mut tail = Tail::start(file.id, file.generation());
    let damage = |offset: u64, detail: &str| {
        let (path, len) = (file.path().to_owned(), UNIT_BYTES);
        Damage { path, offset, len, detail: detail.to_owned() }
    };
    while let Some((delta, next)) = bytes.get(tail.next as usize..).and_then(|b| tail.decode(b)) {
        if !apply(&delta) {
            return Err(damage(tail.next, "a commit does not fit the state before it"));
        }
        tail = next;
    }
    let behind = tail.next + UNIT_BYTES;
    for offset in (behind..bytes.len() as u64).step_by(UNIT_BYTES as usize) {
        let header = BlockHeader::decode(&bytes[offset as usize..]);
        let expected = Tail { next: offset, ..tail };
        if header.is_some_and(|header| header == expected.header(header.payload_len)) {
            return Err(damage(tail.next, "a commit is not whole, and a later one follows"));
        }
    }
    Ok(tail)
}

/// Arbitrary bytes as the next block of a journal, with the checksum that they need: a commit that
/// stays what it is when it is written again, or none.
pub(crate) fn decode_any_commit(bytes: &[u8]) {
    let tail = Tail::start(FileId(1), Generation(3));
    // As they are: the checksum refuses nearly all.
    let _ = tail.decode(bytes);
    // As the changes of a commit, with lengths that are right, or wrong.
    let Some((lens, changes)) = bytes.split_first_chunk::<4>() else { return };
    let (whole, _) = tail.encode(Epoch(1), &[], &changes[..changes.len().min(MAX_COMMIT_BYTES)]);
    if let Some((delta, next)) = tail.decode(&whole) {
        let (again, behind) = tail.encode(Epoch(1), &[], &delta.encode());
        assert_eq!(tail.decode(&again), Some((delta, behind)));
        assert_eq!(next.next, whole.len() as u64);
    }
    let mut block = whole;
    let at = (HEADER_BYTES + PREFACE_BYTES) as usize;
    block[at - 16..at - 12].copy_from_slice(lens);
    let Some(header) = BlockHeader::decode(&block) else { return };
    let len = HEADER_BYTES as usize + header.payload_len as usize;
    let check = tail.checksum(&block[..len]);
    block[at - 8..at].copy_from_slice(&check.to_le_bytes());
    let _ = tail.decode(&block);
}
