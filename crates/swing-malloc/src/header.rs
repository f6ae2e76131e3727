//! The header: the first 64 KiB of an area.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `SWNGHEAP` |
//! | 8 | 4 | version |
//! | 12 | 4 | number of classes in the table |
//! | 16 | 8 | fingerprint of the derived layout |
//! | 24 | 8 | reserve of the area |
//! | 32 | 8 | length of the small zone |
//! | 40 | 8 | small extent |
//! | 48 | 8 | data extent |
//! | 56 | 8 | length of the reserved part |
//! | 64 | 8 | limit of the buddy part |
//! | 128 | 256 | 16 classes: size (8), count (8) |
//! | 504 | 8 | xxh3 of bytes 0..504 |
//! | 512 | 32 | counters: small zone bytes, extents; data zone bytes, extents |
//! | 544 | 8 | offset of the directory of the fast part ([`crate::Malloc`]), 0: none |
//! | 1024 | 3072 | states of the large blocks, one byte each: 0 free, 255 used |
//! | 4096 | .. | top of the small tree, top of the data tree, when they fit |
//!
//! All numbers are little-endian. Bytes 0..512 never change after creation. They are copied out and
//! checked before anything else is believed: magic, version, checksum, equality with the area's own
//! sizes, and the fingerprint of the layout that this program derives from them.

use crate::error::HeapError;
use crate::layout::{Layout, VERSION};
use crate::memory::{Bytes, Memory, Space};
use crate::options::{BlockClass, BlockTable, HeapOptions};
use xxhash_rust::xxh3::xxh3_64;

/// What a heap begins with.
pub const HEAP_MAGIC: [u8; 8] = *b"SWNGHEAP";
/// The same as a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(HEAP_MAGIC);
/// Most classes a table may have.
pub(crate) const MAX_CLASSES: usize = 16;
const STATIC_BYTES: usize = 512;
const CLASSES_AT: usize = 128;
const CHECKSUM_AT: usize = 504;

const _: () = assert!(CLASSES_AT + MAX_CLASSES * 16 <= CHECKSUM_AT);

/// The static fields of `layout`, encoded.
pub(crate) fn encode(layout: &Layout) -> [u8; STATIC_BYTES] {
    assert!(layout.classes.len() <= MAX_CLASSES);
    let mut bytes = [0; STATIC_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &HEAP_MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &(layout.classes.len() as u32).to_le_bytes());
    put(16, &layout.fingerprint().to_le_bytes());
    put(24, &layout.space.reserve.to_le_bytes());
    put(32, &layout.space.small_zone.to_le_bytes());
    put(40, &layout.space.small_extent.to_le_bytes());
    put(48, &layout.space.data_extent.to_le_bytes());
    put(56, &layout.reserved_len.to_le_bytes());
    put(64, &layout.limit.to_le_bytes());
    for (i, class) in layout.classes.iter().enumerate() {
        put(CLASSES_AT + i * 16, &class.size.to_le_bytes());
        put(CLASSES_AT + i * 16 + 8, &class.count.to_le_bytes());
    }
    let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Checks the header of `mem` and derives the layout.
pub(crate) fn read<M: Memory>(mem: &M) -> Result<Layout, HeapError> {
    let space = mem.space();
    let view = Bytes::new(mem, STATIC_BYTES as u64);
    if space.small_zone < STATIC_BYTES as u64 || !view.present(0..STATIC_BYTES as u64) {
        return Err(HeapError::NoHeap { found: 0 });
    }
    let mut bytes = [0; STATIC_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = view.get(at as u64);
    }
    decode(&bytes, space)
}

fn decode(bytes: &[u8; STATIC_BYTES], space: Space) -> Result<Layout, HeapError> {
    let word = |at: usize| {
        let mut field = [0; 8];
        field.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(field)
    };
    if word(0) != MAGIC {
        return Err(HeapError::NoHeap { found: word(0) });
    }
    let version = word(8) as u32;
    if version != VERSION {
        return Err(HeapError::Version { found: version, expected: VERSION });
    }
    let corrupt = |at: usize, rule| HeapError::Corrupt { at: at as u64, found: word(at), rule };
    if word(CHECKSUM_AT) != xxh3_64(&bytes[..CHECKSUM_AT]) {
        return Err(corrupt(CHECKSUM_AT, "the checksum is that of the bytes before it"));
    }
    let expected = [
        (24, "reserve", space.reserve),
        (32, "small_zone", space.small_zone),
        (40, "small_extent", space.small_extent),
        (48, "data_extent", space.data_extent),
    ];
    for (at, field, expected) in expected {
        if word(at) != expected {
            return Err(HeapError::Geometry { field, found: word(at), expected });
        }
    }
    let classes = (word(8) >> 32) as usize;
    if classes > MAX_CLASSES {
        return Err(corrupt(8, "at most 16 classes"));
    }
    let class = |i: usize| {
        let (size, count) = (word(CLASSES_AT + i * 16), word(CLASSES_AT + i * 16 + 8));
        u32::try_from(count).map(|count| BlockClass { size, count })
    };
    let table = (0..classes).map(class).collect::<Result<Vec<_>, _>>();
    let Ok(table) = table else {
        return Err(corrupt(CLASSES_AT, "a class has less than 2^32 blocks"));
    };
    if word(56) > space.small_zone {
        return Err(corrupt(56, "the reserved part lies in the small zone"));
    }
    let options = HeapOptions {
        reserved_len: Some(word(56)),
        buddy_limit: Some(word(64)),
        blocks: BlockTable::Custom(table),
    };
    let layout = Layout::derive(space, &options)?;
    if word(16) != layout.fingerprint() {
        return Err(corrupt(16, "the fingerprint is that of the derived layout"));
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let space = Space {
            reserve: 64 << 30,
            small_zone: 1 << 30,
            small_extent: 64 << 10,
            data_extent: 2 << 20,
        };
        Layout::derive(space, &HeapOptions::default()).unwrap()
    }

    #[test]
    fn a_header_survives_the_way_out_and_back() {
        let layout = layout();
        assert_eq!(decode(&encode(&layout), layout.space).unwrap(), layout);
    }

    #[test]
    fn any_flipped_byte_is_refused() {
        let layout = layout();
        let good = encode(&layout);
        for at in (0..STATIC_BYTES).step_by(if cfg!(miri) { 13 } else { 1 }) {
            let mut bad = good;
            bad[at] ^= 0x41;
            assert!(decode(&bad, layout.space).is_err(), "byte {at}");
        }
    }

    #[test]
    fn hostile_fields_with_a_right_checksum_are_refused() {
        let layout = layout();
        for (at, value) in [
            (8, u64::from(VERSION) | (17 << 32)),
            (8, u64::from(VERSION)),
            (16, 1),
            (24, 1 << 40),
            (40, 4096),
            (56, u64::MAX),
            (56, 0),
            (64, 0),
            (64, 1),
            (128, u64::MAX),
            (136, u64::MAX),
            (136, 1 << 31),
        ] {
            let mut bad = encode(&layout);
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let checksum = xxh3_64(&bad[..CHECKSUM_AT]);
            bad[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            assert!(decode(&bad, layout.space).is_err(), "offset {at} value {value:#x}");
        }
    }
}
