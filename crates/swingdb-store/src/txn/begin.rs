//! Beginning transactions.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::state::Catalog;
use crate::commit::writer::Writer;
use crate::memory::space::Ground;
use crate::store::handle::Store;
use crate::store::slot::Held;
use crate::txn::transaction::WriteTxn;

impl Store {
    /// Starts the write transaction; waits up to [`crate::WRITER_WAIT`] for another one of this
    /// process to end.
    pub fn begin(&self) -> Result<WriteTxn> {
        self.check_process()?;
        self.takes_changes(None)?;
        let mut writer = self.take_slot()?;
        writer.give_back_dropped(&self.latest());
        let ground = self.drained(&mut writer);
        self.transaction(writer, ground, self.latest())
    }

    /// As [`Store::begin`], for a single short statement: its transaction ends without waiting for
    /// anybody. So others that have committed let it go first, and share its way to the disk.
    pub fn begin_short(&self) -> Result<WriteTxn> {
        self.check_process()?;
        self.takes_changes(None)?;
        let mut writer = self.take_slot_as_it_is()?;
        if !writer.group.has_room() {
            self.flush(&mut writer);
        }
        if writer.group.is_empty() {
            writer.give_back_dropped(&self.latest());
        }
        let ground = self.drained(&mut writer);
        let newest = writer.group.newest();
        let grouped = newest.is_some();
        let mut txn = self.transaction(writer, ground, newest.unwrap_or_else(|| self.latest()))?;
        txn.grouped = grouped;
        Ok(txn)
    }

    fn drained(&self, writer: &mut Writer) -> Result<Arc<Ground>> {
        let ground = self.ground(writer)?;
        ground.drain()?;
        Ok(ground)
    }

    fn transaction(
        &self,
        writer: Held,
        ground: Result<Arc<Ground>>,
        base: Arc<Catalog>,
    ) -> Result<WriteTxn> {
        match ground {
            Ok(ground) => Ok(WriteTxn::new(self.clone(), writer, ground, base)),
            Err(error) => {
                self.give_back(writer);
                Err(error)
            }
        }
    }
}
