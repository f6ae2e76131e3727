//! Giving up leases and pins on other areas.

use crate::area::core::Core;
use crate::area::tables::{Source, Tables};
use crate::model::error::Result;
use crate::namespace::files::{parent_memory_name, pin_name};

impl Core {
    /// Gives up leases and pins on areas that neither the live state nor a live manifest shows.
    pub(crate) fn drop_unused_sources(&self, state: &mut Tables) -> Result<()> {
        for slot in 1..state.sources.len() {
            let Some(source) = &state.sources[slot] else {
                continue;
            };
            let shown = state.runs.bytes_of(slot as u32) > 0;
            // Not by manifests before it: a state that the area itself came from is one of these.
            let published =
                source.first_published.zip(source.last_published).is_some_and(|(first, last)| {
                    state.manifests.live.range(first..=last).next().is_some()
                });
            if shown || published {
                continue;
            }
            assert!(state.runs.bytes_of(slot as u32) == 0, "INV-AREA-10: nothing shows it");
            let Some(source) = state.sources[slot].take() else {
                continue;
            };
            self.mapping.release(source.area, source.epoch);
            if source.pinned {
                let folder = self.parents_folder()?;
                folder.unlink(&pin_name(source.area, source.epoch))?;
                let same = |s: &&Source| {
                    s.pinned && (s.area, s.dev, s.ino) == (source.area, source.dev, source.ino)
                };
                let name = parent_memory_name(source.area);
                match state.sources.iter().flatten().find(same) {
                    // The link of a memfd must not name a descriptor that is closed next.
                    Some(other) => {
                        let file = other.file.here_for(&folder.join(&name))?;
                        crate::memory::lookup::take_name(&folder, file, &name)?;
                    }
                    None => {
                        crate::memory::lookup::drop_name(&folder, source.file.identity(), &name)?
                    }
                }
            }
        }
        self.drop_former(state)
    }
}
