//! Deciding ahead where the next version of each extent of a tracked area goes ("arming").
//!
//! Everything here runs under the area's lock. An extent's word changes under the lock only while
//! the gate is closed, or while the word itself keeps the handler away (`UNARMED`, `BUSY`); so a
//! handler never uses a plane that this side has given to somebody else (INV-AREA-12).

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::extent_word::{
    self, ABSENT, AGAIN, FROZEN, HOT, IN_PLACE, NO_PLANE, PLANNED, PRIVATE, SPARE, UNARMED, note,
};
use crate::model::old_versions::visible;
use crate::model::own_versions::Own;
use crate::model::units::{AreaOffset, ExtentId};
use crate::policy::alternation::{back_in_step, in_step};

/// Extents on each side of one that say where the crowd is.
const CROWD: u32 = 4;

impl Core {
    /// The word of an extent that has become private. In a tracked area it says where the version
    /// after the next publish goes, so that a publish has nothing to decide.
    pub(crate) fn private_word(&self, state: &mut Tables, extent: ExtentId) -> u32 {
        if self.tracked.get().is_none() {
            return PRIVATE;
        }
        let current = state.own.get(extent).map(|own| own.plane);
        PRIVATE | PLANNED | self.next_plane(state, extent, current)
    }

    /// Decides where the next version of an extent goes. `publishing`: the present version is about
    /// to be shown by a manifest that does not exist yet.
    ///
    /// The gate may be open: an extent that the handler claims meanwhile is left to it, and what it
    /// has finished is not in the tables, nor in a state that this looks at.
    pub(crate) fn arm(&self, state: &mut Tables, extent: ExtentId, publishing: bool) {
        loop {
            let word = self.states.word(extent);
            let now = extent_word::state_of(word);
            if now == PRIVATE && word & PLANNED != 0 {
                let next = self.private_word(state, extent) | word & (HOT | AGAIN);
                if self.states.exchange(extent, word, next) {
                    return;
                }
                continue;
            }
            if now != ABSENT && now != FROZEN {
                return;
            }
            let own = state.own.get(extent);
            let seen = |own: &Own| publishing || visible(&state.live, own.born, state.next_epoch);
            let next = if now == FROZEN && own.as_ref().is_some_and(|own| !seen(own)) {
                if word & IN_PLACE == 0 {
                    note(&mut state.in_place, extent);
                }
                IN_PLACE | PLANNED | self.next_plane(state, extent, own.map(|own| own.plane))
            } else {
                self.next_plane(state, extent, own.map(|own| own.plane))
            };
            if self.states.exchange(extent, word, now | next) {
                return;
            }
        }
    }

    fn next_plane(&self, state: &mut Tables, extent: ExtentId, current: Option<u32>) -> u32 {
        let beside = [extent.0.checked_sub(1), Some(extent.0 + 1)]
            .map(|e| self.plane_beside(state, extent, ExtentId(e?)));
        let frozen = self.states.get(extent) == FROZEN;
        let in_step = current.filter(|_| frozen).and_then(|c| {
            in_step(&state.alternation, &state.versions, state.next_epoch, extent, c)
        });
        let choice = in_step.or_else(|| {
            if let Some(crowd) = current.and_then(|current| self.crowd(state, extent, current)) {
                return state.versions.peek_apart(extent, current, crowd);
            }
            let choice = state.versions.peek(&self.geometry, extent, current, beside)?;
            current
                .and_then(|c| {
                    back_in_step(
                        &state.own,
                        &state.versions,
                        |e| self.states.word(e),
                        extent,
                        c,
                        &choice,
                    )
                })
                .or(Some(choice))
        });
        let Some(choice) = choice else { return NO_PLANE };
        let len = u64::from(choice.plane + 1) * self.geometry.reserve().0;
        let long_enough = state.memory.as_ref().is_some_and(|memory| memory.len >= len);
        if !long_enough && self.memory_of_len(state, len).is_err() {
            return NO_PLANE;
        }
        extent_word::plane_bits(choice.plane) | if choice.spare { SPARE } else { 0 }
    }

    /// The plane of nearly all extents around one that lies in another. The extent that a sweep was
    /// in when a publish came is stored to twice and so out of step with the others, for good if
    /// all only alternate: it has to go through a third plane, or costs each hook a mapping.
    fn crowd(&self, state: &Tables, extent: ExtentId, current: u32) -> Option<u32> {
        let plane = |e: u32| state.own.get(ExtentId(e)).map(|own| own.plane);
        let crowd = plane(extent.0 + 1).filter(|p| *p != current);
        let crowd = crowd.or_else(|| plane(extent.0.checked_sub(1)?)).filter(|p| *p != current)?;
        let around = (extent.0.saturating_sub(CROWD)..extent.0)
            .chain(extent.0 + 1..=extent.0 + CROWD)
            .filter(|e| plane(*e) == Some(crowd));
        (around.count() >= 2 * CROWD as usize - 1).then_some(crowd)
    }

    /// The plane of an extent's neighbour at the time when the extent gets its next version: so
    /// that what is stored to between two publishes lies in one plane, and is one mapping.
    fn plane_beside(&self, state: &Tables, extent: ExtentId, beside: ExtentId) -> Option<u32> {
        if beside.0 >= self.states.len() {
            return None;
        }
        let (word, mine) = (self.states.word(beside), self.states.get(extent));
        let planned = match extent_word::state_of(word) {
            // Both have been stored to since the last publish, or neither: they go on together.
            PRIVATE => mine == PRIVATE && word & PLANNED != 0,
            FROZEN => {
                word & (UNARMED | NO_PLANE) == 0 && (word & IN_PLACE == 0 || word & PLANNED != 0)
            }
            _ => false,
        };
        match planned {
            true => Some(extent_word::plane_of(word)),
            false => state.own.get(beside).map(|own| own.plane),
        }
    }

    /// Arms everything that is not armed by its word already: what has a version of its own here,
    /// or old ones. The first version of an extent that shows another area goes to plane 0, as that
    /// of an absent one; so a new area is tracked in a time that does not grow with what it shows.
    pub(crate) fn arm_all(&self, state: &mut Tables) {
        state.versions.watch();
        let mut extents: Vec<ExtentId> = state.versions.extents().collect();
        for run in state.runs.iter().filter(|run| run.source == 0) {
            let range = AreaOffset(run.start)..AreaOffset(run.end());
            extents.extend(self.geometry.covering(&range).map(ExtentId));
        }
        extents.into_iter().for_each(|e| self.arm(state, e, false));
    }

    /// The word of an extent that is given back: frozen or absent. A tracked one is armed next.
    pub(crate) fn settle(
        &self,
        state: &mut crate::area::tables::Tables,
        extent: ExtentId,
        word: u32,
    ) {
        debug_assert!(word == FROZEN || word == ABSENT);
        if self.tracked.get().is_none() {
            return self.states.set(extent, word);
        }
        self.states.set(extent, word | crate::model::extent_word::UNARMED);
        self.arm(state, extent, false);
    }
}
