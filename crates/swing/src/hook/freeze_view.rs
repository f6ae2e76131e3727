//! Snapshots of an area within its own process.

use std::sync::Arc;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::hook::options::HookAt;
use crate::hook::snapshot::Snapshot;
use crate::hook::sources::HeldSource;
use crate::model::error::{Fault, PublishError, Result};

impl Area {
    /// A snapshot of the present state for use in this process, e.g. to take memory from it by
    /// `map_foreign`. Freezes the extents that are private, like a publish, but nothing becomes
    /// current.
    pub fn freeze_view(&self) -> Result<Snapshot, PublishError> {
        let core = &*self.core;
        let result = core.when_unpinned(|| core.freeze_view());
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl Core {
    fn freeze_view(&self) -> Result<Snapshot> {
        let mut state = self.lock_idle()?;
        let (manifest, lease) = self.publish_view(&mut state)?;
        let file = self.own_memory_read_only(&state)?.map(Arc::new);
        let own = Arc::new(lease);
        let mut held = vec![HeldSource { file, lease: own.clone(), via: None }];
        for entry in &manifest.sources[1..] {
            let mut sources = state.sources.iter().flatten();
            let found = sources.find(|s| s.area == entry.area && s.epoch == entry.epoch);
            let Some(source) = found else {
                return Err(Fault::corrupt(self.folder.path(), "a source is missing"));
            };
            // This area keeps its pin as long as the view is leased; without a pin, what it was
            // found through.
            let via = if source.pinned { Some(own.clone()) } else { source.via.clone() };
            let (file, lease) = (Some(source.file.clone()), source.lease.clone());
            held.push(HeldSource { file, lease, via });
        }
        drop(state);
        Snapshot::map(&self.ns, manifest, held, HookAt::Anywhere)
    }
}
