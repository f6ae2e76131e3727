//! Numbers and byte strings in a row, little-endian. The reader checks bounds and answers `None`
//! where the bytes end early: it serves bytes whose checksum is right, and must still not panic on
//! those whose is not.

use crate::log::format::Piece;
use crate::log::options::MAX_FILE_BYTES;
use crate::units::{FileId, MAX_BLOCK_BYTES};

/// Appends to a byte string.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A byte string, its length first.
    pub(crate) fn string(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn piece(&mut self, piece: &Piece) {
        self.u32(piece.file.0);
        self.u32(piece.len);
        self.u64(piece.offset);
        self.u64(piece.checksum);
    }

    /// Each element by `write`, their number first.
    pub(crate) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.u32(items.len() as u32);
        items.for_each(|item| write(self, item));
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Whether everything has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// A piece that may be one: no block is longer, and no file.
    pub(crate) fn piece(&mut self) -> Option<Piece> {
        let (file, len) = (FileId(self.u32()?), self.u32()?);
        let piece = Piece { file, len, offset: self.u64()?, checksum: self.u64()? };
        let possible = u64::from(len) <= MAX_BLOCK_BYTES && piece.offset <= MAX_FILE_BYTES;
        Some(piece).filter(|_| possible)
    }

    /// A list whose elements `read` reads. A false number of elements costs no memory.
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        let mut items = Vec::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            items.push(read(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_not_more() {
        let piece = Piece { file: FileId(1), offset: 64, len: 9, checksum: 5 };
        let mut writer = Writer::default();
        writer.u8(3);
        writer.u64(u64::MAX);
        writer.string(b"abc");
        writer.list([piece, piece].iter(), Writer::piece);
        for len in 0..writer.bytes.len() {
            let mut reader = Reader::new(&writer.bytes[..len]);
            let all = reader.u8().and_then(|_| reader.u64()).and_then(|_| reader.string());
            assert!(all.and_then(|_| reader.list(Reader::piece)).is_none(), "cut at {len}");
        }
        let mut reader = Reader::new(&writer.bytes);
        assert_eq!((reader.u8(), reader.u64()), (Some(3), Some(u64::MAX)));
        assert_eq!(reader.string(), Some(&b"abc"[..]));
        assert_eq!(reader.list(Reader::piece), Some(vec![piece, piece]));
        assert!(reader.is_at_end());
    }

    #[test]
    fn a_piece_that_cannot_be_is_refused() {
        let good = Piece { file: FileId(1), offset: 64, len: 9, checksum: 5 };
        let too_long = Piece { len: MAX_BLOCK_BYTES as u32 + 1, ..good };
        for bad in [too_long, Piece { offset: u64::MAX, ..good }] {
            let mut writer = Writer::default();
            writer.piece(&bad);
            assert_eq!(Reader::new(&writer.bytes).piece(), None, "{bad:?}");
        }
    }

    #[test]
    fn a_false_count_is_refused_without_memory_for_it() {
        let bytes = u32::MAX.to_le_bytes();
        assert_eq!(Reader::new(&bytes).list(Reader::u64), None);
    }
}
