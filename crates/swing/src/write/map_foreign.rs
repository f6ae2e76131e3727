//! Mapping a part of another area's published state into this area: CLONE without a copy.
//!
//! The extents become part of the live state like any other frozen extent: the first write copies
//! them. The area now depends on the manifest they came from: by the snapshot's lease until it
//! publishes, by a pin afterwards.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::{Source, Tables};
use crate::hook::snapshot::Snapshot;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, MapForeignError, Result};
use crate::model::extent_word::{ABSENT, BUSY, FROZEN};
use crate::model::manifest::MAX_SOURCES;
use crate::model::runs::Run;
use crate::model::units::{AreaOffset, ExtentId};
use crate::namespace::info::Info;
use crate::sys::block_signals::Quiet;

impl Area {
    /// Shows `source_range` of a snapshot at `at`, without copying. Both must be made of whole
    /// extents of the data zone, of the same size in both areas, the range wholly mapped in the
    /// snapshot. What `at..` held before is discarded.
    pub fn map_foreign(
        &self,
        source: &Snapshot,
        source_range: Range<AreaOffset>,
        at: AreaOffset,
    ) -> Result<(), MapForeignError> {
        let core = &*self.core;
        let result = core.map_foreign(source, &source_range, at);
        result.map_err(|fault| MapForeignError::from_fault(fault, &core.context()))
    }
}

impl Core {
    fn map_foreign(
        &self,
        source: &Snapshot,
        from: &Range<AreaOffset>,
        at: AreaOffset,
    ) -> Result<()> {
        let refuse = || Fault::OutOfRange { start: from.start, end: from.end };
        let geometry = source.geometry();
        let ordered = geometry.contains(from) && from.start < from.end;
        if !ordered || from.start.0 < geometry.small_zone().0 || !source.is_mapped(from) {
            return Err(refuse());
        }
        // Extents of another size could not be copied one by one.
        if geometry.data_extent() != self.geometry.data_extent() {
            return Err(refuse());
        }
        if !geometry.is_boundary(from.start) || !geometry.is_boundary(from.end) {
            return Err(refuse());
        }
        let end = at.0.checked_add((from.end - from.start).0).ok_or_else(refuse)?;
        let to = at..AreaOffset(end);
        let target = Fault::OutOfRange { start: to.start, end: to.end };
        if !self.geometry.contains(&to) || at.0 < self.geometry.small_zone().0 {
            return Err(target);
        }
        if !self.geometry.is_boundary(at) {
            return Err(target);
        }
        self.discard(&to)?;
        let extents = self.geometry.covering(&to);
        let (mut state, closed) = self.lock_settled(extents.clone())?;
        if extents.clone().any(|e| self.words.get(ExtentId(e)) != ABSENT) {
            // Another thread wrote there at the same time: the callers do not agree on who owns the
            // range.
            return Err(target);
        }
        let _quiet = closed.is_some().then(Quiet::begin);
        self.forget_in_advance(&mut state, to.start.0..to.end.0)?;
        extents.clone().for_each(|e| self.words.set(ExtentId(e), BUSY));
        drop(closed);
        let mapped = self.map_source_runs(&mut state, source, from, at);
        if let Err(fault) = mapped {
            state.runs.clear(to.start.0, to.end.0);
            self.restore(&state, to.start.0, to.end.0);
            extents.for_each(|e| self.settle(&mut state, ExtentId(e), ABSENT));
            return Err(fault);
        }
        extents.for_each(|e| {
            assert_eq!(self.words.get(ExtentId(e)), BUSY, "INV-AREA-3: claimed all the time");
            self.settle(&mut state, ExtentId(e), FROZEN);
        });
        state.changed.dirty = true;
        drop(state);
        self.note_lineage(source);
        Ok(())
    }

    fn map_source_runs(
        &self,
        state: &mut Tables,
        source: &Snapshot,
        from: &Range<AreaOffset>,
        at: AreaOffset,
    ) -> Result<()> {
        let manifest = &source.inner.manifest;
        let path = self.memory_path();
        let first = manifest.runs.partition_point(|r| r.end() <= from.start.0);
        for run in manifest.runs[first..].iter().take_while(|r| r.start < from.end.0) {
            let (start, end) = (run.start.max(from.start.0), run.end().min(from.end.0));
            let slot = self.slot_for(state, source, run.source as usize)?;
            let file = self.file_of(state, slot)?;
            let mapped = Run {
                start: at.0 + (start - from.start.0),
                len: end - start,
                source: slot,
                file_offset: run.file_offset + (start - run.start),
            };
            assert!(start < end && mapped.start >= at.0, "the run overlaps the range");
            self.mapping.map_run(&mapped, &file, false).map_err(|e| mapping_fault(e, &path))?;
            state.runs.set(mapped);
        }
        Ok(())
    }

    /// The slot of a snapshot's source in this area's table; a new dependency is leased.
    fn slot_for(&self, state: &mut Tables, snapshot: &Snapshot, index: usize) -> Result<u32> {
        let entry = &snapshot.inner.manifest.sources[index];
        let held = &snapshot.inner.held[index];
        if entry.area == self.id && entry.epoch >= state.manifests.next_epoch {
            return Err(Fault::corrupt(self.folder.path(), "a state this area never had"));
        }
        let same = |s: &Source| s.area == entry.area && s.epoch == entry.epoch;
        let known = |s: &Option<Source>| s.as_ref().is_some_and(same);
        if let Some(slot) = state.sources.iter().position(known) {
            return Ok(slot as u32);
        }
        let Some(file) = held.file.clone() else {
            return Err(Fault::corrupt(self.folder.path(), "a run lies in an area without memory"));
        };
        let source = Source {
            area: entry.area,
            epoch: entry.epoch,
            name: entry.name.clone(),
            file,
            dev: entry.dev,
            ino: entry.ino,
            lease: held.lease.clone(),
            via: held.via.clone(),
            pinned: false,
            first_published: None,
            last_published: None,
        };
        let free = state.sources.iter().skip(1).position(Option::is_none).map(|i| i + 1);
        let slot = free.unwrap_or(state.sources.len());
        if slot >= MAX_SOURCES {
            return Err(Fault::Limit { what: "areas depended on", limit: MAX_SOURCES as u64 });
        }
        if slot == state.sources.len() {
            state.sources.push(None);
        }
        assert!(slot > 0 && state.sources[slot].is_none(), "slot 0 is the area itself");
        self.mapping.keep(held.lease.clone(), held.file.clone());
        state.sources[slot] = Some(source);
        Ok(slot as u32)
    }

    /// Listings show where the memory came from; a failure to write that down changes nothing else.
    fn note_lineage(&self, source: &Snapshot) {
        let Some(mut info) = Info::read(&self.folder) else {
            return;
        };
        for lineage in source.lineage() {
            if lineage.id != self.id && !info.parents.contains(&lineage) {
                info.parents.push(lineage);
                let _ = info.write(&self.folder);
            }
        }
    }
}
