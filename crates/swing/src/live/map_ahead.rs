//! What a live hook prepares while the owner works.
//!
//! A process that has hooked an area before knows where the area lies, and how. A state differs
//! little from the state before. Where stores have been everywhere in between, it resembles the
//! state before that, since extents alternate between planes. So the hooker opens the memory and
//! maps it as the likelier of the two states says. Then it maps only what lies elsewhere in the new
//! state, which may be nothing. No byte is read before the state is known and leased.

use std::sync::Arc;

use crate::hook::options::HookAt;
use crate::hook::snapshot::Snapshot;
use crate::memory::lookup;
use crate::memory::mapping::Mapping;
use crate::model::geometry::Geometry;
use crate::model::manifest::Manifest;
use crate::model::runs::{Run, cover_the_same, not_in};
use crate::model::units::AreaId;
use crate::namespace::files::MEMORY;
use crate::namespace::handle::Namespace;
use crate::sys::file::{FileFacts, Folder};
use crate::sys::kept_file::{Access, Here, KeptFile};

/// The most runs that are mapped ahead: there is little time.
const MOST_RUNS: usize = 32;

/// What is known of an area from its states hooked last.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    area: AreaId,
    geometry: Geometry,
    base: usize,
    /// Of the area's own memory.
    identity: Option<(u64, u64)>,
    /// The runs of the last state and of the one before, if these are few.
    states: [Vec<Run>; 2],
    /// Which of both the next one is like, as far as that can be known.
    likely: usize,
}

impl Past {
    /// With one more state.
    pub(crate) fn after(before: Option<&Self>, snapshot: &Snapshot) -> Self {
        let manifest = &snapshot.inner.manifest;
        let (area, geometry) = (manifest.id, manifest.geometry);
        let base = manifest.base as usize;
        let few = manifest.sources.len() == 1 && manifest.runs.len() <= MOST_RUNS;
        let runs = if few { manifest.runs.clone() } else { Vec::new() };
        let before = before.filter(|b| (b.area, b.geometry, b.base) == (area, geometry, base));
        // How this state could have been made ready.
        let calls = |state: &Vec<Run>| match state.is_empty() {
            true => usize::MAX,
            false => not_in(&runs, state).len(),
        };
        let likely = before.map_or(0, |b| usize::from(calls(&b.states[1]) <= calls(&b.states[0])));
        let last = before.map_or_else(Vec::new, |b| b.states[0].clone());
        Self {
            area,
            geometry,
            base,
            identity: manifest.own_identity(),
            states: [runs, last],
            likely,
        }
    }
}

/// What has been made ready.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The area's own memory.
    pub memory: Arc<KeptFile>,
    pub facts: FileFacts,
    pub mapping: Arc<Mapping>,
    /// Where it would be if that were free.
    base: usize,
    /// What is mapped.
    pub shown: Vec<Run>,
}

impl Ready {
    /// Opens the memory, and maps what the next state probably shows; `None` when that cannot be
    /// done.
    pub(crate) fn make(ns: &Namespace, folder: &Folder, past: &Past) -> Option<Self> {
        let identity = past.identity?;
        let opened = lookup::open(folder, MEMORY, past.area, Some(identity), Access::Read).ok()?;
        let facts = opened.1;
        if facts.identity() != identity {
            return None;
        }
        let shown = past.states[past.likely].clone();
        let is_there = |r: &Run| r.file_offset.checked_add(r.len).is_some_and(|e| e <= facts.len);
        if !shown.iter().all(is_there) {
            return None;
        }
        let mapping = Mapping::reserve_showing(
            ns.on_release(),
            past.geometry,
            past.base,
            &shown,
            Here::opened(&opened.0),
            ns.path(),
        )
        .ok()?;
        let file = lookup::keep(folder, MEMORY, opened, Access::Read);
        Some(Self { memory: Arc::new(file), facts, mapping, base: past.base, shown })
    }

    /// Whether a state can be mapped with it.
    pub(crate) fn fits(&self, manifest: &Manifest, at: HookAt) -> bool {
        let here = self.mapping.base().as_ptr() as usize;
        let base = manifest.base as usize;
        (base == here || (at == HookAt::Anywhere && base == self.base))
            && manifest.sources.len() == 1
            && manifest.own_identity() == Some(self.facts.identity())
            && manifest.geometry == *self.mapping.geometry()
            && (self.shown.is_empty() || cover_the_same(&self.shown, &manifest.runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::protocol::Publish;
    use crate::{AreaName, AreaOptions, ByteLen};

    #[test]
    fn what_is_ready_serves_where_the_origin_is_or_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let name = AreaName::new("ready").unwrap();
        let area = ns.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
        area.track().unwrap();
        // SAFETY: the area is tracked, and nobody else stores.
        unsafe { area.base().as_ptr().write_volatile(7) };
        area.publish(Publish::Shared, b"").unwrap();
        let folder = ns.folder().open_folder(&name.folder()).unwrap();
        let snapshot = ns.hook(&name).unwrap();
        let mut past = Past::after(None, &snapshot);
        let make = |past: &Past| Ready::make(&ns, &folder, past).unwrap();
        let fits = |ready: &Ready, at| ready.fits(&snapshot.inner.manifest, at);
        // The owner is where the origin is.
        let beside = make(&past);
        assert!(fits(&beside, HookAt::Anywhere) && !fits(&beside, HookAt::OriginAddress));
        assert_eq!(beside.shown, snapshot.inner.manifest.runs);
        // SAFETY: mapped, and not stored to.
        assert_eq!(unsafe { beside.mapping.base().as_ptr().read_volatile() }, 7);
        // For another place, it does not say where the origin is.
        past.base = snapshot.mapping().base().as_ptr() as usize;
        assert!(!fits(&make(&past), HookAt::Anywhere));
        // Another memory is not opened.
        past.identity = Some((1, 1));
        assert!(Ready::make(&ns, &folder, &past).is_none());
    }
}
