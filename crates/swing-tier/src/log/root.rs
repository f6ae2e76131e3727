//! The root: one small file that says where everything else is.
//!
//! It holds two equal copies of 4096 bytes, so that one damaged sector loses nothing. A new root is
//! written to another name, synced, and renamed over the old one; then the directory is synced.
//! So there is always exactly one root, whole, and never an older one that could pass for the
//! newest (INV-TIER-3).

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::log::codec::{Reader, Writer};
use crate::log::format::{FORMAT_VERSION, Piece};
use crate::units::{Epoch, FileId, Generation, UNIT_BYTES};

/// The root's name.
pub(crate) const ROOT_NAME: &str = "root";
/// Its name until it is whole.
pub(crate) const NEW_ROOT_NAME: &str = "root.new";
/// Length of the root file, in bytes: two copies.
pub(crate) const ROOT_BYTES: u64 = 2 * UNIT_BYTES;
/// The most pieces of the manifest: as many as fit into a copy. With 512 KiB each they hold some
/// 60 MB, about a million records.
pub(crate) const MAX_MANIFEST_PIECES: usize = 120;

const MAGIC: [u8; 8] = *b"SwTierRt";

/// Where the newest whole state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    /// A random number that names the log.
    pub(crate) log: u64,
    /// The epoch of the manifest.
    pub(crate) base: Epoch,
    /// The journal has at least the commits up to this epoch: it was closed there.
    pub(crate) floor: Epoch,
    /// No file of the log has this number, or a larger one.
    pub(crate) next_file: u32,
    /// The journal of the commits that follow, if there is one.
    pub(crate) journal: Option<(FileId, Generation)>,
    /// Where the manifest lies, and the generations of the files it lies in.
    pub(crate) manifest: Vec<(Piece, Generation)>,
}

/// Why bytes are no root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotARoot {
    /// Written by another version.
    Version(u32),
    /// Neither copy is whole.
    Damaged,
}

impl Root {
    /// Both copies.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_copy(0);
        bytes.extend(self.encode_copy(1));
        bytes
    }

    fn encode_copy(&self, copy: u64) -> Vec<u8> {
        debug_assert!(self.manifest.len() <= MAX_MANIFEST_PIECES);
        let mut out = Writer::default();
        out.bytes.extend_from_slice(&MAGIC);
        out.u32(FORMAT_VERSION);
        out.u32(self.next_file);
        for number in [self.log, self.base.0, self.floor.0] {
            out.u64(number);
        }
        let (file, generation) = self.journal.unwrap_or((FileId(u32::MAX), Generation(0)));
        out.u32(file.0);
        out.u64(generation.0);
        out.list(self.manifest.iter(), |out, (piece, generation)| {
            out.piece(piece);
            out.u64(generation.0);
        });
        let body = UNIT_BYTES as usize - 8;
        out.bytes.resize(body, 0);
        let check = xxh3_64_with_seed(&out.bytes, copy);
        out.u64(check);
        out.bytes
    }

    /// Reads the file: the first copy that is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotARoot> {
        let mut verdict = NotARoot::Damaged;
        for (copy, bytes) in bytes.chunks(UNIT_BYTES as usize).take(2).enumerate() {
            match Self::decode_copy(bytes, copy as u64) {
                Ok(root) => return Ok(root),
                Err(NotARoot::Version(version)) => verdict = NotARoot::Version(version),
                Err(NotARoot::Damaged) => {}
            }
        }
        Err(verdict)
    }

    fn decode_copy(bytes: &[u8], copy: u64) -> Result<Self, NotARoot> {
        let body = UNIT_BYTES as usize - 8;
        let (body, check) = bytes.split_at_checked(body).ok_or(NotARoot::Damaged)?;
        if check != xxh3_64_with_seed(body, copy).to_le_bytes() {
            return Err(NotARoot::Damaged);
        }
        let mut input = Reader::new(body);
        let magic = input.take(MAGIC.len()).ok_or(NotARoot::Damaged)?;
        if magic != MAGIC {
            return Err(NotARoot::Damaged);
        }
        let version = input.u32().ok_or(NotARoot::Damaged)?;
        if version != FORMAT_VERSION {
            return Err(NotARoot::Version(version));
        }
        Self::decode_body(&mut input).filter(Root::is_possible).ok_or(NotARoot::Damaged)
    }

    /// Whether it has what a root has room for.
    pub(crate) fn is_possible(&self) -> bool {
        self.manifest.len() <= MAX_MANIFEST_PIECES
    }

    pub(crate) fn decode_body(input: &mut Reader<'_>) -> Option<Self> {
        let next_file = input.u32()?;
        let (log, base, floor) = (input.u64()?, Epoch(input.u64()?), Epoch(input.u64()?));
        let (file, generation) = (FileId(input.u32()?), Generation(input.u64()?));
        let journal = Some((file, generation)).filter(|_| file.0 != u32::MAX);
        let manifest = input.list(|input| Some((input.piece()?, Generation(input.u64()?))))?;
        Some(Root { log, base, floor, next_file, journal, manifest })
    }
}

const _: () = assert!(MAX_MANIFEST_PIECES * 32 + 64 < UNIT_BYTES as usize - 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn root(pieces: usize) -> Root {
        let piece = Piece { file: FileId(2), offset: 64, len: 7, checksum: 8 };
        Root {
            log: 1,
            base: Epoch(2),
            floor: Epoch(3),
            next_file: 4,
            journal: Some((FileId(5), Generation(6))),
            manifest: vec![(piece, Generation(9)); pieces],
        }
    }

    #[test]
    fn reads_as_written_and_survives_the_loss_of_either_copy() {
        for root in [Root::default(), root(MAX_MANIFEST_PIECES)] {
            let bytes = root.encode();
            assert_eq!(bytes.len() as u64, ROOT_BYTES);
            assert_eq!(Root::decode(&bytes), Ok(root.clone()));
            for copy in 0..2 {
                let mut damaged = bytes.clone();
                damaged[copy * 4096 + 100] ^= 1;
                assert_eq!(Root::decode(&damaged), Ok(root.clone()));
            }
            let mut swapped = bytes.clone();
            swapped.rotate_left(4096);
            assert_eq!(Root::decode(&swapped), Err(NotARoot::Damaged), "copies in wrong places");
        }
    }

    #[test]
    fn tells_another_version_from_damage() {
        let mut other = root(1).encode();
        for copy in 0..2 {
            let start = copy * 4096;
            other[start + 8] = 9;
            let check = xxh3_64_with_seed(&other[start..start + 4088], copy as u64);
            other[start + 4088..start + 4096].copy_from_slice(&check.to_le_bytes());
        }
        assert_eq!(Root::decode(&other), Err(NotARoot::Version(9)));
        assert_eq!(Root::decode(&[0; 8192]), Err(NotARoot::Damaged));
        assert_eq!(Root::decode(&[]), Err(NotARoot::Damaged));
    }
}
