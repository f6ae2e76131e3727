//! What a store says about itself for listings.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::entry::NamedEntry;
use crate::store::handle::{Store, StoreKind};

/// Sizes of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Schema.
    pub schema: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Live rows.
    pub rows: u64,
    /// Bytes of column data (deleted rows included).
    pub bytes: u64,
    /// Number of segments.
    pub segments: u64,
}

/// An open database in figures. Who came from whom is in the namespace's listing (`swing`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// Name; `None` for a private database or an unnamed snapshot.
    pub name: Option<String>,
    /// What kind of handle.
    pub kind: StoreKind,
    /// Epoch of the last publish of this store, or of the snapshot it was taken from.
    pub epoch: Option<u64>,
    /// Whether it has changes of its own that were never published.
    pub changed: bool,
    /// The tables of the last committed state.
    pub tables: Vec<TableInfo>,
    /// Bytes of column data of all tables.
    pub bytes: u64,
    /// Bytes reachable only by readers of older states in this process, freed when they let go.
    pub limbo_bytes: u64,
}

impl Store {
    /// Figures for listings.
    pub fn info(&self) -> Result<StoreInfo> {
        let catalog = self.latest();
        let table = |(schema, name, entry): NamedEntry<'_>| TableInfo {
            schema: schema.clone(),
            name: name.clone(),
            rows: entry.rows,
            bytes: entry.bytes,
            segments: entry.segments,
        };
        let tables: Vec<TableInfo> = catalog.entries()?.into_iter().map(table).collect();
        let slot = self.inner.slot.lock();
        let changed = slot.writer.as_ref().is_none_or(|w| w.changed);
        drop(slot);
        Ok(StoreInfo {
            name: self.name().map(str::to_owned),
            kind: self.kind(),
            epoch: self.epoch(),
            changed,
            bytes: tables.iter().map(|t| t.bytes).sum(),
            tables,
            limbo_bytes: catalog.space.limbo_bytes(),
        })
    }
}
