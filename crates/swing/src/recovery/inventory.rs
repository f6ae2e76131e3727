//! What the folder of an area without a living owner really holds.
//!
//! Nothing in a memory file is trusted except what a valid manifest names. Taking the inventory
//! needs the owner lock. It retires the manifests nobody can see, removes what half-done publishes
//! left, and reads the rest; `sweep` then gives back every byte of the memory file that none of
//! them shows.

use std::collections::BTreeMap;

use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::Epoch;
use crate::namespace::files::{
    COMMITTED, SHARED, UNSHARED, drop_temporary_names, manifest_epoch, manifest_name, was_published,
};
use crate::namespace::lease::{self, Probe};
use crate::namespace::manifest_file::read_manifest;
use crate::namespace::newest;
use crate::namespace::owner_lock::OwnerLock;
use crate::sys::file::Folder;

/// The manifests of an area that still matter.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub committed: Manifest,
    pub shared: Option<Epoch>,
    /// Hooks were refused when the owner went away.
    pub unshared: bool,
    /// All manifests that are current, leased or pinned, the committed one included.
    pub live: BTreeMap<Epoch, Manifest>,
    /// The highest epoch ever used, as far as names tell.
    pub highest: Epoch,
}

impl Inventory {
    /// Looks through a folder whose owner lock is held. `NotFound` when nothing was ever committed.
    pub(crate) fn take(folder: &Folder, _lock: &OwnerLock) -> Result<Self> {
        let mut committed = read_manifest(folder, COMMITTED).map_err(|fault| match fault {
            // What is missing was there: nothing is taken for empty, and removed.
            Fault::NotFound if was_published(folder) => {
                Fault::corrupt(&folder.join(COMMITTED), "missing, though a state was shared")
            }
            fault => fault,
        })?;
        newest::finish(folder)?;
        let unshared = !folder.exists(SHARED) && folder.exists(UNSHARED);
        let link = if unshared { UNSHARED } else { SHARED };
        let shared = match read_manifest(folder, link) {
            Ok(manifest) => Some(manifest),
            Err(Fault::NotFound) => None,
            Err(fault) => return Err(fault),
        };
        let newer = |s: &&Manifest| s.epoch > committed.epoch && s.id == committed.id;
        if let Some(shared) = shared.as_ref().filter(newer) {
            // Its owner died right after it had shared a state: that is committed as well.
            let name = manifest_name(shared.epoch);
            folder.relink(&name, "t.committed", COMMITTED).map_err(|fault| match fault {
                Fault::NotFound => Fault::corrupt(&folder.join(&name), "missing"),
                fault => fault,
            })?;
            committed = shared.clone();
        }
        let mut out = Self {
            shared: shared.as_ref().map(|m| m.epoch),
            unshared,
            highest: committed.epoch.max(shared.as_ref().map_or(Epoch(0), |m| m.epoch)),
            live: BTreeMap::new(),
            committed: committed.clone(),
        };
        for manifest in [Some(committed), shared].into_iter().flatten() {
            if manifest.id != out.committed.id {
                return Err(Fault::corrupt(folder.path(), "manifests of two different areas"));
            }
            out.live.insert(manifest.epoch, manifest);
        }
        drop_temporary_names(folder)?;
        for name in folder.names()? {
            if let Some(epoch) = manifest_epoch(&name) {
                out.highest = out.highest.max(epoch);
                out.add(folder, epoch)?;
            }
        }
        assert!(out.live.contains_key(&out.committed.epoch), "what is current is alive");
        assert!(out.live.keys().all(|e| *e <= out.highest), "the next epoch is a new one");
        Ok(out)
    }

    /// Device and inode of the area's own memory: what the committed state shows, else what another
    /// one that is alive does.
    pub(crate) fn own_identity(&self) -> Option<(u64, u64)> {
        let newest = self.live.values().rev();
        std::iter::once(&self.committed).chain(newest).find_map(Manifest::own_identity)
    }

    fn add(&mut self, folder: &Folder, epoch: Epoch) -> Result<()> {
        if self.live.contains_key(&epoch) {
            return Ok(());
        }
        let name = manifest_name(epoch);
        if lease::probe(folder, &name)? == Probe::Retired {
            return Ok(());
        }
        if newest::is_torn(folder, &name) {
            return folder.unlink(&name);
        }
        let manifest = read_manifest(folder, &name)?;
        if manifest.epoch != epoch || manifest.id != self.committed.id {
            return Err(Fault::corrupt(&folder.join(&name), "its name contradicts its contents"));
        }
        self.live.insert(epoch, manifest);
        Ok(())
    }
}
