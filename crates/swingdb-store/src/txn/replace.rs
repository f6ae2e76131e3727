//! A whole state in place of another: what was read from a store on a disk.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::edit;
use crate::catalog::state::Catalog;
use crate::memory::space::Blocks;
use crate::txn::transaction::WriteTxn;

impl WriteTxn {
    /// Replaces the whole state by another one, made of the blocks `created`; `shared` has those
    /// that one more table uses, once for each.
    pub(crate) fn replace_all(
        &mut self,
        catalog: Catalog,
        created: Vec<Arc<Blocks>>,
        shared: Vec<Arc<Blocks>>,
    ) -> Result<()> {
        let mut dropped: Vec<Arc<Blocks>> = self.current.list_records().cloned().collect();
        for (_, _, entry) in self.current.entries()? {
            dropped.extend(entry.record.get().cloned());
        }
        for table in self.current.all_tables()? {
            dropped.extend(edit::all_blocks(&table)?);
        }
        self.effects.dropped.extend(dropped);
        self.effects.created.extend(created);
        self.effects.shared.extend(shared);
        self.current = Arc::new(catalog);
        Ok(())
    }

    /// Forgets which records of a store the state's tables are in.
    pub(crate) fn forget_stored(&self) -> Result<()> {
        let nodes = self.current.schemas.values();
        nodes.flat_map(|node| node.tables.pages().values()).for_each(|page| page.set_stored(None));
        for (_, _, entry) in self.current.entries()? {
            entry.set_stored(None);
        }
        for table in self.current.all_tables()? {
            for page in &table.pages {
                page.set_stored(None);
                for segment in page.segments()?.iter() {
                    segment.blocks()?.iter().for_each(|blocks| blocks.set_stored(None));
                }
            }
        }
        Ok(())
    }
}
