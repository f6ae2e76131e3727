//! Arbitrary bytes for the decoders of a store's records: an error, or something that is written
//! and read as the same. The log's checksums are passed by.

use crate::catalog::notes;
use crate::codec::Writer;
use crate::durable::format::{self, FORMAT, Head, OLDEST_FORMAT, StoredRoot};
use crate::durable::lists::{StoredList, read_list, write_list};

/// Gives the bytes to the decoder that the first one names.
///
/// # Panics
/// If what was decoded is not decoded again from its own encoding.
pub fn decode_anything(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 5 {
        0 => {
            if let Ok(Some(head)) = Head::decode(bytes) {
                assert_eq!(Head::decode(&head.encode()).ok(), Some(Some(head)));
            }
        }
        1 => again(bytes, |bytes| Some(write_root(&StoredRoot::read(bytes, FORMAT).ok()?))),
        2 => again(bytes, |bytes| {
            let (definition, pages) = format::read_table(bytes).ok()?;
            Some(format::write_table(&definition, &pages))
        }),
        3 => again(bytes, |bytes| Some(format::write_page(&format::read_page(bytes).ok()?))),
        _ => {
            again(bytes, |bytes| Some(write_list(&read_list(bytes).ok()?)));
            // Without the lists of today.
            let _ = StoredRoot::read(bytes, OLDEST_FORMAT);
        }
    }
}

/// What a record says is encoded; that says the same.
fn again(bytes: &[u8], encoded: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(first) = encoded(bytes) {
        assert_eq!(encoded(&first), Some(first.clone()), "read as it was written");
    }
}

fn write_root(root: &StoredRoot) -> Vec<u8> {
    let mut w: Writer = root.begin(root.schemas.len());
    for schema in &root.schemas {
        w.text(&schema.name);
        w.len(schema.lists.len());
        for list in &schema.lists {
            let record = list.record.map(|record| (record, list.tables));
            StoredList::write(&mut w, &list.first, record, &list.entries);
        }
        schema.rest.write_rest(&mut w);
    }
    let names: Vec<std::sync::Arc<str>> =
        root.schemas.iter().map(|schema| schema.name.as_str().into()).collect();
    let noted = root.schemas.iter().map(|schema| schema.rest.notes());
    notes::write_root(&mut w, names.iter().zip(noted));
    w.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::DataType;
    use swing_tier::RecordId;

    use super::*;
    use crate::catalog::definition::{ColumnDef, Definition};
    use crate::catalog::history::History;
    use crate::catalog::schema::SchemaNode;
    use crate::durable::format::{StoredArray, StoredChunk, StoredPage, StoredSegment};
    use crate::durable::lists::{StoredEntry, StoredSchema};
    use crate::memory::block_ref::BlockRef;
    use crate::memory::raw::Loc;
    use crate::segments::read::Node;
    use crate::segments::stats::ChunkStats;

    /// Good records of each decoder, to begin from.
    fn seeds() -> Vec<Vec<u8>> {
        let entry = StoredEntry {
            name: "t".to_owned(),
            id: 1,
            record: RecordId(7),
            rows: 5,
            bytes: 40,
            segments: 1,
        };
        let rest = SchemaNode::default();
        let entries = vec![entry];
        let own =
            StoredList { first: String::new(), record: None, tables: 1, entries: entries.clone() };
        let (record, first) = (Some(RecordId(6)), "a".to_owned());
        let elsewhere = StoredList { first, record, tables: 40, entries: Vec::new() };
        let root = StoredRoot {
            name: "db".to_owned(),
            history: History::new().branch_at(3),
            version: 4,
            next_table: 2,
            sharing: true,
            schemas: vec![
                StoredSchema { name: "main".to_owned(), lists: vec![own], rest: rest.clone() },
                StoredSchema { name: "s".to_owned(), lists: vec![elsewhere], rest },
            ],
        };
        let column = |name: &str, data_type| ColumnDef {
            name: name.to_owned(),
            data_type,
            nullable: true,
            is_uuid: false,
            enumeration: None,
            default_sql: Some("1 + 1".to_owned()),
        };
        let columns = vec![column("a", DataType::Int64), column("b", DataType::Utf8View)];
        let definition = Definition::new(columns, Vec::new(), Vec::new());
        let page = StoredPage { record: RecordId(8), segments: 1, rows: 5, live: 5, bytes: 40 };
        let block = BlockRef { record: RecordId(9), len: 64, stored: 40, check: u128::MAX - 1 };
        let node = Node {
            len: 5,
            offset: 0,
            null_count: 0,
            nulls: None,
            buffers: vec![Loc { offset: 0, len: 40 }],
            children: Vec::new(),
        };
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
        let chunk = StoredChunk {
            stats: ChunkStats::of(&DataType::Int64, &[values]),
            array: StoredArray { blocks: vec![block], node },
            patch: None,
        };
        let bitmap = Some(BlockRef { len: 1, stored: 1, ..block });
        let segment = StoredSegment { rows: 5, deleted: 1, bitmap, chunks: vec![chunk] };
        let records = [
            Head::new(7, RecordId(1 << 40)).encode(),
            write_root(&root),
            format::write_table(&definition, &[page]),
            format::write_page(&[segment]),
            write_list(&entries),
        ];
        let with_number =
            |(which, record): (usize, Vec<u8>)| [&[which as u8][..], &record].concat();
        records.into_iter().enumerate().map(with_number).collect()
    }

    #[test]
    fn good_records_are_read_as_written() {
        for (which, seed) in seeds().iter().enumerate() {
            let record = &seed[1..];
            let same = match which {
                0 => Head::decode(record).unwrap().unwrap().encode() == record,
                1 => write_root(&StoredRoot::read(record, FORMAT).unwrap()) == record,
                2 => {
                    let (definition, pages) = format::read_table(record).unwrap();
                    format::write_table(&definition, &pages) == record
                }
                3 => format::write_page(&format::read_page(record).unwrap()) == record,
                _ => write_list(&read_list(record).unwrap()) == record,
            };
            assert!(same, "{which}");
        }
    }

    #[test]
    fn damaged_records_are_errors_or_read_as_written() {
        let given = std::env::var("SWING_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        println!("SWING_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let seeds = seeds();
        for _ in 0..if cfg!(miri) { 200 } else { 200_000 } {
            let mut bytes = seeds[random.usize(..seeds.len())].clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(1..bytes.len());
                match random.u32(..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] ^= 1 << random.u32(..8),
                    2 => bytes.truncate(at.max(2)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            decode_anything(&bytes);
        }
    }
}
