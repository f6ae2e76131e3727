//! What the folder of an area without a living owner really holds.
//!
//! Nothing in a memory file is trusted except what a valid manifest names. Taking the inventory
//! needs the owner lock. It retires the manifests nobody can see, removes what half-done publishes
//! left, and reads the rest; `sweep` then gives back every byte of the memory file that none of
//! them shows.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use crate::memory::{self, Access};
use crate::model::error::{Fault, Result};
use crate::model::manifest::{MAX_MANIFEST_BYTES, Manifest};
use crate::model::units::{AreaId, ByteLen, Epoch};
use crate::namespace::files::{
    COMMITTED, MEMORY, PARENTS, SHARED, UNSHARED, drop_temporary_names, held_name, manifest_epoch,
    manifest_name, parent_memory_name, pin_name, twin_name, was_published,
};
use crate::namespace::lease::{self, Probe};
use crate::namespace::newest;
use crate::namespace::owner_lock::OwnerLock;
use crate::sys::file::{self, Folder};

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

/// Reads and checks a manifest by one of its names.
pub(crate) fn read_manifest(folder: &Folder, name: &str) -> Result<Manifest> {
    read_manifest_from(&folder.open_read(name)?, &folder.join(name))
}

/// Reads and checks an open manifest.
pub(crate) fn read_manifest_from(file: impl AsFd, path: &Path) -> Result<Manifest> {
    match file::read_all(file, MAX_MANIFEST_BYTES, path)? {
        Some(bytes) => Manifest::decode(&bytes, path),
        None => Err(Fault::corrupt(path, "longer than any manifest")),
    }
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

    /// Gives back the memory that no live manifest shows, and the names that none needs.
    pub(crate) fn sweep(&self, folder: &Folder) -> Result<ByteLen> {
        let manifests: Vec<&Manifest> = self.live.values().collect();
        let freed = sweep_memory(folder, self.committed.id, &manifests, None)?.0;
        let own = manifests.iter().filter_map(|m| m.own_identity());
        let needed: Vec<String> = own.map(|id| memory::present_name(folder, MEMORY, id)).collect();
        for name in [MEMORY.to_owned(), held_name(MEMORY)] {
            if !needed.contains(&name) && !stands_in(folder, &name, &needed) {
                folder.unlink(&name)?;
            }
        }
        let parents = match folder.open_folder(PARENTS) {
            Err(Fault::NotFound) => return Ok(freed),
            other => other?,
        };
        let sources = manifests.iter().flat_map(|m| m.sources[1..].iter());
        let needed: Vec<String> = sources
            .flat_map(|s| {
                let name = parent_memory_name(s.area);
                let memory = memory::present_name(&parents, &name, (s.dev, s.ino));
                [pin_name(s.area, s.epoch), memory]
            })
            .collect();
        for name in parents.names()? {
            if !needed.contains(&name) && !stands_in(&parents, &name, &needed) {
                parents.unlink(&name)?;
            }
        }
        Ok(freed)
    }
}

/// Whether the needed memory is missing, and this is the other name it could have: something is
/// wrong, and whoever opens the area will say so.
fn stands_in(folder: &Folder, name: &str, needed: &[String]) -> bool {
    let twin = twin_name(name);
    needed.contains(&twin) && !folder.exists(&twin)
}

/// Punches what none of `manifests` shows out of an area's own memory, the file and the memfd;
/// `also` is one more that may be there. How much that was, and how much stays.
pub(crate) fn sweep_memory(
    folder: &Folder,
    area: AreaId,
    manifests: &[&Manifest],
    also: Option<(u64, u64)>,
) -> Result<(ByteLen, ByteLen)> {
    let mut identities: Vec<(u64, u64)> =
        manifests.iter().filter_map(|m| m.own_identity()).collect();
    identities.extend(folder.identity_of(MEMORY).into_iter().chain(also));
    identities.sort_unstable();
    identities.dedup();
    let (mut freed, mut kept) = (ByteLen(0), ByteLen(0));
    for identity in identities {
        let file = match memory::open(folder, MEMORY, area, Some(identity), Access::Write) {
            Ok((file, facts)) if facts.identity() == identity => file,
            // Another file in its place is what opening the area complains about.
            Ok(_) | Err(Fault::NotFound | Fault::MemoryGone { .. }) => continue,
            Err(fault) => return Err(fault),
        };
        let of_it = manifests.iter().copied().filter(|m| m.own_identity() == Some(identity));
        freed = freed + punch_except(&file, folder, of_it)?;
        kept = kept + ByteLen(file::facts(&file, &folder.join(MEMORY))?.allocated);
    }
    Ok((freed, kept))
}

/// Punches everything out of an area's own memory file that none of `manifests` shows.
fn punch_except<'a>(
    file: &File,
    folder: &Folder,
    manifests: impl Iterator<Item = &'a Manifest>,
) -> Result<ByteLen> {
    let own = manifests.flat_map(|m| m.runs.iter()).filter(|r| r.source == 0);
    let mut keep: Vec<(u64, u64)> = own.map(|r| (r.file_offset, r.file_offset + r.len)).collect();
    keep.sort_unstable();
    assert!(keep.iter().all(|(start, end)| start < end), "runs of checked manifests are not empty");
    let path = folder.join(MEMORY);
    let before = file::facts(file, &path)?;
    let mut from = 0;
    // Also where there seems to be nothing: memory that was never touched looks like a hole.
    for (start, end) in keep.into_iter().chain([(before.len, before.len)]) {
        if from < start.min(before.len) {
            file::punch(file, from, start.min(before.len) - from, &path)?;
        }
        from = from.max(end);
    }
    let after = file::facts(file, &path)?.allocated;
    Ok(ByteLen(before.allocated.saturating_sub(after)))
}
