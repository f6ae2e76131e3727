//! The manifest of an area's present state.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::model::manifest::{Kind, MAX_RUNS, MAX_SOURCES, Manifest, SourceEntry};
use crate::model::units::Epoch;
use crate::sys::process::now_ns;

impl Core {
    /// The manifest of the present state.
    pub(crate) fn describe(&self, state: &Tables, kind: Kind, epoch: Epoch) -> Result<Manifest> {
        if state.runs.count() > MAX_RUNS {
            return Err(Fault::Limit { what: "mapped runs", limit: MAX_RUNS as u64 });
        }
        let (dev, ino) =
            state.storage.memory.as_ref().map_or((0, 0), |memory| memory.file.identity());
        let own = SourceEntry { area: self.id, epoch, dev, ino, name: self.name.clone() };
        let mut sources = vec![own];
        let mut index = vec![0u32; state.sources.len().max(1)];
        for (slot, source) in state.sources.iter().enumerate() {
            let Some(s) = source.as_ref().filter(|_| state.runs.bytes_of(slot as u32) > 0) else {
                continue;
            };
            index[slot] = sources.len() as u32;
            let name = s.name.clone();
            sources.push(SourceEntry {
                area: s.area,
                epoch: s.epoch,
                dev: s.dev,
                ino: s.ino,
                name,
            });
        }
        if sources.len() > MAX_SOURCES {
            return Err(Fault::Limit { what: "areas depended on", limit: MAX_SOURCES as u64 });
        }
        let mut runs: Vec<_> = state.runs.iter().collect();
        for run in &mut runs {
            let listed = index[run.source as usize];
            assert_eq!(listed == 0, run.source == 0, "INV-AREA-10: what is shown is listed");
            run.source = listed;
        }
        Ok(Manifest {
            id: self.id,
            epoch,
            kind,
            geometry: self.geometry,
            base: self.mapping.base().as_ptr() as u64,
            published_ns: now_ns(),
            runs,
            sources,
            payload: state.manifests.payload.clone(),
        })
    }
}
