//! The plan of a write barrier: which way each extent of a range becomes private.
//!
//! Made under the area's lock. It claims the extents (`BUSY`) and takes the planes that new
//! versions go to, so that what is done afterwards, outside the lock, meets nobody else. Neighbours
//! that go the same way make one step, which costs one mapping.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::area::{Core, State};
use crate::barrier::WriteIntent;
use crate::error::{Fault, Result};
use crate::extents::{ABSENT, BUSY, FROZEN, PRIVATE};
use crate::units::{AreaOffset, ExtentId};
use crate::versions::visible;

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
        state: &mut State,
        range: &Range<AreaOffset>,
        extents: Range<u32>,
        intent: WriteIntent,
    ) -> Result<(Vec<Step>, Option<Arc<File>>)> {
        assert!(extents.end <= self.states.len(), "the range was checked");
        let inside = self.geometry.inside(range);
        let mut steps: Vec<Step> = Vec::new();
        let mut highest = 0;
        for e in extents {
            let extent = ExtentId(e);
            match self.states.get(extent) {
                PRIVATE => continue,
                word => assert!(
                    matches!(word, ABSENT | FROZEN),
                    "INV-AREA-3: {extent} is settled, not {word}"
                ),
            }
            let overwrite = intent == WriteIntent::Overwrite && inside.contains(&e);
            let beside = self.planes_beside(state, &steps, extent);
            let Some(way) = self.choose_way(state, extent, overwrite, beside) else {
                self.abandon(state, &steps);
                return Err(Fault::PlanesExhausted { at: self.geometry.start(extent) });
            };
            if let Way::Fresh { plane, .. } | Way::Copy { plane } = way {
                highest = highest.max(plane + 1);
            }
            self.add_step(&mut steps, extent, way);
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
        for step in &steps {
            step.extents().for_each(|e| self.states.set(e, BUSY));
            state.busy += step.count;
        }
        Ok((steps, Some(file)))
    }

    /// Gives back the planes of steps that will not be performed.
    fn abandon(&self, state: &mut State, steps: &[Step]) {
        for step in steps {
            if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way {
                step.extents().for_each(|e| state.versions.add_spare(&self.geometry, e, plane));
            }
        }
    }

    /// The planes of an extent's neighbours, as they will be.
    fn planes_beside(&self, state: &State, steps: &[Step], extent: ExtentId) -> [Option<u32>; 2] {
        let own = |e: ExtentId| state.own.get(e).map(|own| own.plane);
        let planned = steps.last().filter(|s| s.first.0 + s.count == extent.0);
        let left = match planned.map(|step| step.way) {
            Some(Way::Fresh { plane, .. } | Way::Copy { plane }) => Some(plane),
            _ => extent.0.checked_sub(1).and_then(|e| own(ExtentId(e))),
        };
        [left, own(ExtentId(extent.0 + 1))]
    }

    fn choose_way(
        &self,
        state: &mut State,
        extent: ExtentId,
        overwrite: bool,
        beside: [Option<u32>; 2],
    ) -> Option<Way> {
        let own = state.own.get(extent);
        let absent = self.states.get(extent) == ABSENT;
        if let Some(own) = own
            && !visible(&state.live, own.born, state.next_epoch)
        {
            return Some(Way::InPlace);
        }
        let current = own.map(|o| o.plane);
        let choice = state.versions.choose(&self.geometry, extent, current, beside)?;
        assert_ne!(Some(choice.plane), current, "INV-AREA-1: a visible version stays");
        Some(match (absent, overwrite) {
            (_, true) => Way::Fresh { plane: choice.plane, zero: false },
            (true, false) => Way::Fresh { plane: choice.plane, zero: choice.spare },
            (false, false) => Way::Copy { plane: choice.plane },
        })
    }

    fn add_step(&self, steps: &mut Vec<Step>, extent: ExtentId, way: Way) {
        let (start, len) = (self.geometry.start(extent).0, self.geometry.len(extent).0);
        if let Some(last) = steps.last_mut() {
            let adjacent = last.first.0 + last.count == extent.0 && last.way == way;
            assert!(last.first.0 + last.count <= extent.0, "extents come in order");
            if adjacent && self.geometry.is_small(last.first) == self.geometry.is_small(extent) {
                last.count += 1;
                last.len += len;
                return;
            }
        }
        steps.push(Step { first: extent, count: 1, start, len, way });
    }
}
