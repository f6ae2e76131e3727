//! Writing down what the fault handler has done.
//!
//! Everything here runs under the area's lock. The handler notes the extents that it has made
//! private in a lock-free list; whoever takes the lock next empties it.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::extent_word::{self, AGAIN, HOT, IN_PLACE, LOGGED, PRIVATE, note};
use crate::model::old_versions::visible;
use crate::model::own_versions::Own;
use crate::model::runs::Run;
use crate::model::units::ExtentId;

impl Core {
    /// Writes down which extents the handler has made private.
    pub(crate) fn absorb(&self, state: &mut Tables) {
        let Some(tracked) = self.tracked.get() else { return };
        tracked.log.take_out(|extent| self.record_logged(state, extent));
    }

    fn record_logged(&self, state: &mut Tables, extent: ExtentId) {
        let word = self.words.word(extent);
        assert!(
            extent_word::state_of(word) == PRIVATE && word & LOGGED != 0,
            "INV-AREA-12: {extent} was logged once"
        );
        // Protected early in vain.
        let again = if word & IN_PLACE != 0 { AGAIN } else { 0 };
        let born = state.manifests.next_epoch;
        if word & IN_PLACE != 0 {
            let plane = state.own.get(extent).map_or(0, |own| own.plane);
            state.own.set(extent, Some(Own { plane, born }));
            if state.heuristics.ahead.made_from(extent).is_some_and(|from| from.next() == born) {
                state.spare.rewritten += self.geometry.len(extent).0;
                state.heuristics.ahead.note(extent);
            }
        } else {
            let plane = extent_word::plane_of(word);
            state.versions.take(&self.geometry, extent, plane);
            let old = state.own.set(extent, Some(Own { plane, born }));
            if let Some(old) = old {
                assert_ne!(old.plane, plane, "INV-AREA-1: a visible version is never overwritten");
                if old.born.next() == born {
                    state.spare.rewritten += self.geometry.len(extent).0;
                    state.heuristics.ahead.note(extent);
                }
                let Tables { versions, manifests, .. } = &mut *state;
                versions.free(&self.geometry, &manifests.live, (extent, old.plane), old.born, born);
            }
            let start = self.geometry.start(extent);
            let file_offset = self.geometry.plane_offset(plane, start);
            let len = self.geometry.len(extent).0;
            state.runs.set(Run { start: start.0, len, source: 0, file_offset });
        }
        note(&mut state.changed.private, extent);
        state.changed.dirty = true;
        // Only `prepare` changes the word, before or meanwhile, and says that it is hot.
        let next = self.private_word(state, extent) | again | word & HOT;
        if !self.words.exchange(extent, word, next) {
            self.words.set(extent, next | HOT);
        }
    }

    /// After manifests have gone: memory that became spare is used first.
    pub(crate) fn arm_changed(&self, state: &mut Tables, all_own: bool) {
        if self.tracked.get().is_none() {
            return;
        }
        let mut changed = state.versions.take_changed();
        if all_own {
            // What only the manifest that has gone showed is written in place from now on.
            let unseen =
                |own: &Own| !visible(&state.manifests.live, own.born, state.manifests.next_epoch);
            changed.extend(state.own.iter().filter(|(_, own)| unseen(own)).map(|(e, _)| e));
        }
        self.absorb(state);
        for extent in changed {
            self.arm(state, extent, false);
        }
    }
}
