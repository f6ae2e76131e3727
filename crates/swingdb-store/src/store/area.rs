//! What a writer of a store needs of the area: the writer's slot when the database is in memory
//! whole, and area and heap, which a snapshot derives when it is first written to.

use std::sync::Arc;

use swing::{Area, AreaName, Snapshot};
use swing_malloc::Heap;
use swingdb_common::error::{Error, Result};

use crate::catalog::state::Catalog;
use crate::commit::writer::Writer;
use crate::errors::area::{derive_error, heap_error, publish_error};
use crate::memory::space::{Ground, Space};
use crate::store::handle::Store;
use crate::store::slot::Held;

impl Store {
    /// Takes the writer's slot, when the database is in memory whole.
    pub(crate) fn take_writer(&self) -> Result<Held> {
        self.check_process()?;
        self.loaded(None)?;
        self.take_slot()
    }

    /// Runs `work` with the writer's slot held.
    pub(crate) fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Writer, &Catalog) -> Result<T>,
    ) -> Result<T> {
        let mut writer = self.take_writer()?;
        let result = work(&mut writer, &self.latest());
        self.give_back(writer);
        result
    }

    /// Area and heap of the store; derived from the snapshot with the first call.
    pub(crate) fn ground(&self, writer: &mut Writer) -> Result<Arc<Ground>> {
        if let Some(ground) = &writer.ground {
            return Ok(ground.clone());
        }
        let area = self.area(writer)?;
        let catalog = self.latest();
        let heap = Heap::open(area).map_err(heap_error)?;
        let ground = Ground::new(catalog.space.clone(), heap);
        catalog.space.inherit_limbo(std::mem::take(&mut writer.inherited));
        writer.ground = Some(ground.clone());
        Ok(ground)
    }

    /// The area of a snapshot, under its name if it has one.
    pub(crate) fn area(&self, writer: &mut Writer) -> Result<Arc<Area>> {
        if let Some(area) = &writer.area {
            return Ok(area.clone());
        }
        let snapshot = self.inner.snapshot.lock().clone();
        let snapshot = snapshot.ok_or_else(|| Error::internal("no area and no snapshot"))?;
        let area = derive(&snapshot, self.inner.name.as_ref())?;
        self.latest().space.derived(&area);
        writer.area = Some(area.clone());
        Ok(area)
    }

    /// A snapshot of memory of this store, to clone from: of its present state, or what it was the
    /// snapshot of when `space` was read.
    pub(crate) fn view(&self, space: &Space) -> Result<Snapshot> {
        if let Some(snapshot) = space.snapshot() {
            return Ok(snapshot);
        }
        self.with_writer(|writer, latest| {
            if !std::ptr::eq(&*latest.space, space) {
                return Err(Error::transaction(
                    "the snapshot was refreshed while the statement ran; run it again",
                ));
            }
            if let Some(ground) = &writer.ground {
                return ground.area().freeze_view().map_err(publish_error);
            }
            let snapshot = self.inner.snapshot.lock().clone();
            snapshot.ok_or_else(|| Error::internal("no area and no snapshot"))
        })
    }
}

fn derive(snapshot: &Snapshot, name: Option<&AreaName>) -> Result<Arc<Area>> {
    let area = snapshot.derive(name).map_err(|e| derive_error(e, name))?;
    if area.base() != snapshot.base() {
        // Arrays in use have the snapshot's addresses; this happens only when it is derived from
        // twice.
        return Err(Error::internal("the snapshot was already made writable"));
    }
    Ok(Arc::new(area))
}
