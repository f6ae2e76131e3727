//! The tables of a schema in a store: lists of them, as they are pages in memory
//! (`catalog/table_list.rs`).
//!
//! A list has a record of its own, which is written again only when one of its tables has changed;
//! so a commit writes as much for thousands of tables as for one, but for a line a list in the
//! root. The list of a schema that has one only is in the root itself. Before format version 3 a
//! root had the tables of all schemas.

use swing_tier::RecordId;
use swingdb_common::error::Result;

use crate::catalog::schema::SchemaNode;
use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// The first version with lists.
pub(super) const WITH_LISTS: u32 = 3;
/// Tables that are put into one list where they were in none.
const TABLES_OF_A_LIST: usize = 64;
/// Most tables of a list.
const MAX_TABLES: u64 = 1 << 20;

/// A table of a stored catalog.
#[derive(Debug, Clone)]
pub(super) struct StoredEntry {
    pub name: String,
    pub id: u64,
    pub record: RecordId,
    pub rows: u64,
    pub bytes: u64,
    pub segments: u64,
}

/// Tables that follow each other by name.
#[derive(Debug)]
pub(super) struct StoredList {
    /// The least name that belongs to it.
    pub first: String,
    /// `None`: its tables are in the root.
    pub record: Option<RecordId>,
    pub tables: usize,
    /// Empty until the record has been read.
    pub entries: Vec<StoredEntry>,
}

/// A schema of a stored catalog; `rest` has all but the tables.
#[derive(Debug)]
pub(super) struct StoredSchema {
    pub name: String,
    pub lists: Vec<StoredList>,
    pub rest: SchemaNode,
}

impl StoredSchema {
    /// Reads a schema of a root of this format version.
    pub fn read(r: &mut Reader<'_>, format: u32) -> Result<Self> {
        let name = r.text()?.to_owned();
        let lists = match format {
            WITH_LISTS.. => r.list(StoredList::read)?,
            _ => in_lists(&read_entries(r)?),
        };
        Ok(Self { name, lists, rest: SchemaNode::read_rest(r)? })
    }
}

impl StoredList {
    /// Writes what the root says of a list; `entries` are its tables, where it has no record.
    pub fn write(
        w: &mut Writer,
        first: &str,
        record: Option<(RecordId, usize)>,
        entries: &[StoredEntry],
    ) {
        w.text(first);
        w.option(record, |w, (record, tables)| {
            w.u64(record.0);
            w.len(tables);
        });
        if record.is_none() {
            write_entries(w, entries);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let first = r.text()?.to_owned();
        let known = r.option(|r| Ok((RecordId(r.u64()?), r.bounded(MAX_TABLES, "tables")?)))?;
        let (record, tables, entries) = match known {
            Some((record, tables)) => (Some(record), tables, Vec::new()),
            None => {
                let entries = read_entries(r)?;
                (None, entries.len(), entries)
            }
        };
        Ok(Self { first, record, tables, entries })
    }

    /// Takes in the tables of its record.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        self.entries = read_list(bytes)?;
        match self.entries.len() == self.tables {
            true => Ok(()),
            false => Err(corrupt("a list of other tables than the root says")),
        }
    }
}

/// Tables that were in no list.
fn in_lists(entries: &[StoredEntry]) -> Vec<StoredList> {
    let chunks = entries.chunks(TABLES_OF_A_LIST).enumerate();
    let lists = chunks.map(|(nth, some)| StoredList {
        first: if nth == 0 { String::new() } else { some[0].name.clone() },
        record: None,
        tables: some.len(),
        entries: some.to_vec(),
    });
    lists.collect()
}

/// The record of a list.
pub(super) fn write_list(entries: &[StoredEntry]) -> Vec<u8> {
    let mut w = Writer::default();
    write_entries(&mut w, entries);
    w.into_bytes()
}

/// The tables of a list's record.
pub(super) fn read_list(bytes: &[u8]) -> Result<Vec<StoredEntry>> {
    let mut r = Reader::part(bytes);
    let entries = read_entries(&mut r)?;
    r.finish()?;
    Ok(entries)
}

fn write_entries(w: &mut Writer, entries: &[StoredEntry]) {
    w.len(entries.len());
    for entry in entries {
        w.text(&entry.name);
        let numbers = [entry.id, entry.record.0, entry.rows, entry.bytes, entry.segments];
        numbers.iter().for_each(|n| w.u64(*n));
    }
}

fn read_entries(r: &mut Reader<'_>) -> Result<Vec<StoredEntry>> {
    let entries = r.list(|r| {
        Ok(StoredEntry {
            name: r.text()?.to_owned(),
            id: r.u64()?,
            record: RecordId(r.u64()?),
            rows: r.u64()?,
            bytes: r.u64()?,
            segments: r.u64()?,
        })
    })?;
    match entries.is_sorted_by(|one, next| one.name < next.name) {
        true => Ok(entries),
        false => Err(corrupt("tables that are not in the order of their names")),
    }
}
