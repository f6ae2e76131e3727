//! A table in the list of its schema: [`TableEntry`].

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use swing_tier::RecordId;
use swingdb_common::error::{Error, Result};

use crate::catalog::table::Table;
use crate::errors::area::corrupt;
use crate::memory::space::{Blocks, Ground, Space};

/// A table in a catalog: what the list knows, and the table once it was used.
#[derive(Debug)]
pub(crate) struct TableEntry {
    pub id: u64,
    pub rows: u64,
    pub bytes: u64,
    pub segments: u64,
    pub record: OnceLock<Arc<Blocks>>,
    table: OnceLock<Arc<Table>>,
    /// The record in the store on a disk.
    stored: Mutex<Option<RecordId>>,
}

impl TableEntry {
    /// A table that is not in the area yet.
    pub fn new(table: Arc<Table>) -> Arc<Self> {
        Arc::new(Self {
            id: table.id(),
            rows: table.row_count(),
            bytes: table.bytes(),
            segments: table.segment_count() as u64,
            record: OnceLock::new(),
            table: OnceLock::from(table),
            stored: Mutex::default(),
        })
    }

    /// A table whose record is in the area; with the numbers of its rows, bytes and segments.
    pub fn of_record(id: u64, record: Arc<Blocks>, [rows, bytes, segments]: [u64; 3]) -> Arc<Self> {
        Arc::new(Self {
            id,
            rows,
            bytes,
            segments,
            record: OnceLock::from(record),
            table: OnceLock::new(),
            stored: Mutex::default(),
        })
    }

    /// Its record in the store on a disk, when it is there.
    pub fn stored(&self) -> Option<RecordId> {
        *self.stored.lock()
    }

    /// Notes its record in the store.
    pub fn set_stored(&self, record: Option<RecordId>) {
        *self.stored.lock() = record;
    }

    /// The table, if it was used already.
    pub fn known(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }

    /// The table, read with the first use.
    pub fn get(
        &self,
        space: &Arc<Space>,
        schema: &Arc<str>,
        name: &Arc<str>,
    ) -> Result<&Arc<Table>> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let record = self.record.get();
        let record = record.ok_or_else(|| Error::internal("a table that is nowhere"))?;
        let names = (schema.clone(), name.clone());
        let table = Table::read(self.id, names, space, record)?;
        let found = (table.row_count(), table.segment_count() as u64);
        if found != (self.rows, self.segments) {
            return Err(corrupt(format!("table {name:?}: other rows than the root says")));
        }
        Ok(self.table.get_or_init(|| table))
    }

    /// Writes its record when it has none.
    pub fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<()> {
        if self.record.get().is_none() {
            let table = self.table.get();
            let table = table.ok_or_else(|| Error::internal("a table that is nowhere"))?;
            let record = table.persist(ground, written)?;
            // Only the holder of the writer's slot persists: nobody else can have set it.
            let _ = self.record.set(record);
        }
        Ok(())
    }
}

/// A table with the names of its schema and of its own.
pub(crate) type NamedEntry<'a> = (&'a Arc<str>, &'a Arc<str>, &'a Arc<TableEntry>);
