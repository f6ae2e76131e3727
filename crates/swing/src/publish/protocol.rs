//! Publishing: freezing the present state under a new epoch.
//!
//! The order is what makes it safe against a crash at any instruction:
//! 1. every private extent is write-protected: from here on the published bytes do not change
//!    (INV-AREA-1);
//! 2. pins on everything the state depends on are in the folder, and the memory file has its name;
//! 3. the manifest is written completely under its own name `m.<epoch>`, which nobody opens;
//! 4. a rename makes it current. Before it the old state is current, after it the new one.
//!
//! Steps 3 and 4 are the same for a manifest made ahead of its publish
//! ([`crate::publish::commit`]).
//!
//! The cost is the number of extents that changed plus the number of runs, never the size of the
//! area. Manifests that this publish supersedes are examined a bounded number at a time.

use std::time::Instant;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::model::error::{Fault, PublishError, Result};
use crate::model::manifest::{Kind, MAX_PAYLOAD_BYTES};
use crate::model::units::{ByteLen, Epoch};
use crate::publish::commit::{Commit, Published};
use crate::publish::freeze::Frozen;
use crate::publish::protect::Freeze;
use crate::trap::pins::MAX_PINNED;

/// For whom a state is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Survives a crash of the owner: what `Namespace::open_area` comes back to. Invisible to
    /// hookers.
    Committed,
    /// The same, and it can be hooked from now on.
    Shared,
}

impl Area {
    /// Freezes the present state as a new epoch. The caller keeps its own stores away meanwhile;
    /// extents that were private are write-protected afterwards. `payload` (at most 4096 bytes) is
    /// the client's root, handed to whoever opens the state.
    ///
    /// The first publish of a named area makes it outlive its process. Memory that it
    /// makes superfluous is left to later calls, or to [`Area::give_back_later`].
    pub fn publish(&self, kind: Publish, payload: &[u8]) -> Result<Epoch, PublishError> {
        let core = &*self.core;
        let kind = match kind {
            Publish::Committed => Kind::Committed,
            Publish::Shared => Kind::Shared,
        };
        let result = core.publish(kind, payload);
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }

    /// Write-protects what is private when that is more than `least` bytes. A publish begins with
    /// it, and with pages of 4 KiB it is what takes long after much was written. Who stores again
    /// comes by the barrier, which then copies nothing. `false`: nothing was done, because there is
    /// little, or because stores to the area are tracked. As for a publish, the caller keeps its
    /// own stores away meanwhile.
    pub fn protect_ahead(&self, least: ByteLen) -> Result<bool, PublishError> {
        let core = &*self.core;
        let result = core.protect_ahead(least);
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }

    /// `false` refuses hooks of this area from now on, `true` allows them again. Snapshots that
    /// exist are not affected.
    pub fn set_hookable(&self, hookable: bool) -> Result<(), PublishError> {
        let core = &*self.core;
        let result = core.lock_for_change().and_then(|mut state| {
            state.hooks.hookable = hookable;
            core.place_shared_link(&mut state)
        });
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl Core {
    fn protect_ahead(&self, least: ByteLen) -> Result<bool> {
        if self.tracked.get().is_some() {
            return Ok(false);
        }
        let mut state = self.lock_idle()?;
        assert!(state.busy == 0, "INV-AREA-3: nobody works on extents that are protected");
        // An extent that was given back and taken again is listed twice: it counts twice here.
        let private: u64 = state.changed.private.iter().map(|e| self.geometry.len(*e).0).sum();
        if private <= least.0 {
            return Ok(false);
        }
        // What these extents show is no less new than before: the next publish is not left out.
        debug_assert!(state.changed.dirty, "what is private was written since the last publish");
        self.freeze(&mut state, Freeze::Ahead)?;
        Ok(true)
    }

    fn publish(&self, kind: Kind, payload: &[u8]) -> Result<Epoch> {
        let published = self.when_unpinned(|| self.publish_quickly(kind, payload))?;
        let epoch = published.epoch;
        // It is current: what cannot be given back now is given back later.
        let _ = self.follow_up(published);
        Ok(epoch)
    }

    /// Does what freezes, again as long as something is pinned.
    pub(crate) fn when_unpinned<T>(&self, mut freeze: impl FnMut() -> Result<T>) -> Result<T> {
        let end = Instant::now() + MAX_PINNED;
        // From the first pin that is in the way until it is frozen: pins that come between would
        // keep this waiting again and again.
        let mut wanted = None;
        loop {
            let done = freeze();
            if !matches!(done, Err(Fault::Pinned)) {
                return done;
            }
            let wanted = wanted.get_or_insert_with(|| self.want_no_pins());
            if wanted.as_ref().is_some_and(|wanted| !wanted.wait_until_none(end)) {
                return done;
            }
        }
    }

    /// A publish without the part that gives memory back, which is [`Core::follow_up`].
    pub(crate) fn publish_quickly(&self, kind: Kind, payload: &[u8]) -> Result<Published> {
        self.publish_new(kind, payload).inspect_err(|_| self.end_settling())
    }

    fn publish_new(&self, kind: Kind, payload: &[u8]) -> Result<Published> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            let limit = MAX_PAYLOAD_BYTES as u64;
            return Err(Fault::Limit { what: "bytes of payload", limit });
        }
        let mut state = self.lock_idle()?;
        state.manifests.payload = payload.to_vec();
        let written = self.while_frozen(&mut state, Freeze::Publish, |state, frozen| {
            self.write_manifest(state, kind, frozen)
        });
        written?.make_current(self, &mut state)
    }

    /// Freezing ends when `work` is done, or has taken what was begun and ended that itself.
    pub(crate) fn while_frozen<'a, T>(
        &'a self,
        state: &mut Tables,
        why: Freeze,
        work: impl FnOnce(&mut Tables, &mut Option<Frozen<'a>>) -> Result<T>,
    ) -> Result<T> {
        let mut frozen = Some(self.begin_freeze(state, why)?);
        let result = work(state, &mut frozen);
        self.end_freeze(state, frozen);
        // Where it fails nobody shows what was frozen: stores to tracked memory need no more.
        result.inspect_err(|_| self.arm_changed(state, true))
    }

    /// Steps 1 to 3 of a publish.
    pub(crate) fn write_manifest(
        &self,
        state: &mut Tables,
        kind: Kind,
        frozen: &mut Option<Frozen<'_>>,
    ) -> Result<Commit> {
        if self.tracked.get().is_none() {
            self.protect_frozen(state, frozen)?;
            // What moves extents looks at their words.
            self.end_freeze(state, frozen.take());
        }
        if kind != Kind::Anonymous {
            self.link_memory(state)?;
            self.consolidate(state);
            self.pin_sources(state)?;
        }
        self.write_frozen(state, kind, frozen)
    }

    /// Protects what is to be frozen, unless that has been done, and writes the manifest.
    pub(crate) fn write_frozen(
        &self,
        state: &mut Tables,
        kind: Kind,
        frozen: &mut Option<Frozen<'_>>,
    ) -> Result<Commit> {
        let epoch = state.manifests.next_epoch;
        if !Epoch::POSSIBLE.contains(&epoch) {
            let limit = Epoch::POSSIBLE.end().0;
            return Err(Fault::Limit { what: "publishes of one area", limit });
        }
        assert!(state.busy == 0, "INV-AREA-3: nobody works on extents during a publish");
        let newest = state.manifests.live.last_key_value().map(|(e, ())| *e);
        assert!(newest.is_none_or(|e| e < epoch), "epochs only grow");
        let manifest = self.describe(state, kind, epoch)?;
        let mut commit = self.begin_commit(state, kind, &manifest)?;
        let announced = commit.announce(state, &manifest);
        let frozen_now = self.protect_frozen(state, frozen);
        #[cfg(debug_assertions)]
        self.assert_tables_agree(state);
        // Otherwise the handler waits until it is current, which takes a single store.
        if !announced {
            self.end_freeze(state, frozen.take());
        }
        if let Err(fault) = frozen_now.and_then(|()| commit.complete(self)) {
            commit.withdraw(self);
            return Err(fault);
        }
        let known = state.manifests.live.insert(epoch, ());
        assert!(known.is_none(), "an epoch is published once");
        state.changed.dirty = false;
        state.spare.reuse = std::mem::take(&mut state.spare.rewritten);
        let alternates = self.tracked.get().is_some() && self.ns.switches().alternation;
        if alternates && kind != Kind::Anonymous {
            let Tables { heuristics, runs, spare, .. } = &mut *state;
            heuristics.alternation.turn(runs, spare.reuse, &self.geometry);
        }
        self.turn_ahead(state);
        for source in state.sources.iter_mut().flatten() {
            let used =
                manifest.sources.iter().any(|s| s.area == source.area && s.epoch == source.epoch);
            if used {
                source.first_published.get_or_insert(epoch);
                source.last_published = Some(epoch);
            }
        }
        Ok(commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::files::{manifest_epoch, manifest_name};

    #[test]
    fn only_what_an_area_could_have_made_is_a_manifest() {
        for epoch in [1, 7, 10, u64::MAX >> 1].map(Epoch) {
            assert_eq!(manifest_epoch(&manifest_name(epoch)), Some(epoch));
        }
        for name in [
            "",
            "m.",
            "m.0",
            "m.01",
            "m.+1",
            "m.-1",
            "m.1 ",
            "m.1.pin",
            "M.1",
            "m.9223372036854775808",
            "m.18446744073709551615",
            "m.18446744073709551616",
        ] {
            assert_eq!(manifest_epoch(name), None, "{name:?}");
        }
    }
}
