//! Publishing: freezing the present state under a new epoch.
//!
//! The order is what makes it safe against a crash at any instruction:
//! 1. every private extent is write-protected: from here on the published bytes do not change
//!    (INV-AREA-1);
//! 2. pins on everything the state depends on are in the folder, and the memory file has its name;
//! 3. the manifest is written completely under its own name `m.<epoch>`, which nobody opens;
//! 4. a rename makes it current. Before it the old state is current, after it the new one.
//!
//! A manifest made ahead ([`crate::publish::made_ahead`]) becomes current with step 3, by its first
//! word: it has a name already that hookers look at, and take it by as soon as it is complete. Then
//! step 4 only gives it the usual one.
//!
//! The cost is the number of extents that changed plus the number of runs, never the size of the
//! area. Manifests that this publish supersedes are examined a bounded number at a time.

use std::time::Instant;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::model::error::{Fault, PublishError, Result};
use crate::model::manifest::{Kind, MAX_PAYLOAD_BYTES, Manifest};
use crate::model::units::{ByteLen, Epoch};
use crate::namespace::files::{COMMITTED, LINKING, SHARING, manifest_name};
use crate::namespace::manifest_file::ManifestFile;
use crate::publish::freeze::Frozen;
use crate::publish::protect::Freeze;
use crate::tracked::MAX_PINNED;

/// For whom a state is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Survives a crash of the owner: what `Namespace::open_area` comes back to. Invisible to
    /// hookers.
    Committed,
    /// The same, and it can be hooked from now on.
    Shared,
}

/// A state that has become current.
pub(crate) struct Published {
    pub epoch: Epoch,
    /// The manifests that were current before it.
    superseded: [Option<Epoch>; 2],
    /// Closing it is left to [`Core::follow_up`]: whoever asked for the state does not wait for it.
    manifest: ManifestFile,
}

/// A manifest that is complete, and not current yet.
pub(crate) struct Written {
    pub epoch: Epoch,
    pub file: ManifestFile,
}

impl Area {
    /// Freezes the present state as a new epoch. The caller keeps its own stores away meanwhile;
    /// extents that were private are write-protected afterwards. `payload` (at most 4096 bytes) is
    /// the client's root, handed to whoever opens the state.
    ///
    /// The first publish of a named area makes it outlive its process.
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
            state.hookable = hookable;
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
        let private: u64 = state.private.iter().map(|e| self.geometry.len(*e).0).sum();
        if private <= least.0 {
            return Ok(false);
        }
        // What these extents show is no less new than before: the next publish is not left out.
        debug_assert!(state.dirty, "what is private was written since the last publish");
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
        loop {
            match freeze() {
                Err(Fault::Pinned) if self.wait_until_unpinned(end) => {}
                other => return other,
            }
        }
    }

    /// What a publish made superfluous is given back.
    pub(crate) fn follow_up(&self, published: Published) -> Result<()> {
        drop(published.manifest);
        let retired = self.retire_superseded(published.superseded);
        self.end_settling();
        retired?;
        self.drop_lifted_later()
    }

    fn retire_superseded(&self, superseded: [Option<Epoch>; 2]) -> Result<()> {
        let mut state = self.lock_for_change()?;
        let committed = self.commit_shared(&mut state)?;
        for old in committed.into_iter().chain(superseded.into_iter().flatten()) {
            self.retire_if_possible(&mut state, old)?;
        }
        // What stores wait for is decided.
        self.end_settling();
        self.reclaim_some(&mut state)
    }

    /// Makes the newest shared state the committed one; which was that before.
    fn commit_shared(&self, state: &mut Tables) -> Result<Option<Epoch>> {
        let Some(shared) = state.shared.filter(|s| Some(*s) > state.committed) else {
            return Ok(None);
        };
        self.folder.relink(&manifest_name(shared), "t.committed", COMMITTED)?;
        Ok(state.committed.replace(shared))
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
        state.payload = payload.to_vec();
        let written = self.while_frozen(&mut state, Freeze::Publish, |state, frozen| {
            self.write_manifest(state, kind, frozen)
        });
        self.make_current(&mut state, kind, written?)
    }

    /// Step 4.
    fn make_current(&self, state: &mut Tables, kind: Kind, written: Written) -> Result<Published> {
        let Written { epoch, file: manifest } = written;
        let name = manifest_name(epoch);
        let mut superseded = [None; 2];
        // Of a shared state the link for hookers comes first, because somebody may be waiting for
        // it; the other follows, and an adopter that finds it missing takes the newer one.
        let late = kind == Kind::Shared && state.committed.is_some();
        if !late {
            self.folder.relink(&name, "t.committed", COMMITTED)?;
            superseded[0] = state.committed.replace(epoch);
        }
        if kind == Kind::Shared {
            let link = self.shared_link(state);
            match manifest.is_linked() {
                true => self.folder.rename(SHARING, link)?,
                false => self.folder.relink(&name, LINKING, link)?,
            }
            superseded[1] = state.shared.replace(epoch);
        }
        let older = superseded.iter().flatten().all(|old| *old < epoch);
        assert!(older, "INV-AREA-5: what is current is the newest state");
        Ok(Published { epoch, superseded, manifest })
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
    ) -> Result<Written> {
        if self.tracked.get().is_none() {
            self.protect_frozen(state, frozen)?;
            // What moves extents looks at their words.
            self.end_freeze(state, frozen.take());
        }
        if kind != Kind::View {
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
    ) -> Result<Written> {
        let epoch = state.next_epoch;
        if !Epoch::POSSIBLE.contains(&epoch) {
            let limit = Epoch::POSSIBLE.end().0;
            return Err(Fault::Limit { what: "publishes of one area", limit });
        }
        assert!(state.busy == 0, "INV-AREA-3: nobody works on extents during a publish");
        let newest = state.live.last_key_value().map(|(e, ())| *e);
        assert!(newest.is_none_or(|e| e < epoch), "epochs only grow");
        let manifest = self.describe(state, kind, epoch)?;
        let name = manifest_name(epoch);
        // From here on the epoch is used up, also when writing fails.
        let use_up = |state: &mut Tables| state.next_epoch = epoch.next();
        let file = self.manifest_file(state, epoch, kind).inspect_err(|_| use_up(state));
        let file = file?;
        let bytes = manifest.encode();
        debug_assert!(
            Manifest::decode(&bytes, self.folder.path()).is_ok_and(|read| read == manifest),
            "INV-AREA-6: what is written is what readers accept"
        );
        use_up(state);
        if file.is_linked()
            && let Some(stamp) = state.rung.take()
        {
            file.sign(stamp, &bytes);
        }
        let announced = file.announce(&manifest, &bytes);
        let mut written = self.protect_frozen(state, frozen);
        #[cfg(debug_assertions)]
        self.assert_tables_agree(state);
        // Otherwise the handler waits until it is current, which takes a single store.
        if !announced {
            self.end_freeze(state, frozen.take());
        }
        let path = self.folder.join(&name);
        written = written.and_then(|()| file.complete(&bytes, announced, &path));
        if let Err(fault) = written {
            file.withdraw();
            let _ = self.folder.unlink(&name);
            let _ = if file.is_linked() { self.folder.unlink(SHARING) } else { Ok(()) };
            return Err(fault);
        }
        let known = state.live.insert(epoch, ());
        assert!(known.is_none(), "an epoch is published once");
        state.dirty = false;
        state.reuse = std::mem::take(&mut state.rewritten);
        if self.tracked.get().is_some() && kind != Kind::View {
            let Tables { alternation, runs, reuse, .. } = &mut *state;
            alternation.turn(runs, *reuse, &self.geometry);
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
        Ok(Written { epoch, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::files::manifest_epoch;

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
