//! The plan of a write barrier: which way each extent of a range becomes private.
//!
//! Made under the area's lock. It claims the extents (`BUSY`) and takes the planes that new
//! versions go to, so that what is done afterwards, outside the lock, meets nobody else. Neighbours
//! that go the same way make one step, which costs one mapping.

use std::ops::Range;
use std::sync::Arc;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::memory::copier::COPY_STEP;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{ABSENT, BUSY, FROZEN, PRIVATE};
use crate::model::old_versions::visible;
use crate::model::units::{AreaOffset, ExtentId};
use crate::policy::plane_choice::{self, Look};
use crate::sys::kept_file::KeptFile;

/// What the caller will do with a range it makes writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteIntent {
    /// The bytes are kept; memory that did not exist reads as zeros.
    Keep,
    /// The caller overwrites every byte of the range. Extents wholly inside hold unspecified bytes
    /// until then; edge extents keep theirs.
    Overwrite,
}

/// How an extent becomes private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Map `plane`; there was nothing, or it will all be overwritten. `zero`: the plane holds old
    /// bytes that must not show.
    Fresh { plane: u32, zero: bool },
    /// Take off the write-protection.
    InPlace,
    /// Copy into `plane`.
    Copy { plane: u32 },
}

/// Adjacent extents of one zone that go the same way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub first: ExtentId,
    pub count: u32,
    pub start: u64,
    pub len: u64,
    pub way: Way,
    /// The plane has memory already, which nobody sees.
    pub spare: bool,
    /// The addresses show the plane already.
    pub mapped: bool,
}

impl Step {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = ExtentId> + use<> {
        (self.first.0..self.first.0 + self.count).map(ExtentId)
    }
}

impl Core {
    /// Claims the extents that are not private yet and decides what to do with each.
    #[allow(clippy::type_complexity)]
    pub(crate) fn plan(
        &self,
        state: &mut Tables,
        range: &Range<AreaOffset>,
        extents: Range<u32>,
        intent: WriteIntent,
    ) -> Result<(Vec<Step>, Option<Arc<KeptFile>>)> {
        assert!(extents.end <= self.words.len(), "the range was checked");
        let inside = self.geometry.inside(range);
        let mut steps: Vec<Step> = Vec::new();
        let mut highest = 0;
        for e in extents {
            let extent = ExtentId(e);
            match self.words.get(extent) {
                PRIVATE => continue,
                word => assert!(
                    matches!(word, ABSENT | FROZEN),
                    "INV-AREA-3: {extent} is settled, not {word}"
                ),
            }
            let overwrite = intent == WriteIntent::Overwrite && inside.contains(&e);
            let beside = self.planes_beside(state, &steps, extent);
            let Some((way, spare)) = self.choose_way(state, extent, overwrite, beside) else {
                self.abandon(state, &steps);
                return Err(Fault::PlanesExhausted { at: self.geometry.start(extent) });
            };
            if let Way::Fresh { plane, .. } | Way::Copy { plane } = way {
                highest = highest.max(plane + 1);
            }
            self.add_step(&mut steps, extent, way, spare);
        }
        assert!(steps.windows(2).all(|s| s[0].end() <= s[1].start), "steps do not overlap");
        if steps.is_empty() {
            return Ok((steps, None));
        }
        let len = u64::from(highest.max(1)) * self.geometry.reserve().0;
        let file = match self.memory_of_len(state, len) {
            Ok(file) => file,
            Err(fault) => {
                self.abandon(state, &steps);
                return Err(fault);
            }
        };
        for step in &mut steps {
            if let Way::Fresh { plane, .. } = step.way {
                let run = self.plane_run(step.start, step.len, plane);
                step.mapped = self.map_in_advance(state, &run, plane, &file);
            }
            step.extents().for_each(|e| self.words.set(e, BUSY));
            state.busy += step.count;
        }
        Ok((steps, Some(file)))
    }

    fn abandon(&self, state: &mut Tables, steps: &[Step]) {
        steps.iter().for_each(|step| self.give_planes_back(state, step));
    }

    /// Gives back the planes of a step that will not be performed: those without memory are free.
    pub(crate) fn give_planes_back(&self, state: &mut Tables, step: &Step) {
        if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way
            && step.spare
        {
            step.extents().for_each(|e| state.versions.add_spare(&self.geometry, e, plane));
        }
    }

    /// The planes of an extent's neighbours, as they will be.
    fn planes_beside(&self, state: &Tables, steps: &[Step], extent: ExtentId) -> [Option<u32>; 2] {
        let own = |e: ExtentId| state.own.get(e).map(|own| own.plane);
        let planned = steps.last().filter(|s| s.first.0 + s.count == extent.0);
        let left = match planned.map(|step| step.way) {
            Some(Way::Fresh { plane, .. } | Way::Copy { plane }) => Some(plane),
            _ => extent.0.checked_sub(1).and_then(|e| own(ExtentId(e))),
        };
        [left, own(ExtentId(extent.0 + 1))]
    }

    /// How, and whether in memory that is spare.
    fn choose_way(
        &self,
        state: &mut Tables,
        extent: ExtentId,
        overwrite: bool,
        beside: [Option<u32>; 2],
    ) -> Option<(Way, bool)> {
        let own = state.own.get(extent);
        let absent = self.words.get(extent) == ABSENT;
        if let Some(own) = own
            && !visible(&state.manifests.live, own.born, state.manifests.next_epoch)
        {
            return Some((Way::InPlace, false));
        }
        let current = own.map(|o| o.plane);
        let Tables { own, versions, .. } = &mut *state;
        let look = Look { geometry: &self.geometry, own, versions, tracked: None };
        let choice = plane_choice::choose(&look, extent, current, beside)?;
        let spare = versions.take(&self.geometry, extent, choice.plane);
        assert_eq!(spare, choice.spare, "INV-AREA-2: looked at and taken alike");
        assert_ne!(Some(choice.plane), current, "INV-AREA-1: a visible version stays");
        let way = match (absent, overwrite) {
            (_, true) => Way::Fresh { plane: choice.plane, zero: false },
            (true, false) => Way::Fresh { plane: choice.plane, zero: choice.spare },
            (false, false) => Way::Copy { plane: choice.plane },
        };
        Some((way, choice.spare))
    }

    /// In a tracked area a step is one piece of what is shown at once: another thread may store
    /// there, without a trap, before the next piece fails, and that is not taken back.
    fn add_step(&self, steps: &mut Vec<Step>, extent: ExtentId, way: Way, spare: bool) {
        let (start, len) = (self.geometry.start(extent).0, self.geometry.len(extent).0);
        let most = if self.tracked.get().is_some() { COPY_STEP } else { u64::MAX };
        if let Some(last) = steps.last_mut() {
            let adjacent = last.first.0 + last.count == extent.0;
            let alike = (last.way, last.spare) == (way, spare)
                && self.geometry.is_small(last.first) == self.geometry.is_small(extent);
            assert!(last.first.0 + last.count <= extent.0, "extents come in order");
            if adjacent && alike && last.len + len <= most {
                last.count += 1;
                last.len += len;
                return;
            }
        }
        steps.push(Step { first: extent, count: 1, start, len, way, spare, mapped: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::protocol::Publish;
    use crate::{AreaName, AreaOptions, ByteLen, Namespace};

    const MIB: u64 = 1 << 20;

    /// Plans to write to all that was published, and does not; the lengths of the steps, and what
    /// is spare afterwards.
    fn planned(track: bool) -> (Vec<u64>, ByteLen) {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let options = AreaOptions::with_reserve(ByteLen::gib(1));
        let area = ns.create(&AreaName::new("steps").unwrap(), &options).unwrap();
        if track {
            area.track().unwrap();
        }
        let range = AreaOffset(64 * MIB)..AreaOffset(144 * MIB);
        area.make_writable(range.clone(), WriteIntent::Keep).unwrap();
        area.publish(Publish::Shared, b"").unwrap();
        let core = &area.core;
        let extents = core.geometry.covering(&range);
        let (mut state, closed) = core.lock_settled(extents.clone()).unwrap();
        let (steps, file) = core.plan(&mut state, &range, extents, WriteIntent::Keep).unwrap();
        for step in &steps {
            core.undo(&mut state, step, &file.clone().unwrap(), false, 0);
            state.busy -= step.count;
        }
        let spare = state.versions.spare_bytes();
        drop((closed, state));
        area.make_writable(range, WriteIntent::Keep).unwrap();
        (steps.iter().map(|step| step.len).collect(), spare)
    }

    #[test]
    fn a_step_of_a_tracked_area_is_shown_at_once() {
        assert_eq!(planned(true).0, [32 * MIB, 32 * MIB, 16 * MIB]);
        assert_eq!(planned(false).0, [80 * MIB]);
    }

    #[test]
    fn planes_that_never_got_memory_are_not_spare() {
        assert_eq!(planned(true).1, ByteLen(0));
        assert_eq!(planned(false).1, ByteLen(0));
    }
}
