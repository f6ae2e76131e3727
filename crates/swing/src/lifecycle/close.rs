//! Closing an area: what happens when its handle is dropped.
//!
//! A named area that was published stays, in its newest published state, for the next owner. An
//! unnamed area, and one that was never published, is removed. Addresses may outlive the handle
//! (`Arc<Mapping>`). Then the mapping itself leases a last anonymous manifest of what the addresses
//! show, so that neither the next owner nor a collector can take the memory away.

use std::sync::Arc;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::memory::retained::retain;
use crate::model::error::{Fault, Result};
use crate::model::old_versions::visible;
use crate::model::own_versions::Own;
use crate::namespace::files::folder_name;
use crate::sys::kept_file::KeptFile;

impl Drop for Area {
    fn drop(&mut self) {
        self.core.stop_live();
        self.core.stop_ahead();
        crate::area::registry::unregister(&self.core);
        self.core.stop_tracking();
        let _ = self.core.close();
        crate::area::registry::wait_for_keeper(&self.core);
    }
}

/// Its own memory and that of the areas it depends on.
fn files_of(state: &Tables) -> impl Iterator<Item = &Arc<KeptFile>> {
    let own = state.storage.memory.as_ref().map(|m| &m.file);
    own.into_iter().chain(state.sources.iter().flatten().map(|s| &s.file))
}

impl Core {
    fn close(&self) -> Result<()> {
        let mut state = match self.lock_idle() {
            // A forked child gives up only its copies of descriptors: the area is its parent's. One
            // that is broken stays as it was published last.
            Err(Fault::Forked | Fault::Closed | Fault::Broken) => return Ok(()),
            other => other?,
        };
        assert!(state.busy == 0 && !state.closed, "closed once, with nobody at work");
        state.closed = true;
        let Some(lock) = state.lock.take() else {
            return Ok(());
        };
        let others_map = Arc::strong_count(&self.mapping) > 1;
        let linked = state.storage.memory.as_ref().is_some_and(|m| m.linked);
        if others_map && linked {
            match self.publish_view(&mut state) {
                Ok((_, lease)) => self.mapping.keep(Arc::new(lease), None),
                Err(fault) => {
                    // Without the lease a new owner could change what others here still read: the
                    // area stays owned, and its memory open.
                    retain(&self.folder, self.id, files_of(&state));
                    std::mem::forget(lock);
                    return Err(fault);
                }
            }
        }
        let given = match (linked, others_map) {
            (true, false) => self.give_back(&mut state),
            // What the addresses show is leased; everything else can go.
            (true, true) => self.reclaim_locked(&mut state),
            (false, _) => Ok(()),
        };
        let stays = self.name.is_some() && state.manifests.committed.is_some();
        if stays {
            // Also if something could not be given back now: the next owner does it.
            retain(&self.folder, self.id, files_of(&state));
            return given;
        }
        let name = folder_name(self.name.as_ref(), self.id);
        crate::recovery::dismantle::dismantle(&self.ns, &self.folder, &name, &lock).map(|_| ())
    }

    /// Gives back what only the live state showed, and everything spare.
    fn give_back(&self, state: &mut Tables) -> Result<()> {
        // Private ones, and those that have been protected since, for a hook that did not come.
        state.changed.private.clear();
        let unseen =
            |own: &Own| !visible(&state.manifests.live, own.born, state.manifests.next_epoch);
        let unseen: Vec<_> = state.own.iter().filter(|(_, own)| unseen(own)).collect();
        for (extent, own) in unseen {
            state.own.set(extent, None);
            state.versions.add_spare(&self.geometry, extent, own.plane);
        }
        self.reclaim_locked(state)
    }
}
