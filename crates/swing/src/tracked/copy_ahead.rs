//! Copying ahead: after a live hook, what will be stored to soon is copied before it is.
//!
//! The first store to each extent after a hook copies it, and all these copies come at once, right
//! after the hook. Where a program says so ([`Area::copy_ahead`]) the keeper makes some of them
//! meanwhile, on another processor. Only into spare memory is copied, that of an older version
//! which nobody sees any more, so copying ahead takes no memory that was not held already, and
//! after `k` stores there are still at most `k` extents more.
//!
//! Which extents: in general those that were stored to between the last two hooks *and* between the
//! two before, in the order in which they were stored to; spare memory is kept for exactly these.
//! But where stores come in order, as of a loop over all of the memory, the extents right behind
//! the last of them, whenever they were stored to before, several at once (`AT_ONCE`), and no
//! further than `REACH`: what has just been copied is in the cache when the stores come to it, and
//! one trap opens all that was copied at once. So that a loop that takes longer than an interval is
//! followed as well, one spare version of each extent is kept as long as stores come in order.
//!
//! A copy made ahead is write-protected. The first store to it is trapped, as it would be in any
//! case, but only takes the protection off (`IN_PLACE`). If none comes before the next publish, the
//! copy is what that shows; the extent is not copied ahead again, and the older version's memory
//! is given back like any other's.
//!
//! **Concurrency.** Extents are claimed under the area's lock, as the handler claims (`FAULTING`),
//! filled without it, put in their place under the lock again. A publish in between shows the older
//! versions, which have the same bytes. A store to just these extents waits for them.
//! Closing the area waits as well ([`Core::stop_ahead`]): from then on the memory may be another
//! process's. **fork.** Nothing is being copied while the process forks.

use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::memory::copier;
use crate::memory::mapping::mapping_fault;
use crate::model::error::Result;
use crate::model::extent_word::{self, FAULTING, FROZEN, IN_PLACE, UNARMED, WAITERS};
use crate::model::own_versions::Own;
use crate::model::runs::Run;
use crate::model::units::{ByteLen, ExtentId};
use crate::policy::copy_ahead::may_be_copied;
use crate::sys::copy_bytes::CopyFor;
use crate::trap::requests;

/// How much is copied at once where stores come in order: who stores waits for all of it.
const AT_ONCE: ByteLen = ByteLen::mib(8);
/// How far the copies are ahead of stores in order at most, so that they are found in the cache.
const REACH: ByteLen = ByteLen::mib(16);
/// So many times that far is looked for what could be copied next.
const FAR: u32 = 8;

/// An extent that is being copied.
struct Claim {
    extent: ExtentId,
    /// Its word before.
    word: u32,
    /// Its present version.
    own: Own,
}

impl Area {
    /// Whether, after each live hook, a thread of this process copies extents before they are
    /// stored to: those that were stored to between the last two hooks and between the two before,
    /// and where stores come in order the 16 MiB behind them; into memory that is held anyway, and
    /// as long as stores come in order into one spare version of each extent. Then fewer stores
    /// wait for a copy after a hook, and a loop over all of the memory is slowed down less; on the
    /// other hand that thread takes some time of a processor, in vain where stores have moved on,
    /// and a store may wait for up to 8 MiB that are being copied. Only in tracked areas that allow
    /// live hooks. Off at first.
    pub fn copy_ahead(&self, yes: bool) {
        match (self.core.tracked.get(), yes && self.core.ns.switches().copy_ahead) {
            (Some(tracked), true) => tracked.ahead.wanted.store(true, Ordering::SeqCst),
            _ => self.core.stop_ahead(),
        }
    }
}

impl Core {
    /// Nothing is copied ahead from now on, nor just being copied.
    pub(crate) fn stop_ahead(&self) {
        let Some(tracked) = self.tracked.get() else { return };
        // In a forked child the copying thread, and perhaps its locks' holders, are not there.
        if self.check_fork().is_err() {
            return;
        }
        {
            let mut state = self.state.lock();
            tracked.ahead.wanted.store(false, Ordering::SeqCst);
            state.heuristics.ahead.due.clear();
        }
        drop(tracked.ahead.stand_still());
    }

    /// After a live hook: has the keeper begin.
    pub(crate) fn copy_ahead_soon(&self) {
        let Some(tracked) = self.tracked.get().filter(|t| t.ahead.is_wanted()) else { return };
        // Before, the keeper may look for other areas' sake, and would find nothing to do here.
        let Ok(mut state) = self.lock_for_change() else { return };
        state.heuristics.ahead.begun = true;
        drop(state);
        tracked.order.forget();
        tracked.ahead.rest(0..0);
        requests::copy_ahead();
    }

    /// Copies some extents ahead; `true` when there may be more.
    pub(crate) fn copy_some_ahead(&self) -> Result<bool> {
        let Some(tracked) = self.tracked.get().filter(|t| t.ahead.is_wanted()) else {
            return Ok(false);
        };
        let _copying = tracked.ahead.stand_still();
        let claims = self.claim_ahead(&mut *self.lock_for_change()?);
        let Some(first) = claims.first() else { return Ok(false) };
        let end = ExtentId(first.extent.0 + claims.len() as u32);
        let target = tracked.target(first.extent, end, first.word);
        let made = tracked.make_version(first.extent, end, first.word, CopyFor::Ahead);
        // Shown from the file, without its pages: what is stored to soon is looked up anew.
        let made = made.map(|made| copier::leave_in_file(&target, made));
        let mut state = match self.lock_for_change() {
            Ok(state) => state,
            Err(fault) => {
                // The plane is spare as before: whatever is in it, nobody sees it.
                claims.iter().for_each(|claim| self.words.set(claim.extent, claim.word));
                return Err(fault);
            }
        };
        let placed = match made {
            Ok(_) => self.place_ahead(&mut state, &claims),
            Err(e) => Err(mapping_fault(e, &self.memory_path())),
        };
        for Claim { extent, .. } in claims {
            // Keeps the handler away until it is decided where the next version goes.
            self.words.set(extent, FROZEN | UNARMED);
            self.arm(&mut state, extent, false);
            debug_assert!(
                placed.is_err()
                    || self.words.word(extent) & IN_PLACE != 0
                    || self.words.get(extent) != FROZEN,
                "INV-AREA-2: nobody sees what has just been made"
            );
        }
        placed.map(|()| true)
    }

    /// The next extents whose turn it is, claimed: neighbours of one length, whose next versions
    /// lie in one plane. Those behind the last store, if stores come in order.
    fn claim_ahead(&self, state: &mut Tables) -> Vec<Claim> {
        let mut claims: Vec<Claim> = Vec::new();
        let Some(tracked) = self.tracked.get().filter(|t| t.ahead.is_wanted()) else {
            return claims;
        };
        if tracked.gate.held_by_other() || !state.heuristics.ahead.begun {
            return claims;
        }
        let Some(next) = tracked.order.next() else {
            // In the order of the interval before.
            while claims.is_empty() {
                let Some(extent) = state.heuristics.ahead.due.pop() else { break };
                claims.extend(self.claim_one(state, extent));
            }
            return claims;
        };
        let len_of = |extent| self.geometry.len(extent).0;
        let mut left = REACH.0;
        for extent in (next.0..self.words.len()).map(ExtentId) {
            let len = len_of(extent);
            let goes_on = |first: &Claim| {
                extent_word::plane_of(first.word) == extent_word::plane_of(self.words.word(extent))
                    && len_of(first.extent) == len
                    && (claims.len() as u64 + 1) * len <= AT_ONCE.0
            };
            if left < len || claims.first().is_some_and(|first| !goes_on(first)) {
                break;
            }
            left -= len;
            match self.claim_one(state, extent) {
                Some(claim) => claims.push(claim),
                None if claims.is_empty() => {}
                None => break,
            }
        }
        if claims.is_empty() {
            let reach = (REACH.0 / len_of(next)) as u32;
            let end = self.words.len().min(next.0.saturating_add(FAR * reach));
            let may = |e: &u32| may_be_copied(self.words.word(ExtentId(*e)));
            let far = (next.0..end).find(may).unwrap_or(end);
            tracked.ahead.rest(next.0..far.saturating_sub(reach));
        }
        claims
    }

    fn claim_one(&self, state: &Tables, extent: ExtentId) -> Option<Claim> {
        let word = self.words.word(extent) & !WAITERS;
        if !may_be_copied(word) {
            return None;
        }
        let own = state.own.get(extent)?;
        let claimed = word & !7 | FAULTING;
        self.words.replace(extent, word, claimed).then(|| {
            assert_ne!(own.plane, extent_word::plane_of(word), "INV-AREA-12: into another plane");
            Claim { extent, word, own }
        })
    }

    /// Shows the new versions, for reading, in place of those they were copied from.
    fn place_ahead(&self, state: &mut Tables, claims: &[Claim]) -> Result<()> {
        let (Some(first), Some(last)) = (claims.first(), claims.last()) else { return Ok(()) };
        let (start, end) =
            (self.geometry.start(first.extent), self.geometry.range(last.extent).end);
        let len = (end - start).0;
        let (plane, born) = (extent_word::plane_of(first.word), state.manifests.next_epoch);
        let file_offset = self.geometry.plane_offset(plane, start);
        let run = Run { start: start.0, len, source: 0, file_offset };
        let file = self.file_of(state, 0)?;
        // Where it fails the old versions are mapped as before: to map them again might fail, too.
        let mapped = self.mapping.map_run(&run, &file, false);
        mapped.map_err(|e| mapping_fault(e, &self.memory_path()))?;
        for Claim { extent, own, .. } in claims {
            assert_eq!(state.own.get(*extent), Some(*own), "INV-AREA-12: a claimed extent stays");
            let spare = state.versions.take(&self.geometry, *extent, plane);
            assert!(spare, "INV-AREA-12: nobody else has taken or punched the plane");
            state.own.set(*extent, Some(Own { plane, born }));
            let Tables { versions, manifests, .. } = &mut *state;
            versions.free(&self.geometry, &manifests.live, (*extent, own.plane), own.born, born);
            state.heuristics.ahead.made.insert(*extent, own.born);
        }
        state.runs.set(run);
        state.changed.dirty = true;
        if let Some(tracked) = self.tracked.get() {
            tracked.copied.fetch_add(len, Ordering::Relaxed);
        }
        Ok(())
    }
}
