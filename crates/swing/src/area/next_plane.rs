//! Deciding ahead where the next version of each extent of a tracked area goes ("arming").
//!
//! Everything here runs under the area's lock. An extent's word changes under the lock only while
//! the gate is closed, or while the word itself keeps the handler away (`UNARMED`, `BUSY`); so a
//! handler never uses a plane that this side has given to somebody else (INV-AREA-12).

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::extent_word::{
    self, ABSENT, AGAIN, FROZEN, HOT, IN_PLACE, NO_PLANE, PLANNED, PRIVATE, SPARE, note,
};
use crate::model::old_versions::visible;
use crate::model::own_versions::Own;
use crate::model::units::{AreaOffset, ExtentId};
use crate::policy::plane_choice::{self, Look, Tracking};

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
            let word = self.words.word(extent);
            let now = extent_word::state_of(word);
            if now == PRIVATE && word & PLANNED != 0 {
                let next = self.private_word(state, extent) | word & (HOT | AGAIN);
                if self.words.exchange(extent, word, next) {
                    return;
                }
                continue;
            }
            if now != ABSENT && now != FROZEN {
                return;
            }
            let own = state.own.get(extent);
            let seen = |own: &Own| {
                publishing || visible(&state.manifests.live, own.born, state.manifests.next_epoch)
            };
            let next = if now == FROZEN && own.as_ref().is_some_and(|own| !seen(own)) {
                if word & IN_PLACE == 0 {
                    note(&mut state.changed.in_place, extent);
                }
                IN_PLACE | PLANNED | self.next_plane(state, extent, own.map(|own| own.plane))
            } else {
                self.next_plane(state, extent, own.map(|own| own.plane))
            };
            if self.words.exchange(extent, word, now | next) {
                return;
            }
        }
    }

    fn next_plane(&self, state: &mut Tables, extent: ExtentId, current: Option<u32>) -> u32 {
        let words = |extent| self.words.word(extent);
        let look = Look {
            geometry: &self.geometry,
            own: &state.own,
            versions: &state.versions,
            tracked: Some(Tracking {
                alternation: &state.heuristics.alternation,
                next_epoch: state.manifests.next_epoch,
                rejoining: self.ns.switches().rejoining,
                words: &words,
            }),
        };
        let choice = plane_choice::choose(&look, extent, current, look.beside(extent));
        let Some(mut choice) = choice else { return NO_PLANE };
        let reserve = self.geometry.reserve().0;
        let len = u64::from(choice.plane + 1) * reserve;
        let there = state.storage.memory.as_ref().map_or(0, |memory| memory.len);
        if there < len && self.memory_of_len(state, len).is_err() {
            // The file may not grow: any plane that it has.
            let mut planes = (0..(there / reserve) as u32).filter(|p| Some(*p) != current);
            match planes.find_map(|plane| state.versions.peek_in(extent, plane)) {
                Some(in_file) => choice = in_file,
                None => return NO_PLANE,
            }
        }
        extent_word::plane_bits(choice.plane) | if choice.spare { SPARE } else { 0 }
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

    /// Decides anew for the extents for which no plane was free, after memory has been reclaimed.
    pub(crate) fn arm_without_plane(&self, state: &mut Tables) {
        let extents = (0..self.words.len()).map(ExtentId);
        for extent in extents.filter(|e| self.words.word(*e) & NO_PLANE != 0) {
            self.arm(state, extent, false);
        }
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
            return self.words.set(extent, word);
        }
        self.words.set(extent, word | crate::model::extent_word::UNARMED);
        self.arm(state, extent, false);
    }
}
