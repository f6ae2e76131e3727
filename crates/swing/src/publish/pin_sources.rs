//! Pins: names, in this area's folder, for the states of other areas that its own state shows.
//!
//! A pin comes before the manifest that needs it, so whoever finds that manifest finds the memory.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::namespace::files::{parent_memory_name, pin_name};
use crate::sys::file::Folder;

impl Core {
    /// Leaves pins and links to memory files for everything the state shows of other areas.
    pub(crate) fn pin_sources(&self, state: &mut Tables) -> Result<()> {
        let mut folder: Option<Folder> = None;
        for slot in 1..state.sources.len() {
            let mapped = state.runs.bytes_of(slot as u32) > 0;
            let Some(source) = state.sources[slot].as_mut() else {
                continue;
            };
            if source.pinned || !mapped {
                continue;
            }
            let folder = match &folder {
                Some(folder) => folder,
                None => folder.insert(self.parents_folder()?),
            };
            // In this order: whoever finds the pin finds the memory, too.
            let name = parent_memory_name(source.area);
            let file = source.file.here_for(&folder.join(&name))?;
            crate::memory::lookup::give_name(folder, file, &name)?;
            source.lease.pin(folder, &pin_name(source.area, source.epoch))?;
            assert!(
                source.area != self.id || source.epoch < state.manifests.next_epoch,
                "an older state"
            );
            source.pinned = true;
            source.via = None;
        }
        Ok(())
    }
}
