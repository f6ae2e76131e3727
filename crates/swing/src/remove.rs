//! Removing areas, and collecting what dead processes left.
//!
//! Removing takes the name away at once. Memory that snapshots still show stays, in a folder
//! `.removed-<id>`, until the last of them lets go; memory that pinned (derived) areas need stays
//! through their hard links. Everything else is given back immediately.
//!
//! A kill in the middle leaves a folder `.removed-<id>` that the next collection finishes.

use std::io::ErrorKind;

use crate::inventory::{Inventory, read_manifest, sweep_memory};
use crate::memory;
use crate::model::error::{Context, Fault, NamespaceError, RemoveError, Result};
use crate::model::manifest::Manifest;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, ByteLen};
use crate::namespace::files::{
    COMMITTED, EPHEMERAL, LINKS, MAKING, MEMORY, PARENTS, REMOVED, UNNAMED, drop_temporary_names,
    held_name, manifest_epoch, was_published,
};
use crate::namespace::handle::Namespace;
use crate::namespace::info::Info;
use crate::namespace::lease::{self, Probe};
use crate::namespace::newest;
use crate::namespace::owner_lock::OwnerLock;
use crate::sys::file::Folder;
use crate::sys::process;

/// Folders of the dead that are looked for whenever an area is made.
const COLLECTED_PER_CREATION: usize = 4;

/// What removing an area came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveReport {
    /// Memory given back at once.
    pub freed: ByteLen,
    /// Memory that snapshots or derived areas still need.
    pub kept: ByteLen,
}

/// What a collection found and took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Folders of dead or removed areas that are gone now.
    pub removed: usize,
    /// Areas of dead owners whose leftovers were swept.
    pub swept: usize,
    /// Memory given back.
    pub freed: ByteLen,
    /// Folders that could not be understood or changed, and were left alone.
    pub damaged: usize,
}

impl Namespace {
    /// Removes a named area that no live process owns. Snapshots and derived areas keep what they
    /// show.
    pub fn remove(&self, name: &AreaName) -> Result<RemoveReport, RemoveError> {
        let ctx = Context::named(name, self.path());
        self.remove_inner(name).map_err(|fault| RemoveError::from_fault(fault, &ctx))
    }

    fn remove_inner(&self, name: &AreaName) -> Result<RemoveReport> {
        let (folder, lock) = self.own_folder(name)?;
        dismantle(self, &folder, &name.folder(), &lock)
    }

    /// Takes away what dead processes left: unnamed areas, areas never published or meant to end
    /// with their process ([`crate::Area::end_with_process`]), remains of
    /// removed areas that nobody reads any more, and old versions in areas whose owner is gone.
    pub fn gc(&self) -> Result<GcReport, NamespaceError> {
        let ctx = Context::path(self.path());
        self.gc_inner(true).map_err(|fault| NamespaceError::from_fault(fault, &ctx))
    }

    /// The part of `gc` done when memory is short; best effort.
    pub(crate) fn collect_garbage(&self) {
        let _ = self.gc_inner(false);
    }

    /// Looks at a few of the folders without a name, so that what dead processes left does not pile
    /// up where nobody ever calls `gc`; best effort.
    pub(crate) fn collect_a_little(&self) {
        memory::release_removed();
        let Ok(mut names) = self.folder().names() else { return };
        names.retain(|n| n.starts_with(UNNAMED) || n.starts_with(REMOVED));
        let from = process::random_id() as usize % names.len().max(1);
        names.rotate_left(from);
        for name in names.iter().take(COLLECTED_PER_CREATION) {
            let _ = self.collect_folder(name, &mut GcReport::default());
        }
    }

    fn gc_inner(&self, named_too: bool) -> Result<GcReport> {
        let mut report = GcReport::default();
        for name in self.folder().names()? {
            let hidden = name.starts_with('.');
            if !hidden && (!named_too || AreaName::from_folder(&name).is_none()) {
                continue;
            }
            match self.collect_folder(&name, &mut report) {
                // Owned by somebody alive, or gone meanwhile: not garbage.
                Err(Fault::Owned { .. } | Fault::NotFound) | Ok(()) => {}
                // The C interface's tables.
                Err(Fault::Io(e)) if hidden && e.source.kind() == ErrorKind::NotADirectory => {}
                // One damaged folder does not keep the others from being collected.
                Err(_) => report.damaged += 1,
            }
        }
        Ok(report)
    }

    fn collect_folder(&self, name: &str, report: &mut GcReport) -> Result<()> {
        let folder = self.folder().open_folder(name)?;
        let lock = match OwnerLock::take_quietly(&folder) {
            Err(Fault::NotFound) if name.starts_with(MAKING) => {
                // Its maker died before it made the lock, and nothing is in it; or lives, and is
                // about to: then what it puts there must stay.
                self.folder().remove_folder(name)?;
                return Ok(());
            }
            Err(Fault::NotFound) if name.starts_with(REMOVED) => {
                // Died between removing the lock and the folder.
                return delete_folder(self.folder(), name, &folder);
            }
            other => other?,
        };
        if !self.still_named(name, &folder)? {
            return Ok(());
        }
        let ends_with_owner = folder.exists(EPHEMERAL);
        if name.starts_with('.') || ends_with_owner || !was_published(&folder) {
            report.freed = report.freed + dismantle(self, &folder, name, &lock)?.freed;
            report.removed += 1;
            return Ok(());
        }
        let inventory = Inventory::take(&folder, &lock)?;
        if memory::is_lost(&folder, &inventory)? {
            dismantle(self, &folder, name, &lock)?;
            report.removed += 1;
            return Ok(());
        }
        report.freed = report.freed + inventory.sweep(&folder)?;
        report.swept += 1;
        Ok(())
    }

    /// Finishes the removal of one area if nobody reads it any more; best effort.
    pub(crate) fn collect_removed(&self, area: AreaId) {
        let name = format!("{REMOVED}{area}");
        if self.folder().exists(&name) {
            let _ = self.collect_folder(&name, &mut GcReport::default());
        }
    }
}

/// Takes an area apart. The caller holds its owner lock; `name` is its folder's present name, which
/// nobody else takes away who asks for the lock.
pub(crate) fn dismantle(
    ns: &Namespace,
    folder: &Folder,
    name: &str,
    _lock: &OwnerLock,
) -> Result<RemoveReport> {
    if !ns.still_named(name, folder)? {
        // Not by anybody who asks for the lock: somebody has moved the folder by hand.
        return Err(Fault::NotFound);
    }
    let id = Info::read(folder).map_or_else(|| AreaId(process::random_id()), |i| i.id);
    let grave = if name.starts_with(REMOVED) { name.to_owned() } else { format!("{REMOVED}{id}") };
    if grave != name {
        ns.folder().rename(name, &grave)?;
    }
    let committed = read_manifest(folder, COMMITTED).ok();
    for link in LINKS.into_iter().chain([COMMITTED]) {
        folder.unlink(link)?;
    }
    drop_temporary_names(folder)?;
    let mut kept = Vec::new();
    let mut leased = false;
    let mut opaque = false;
    for manifest in folder.names()?.iter().filter(|n| manifest_epoch(n).is_some()) {
        let probe = lease::probe(folder, manifest)?;
        if probe == Probe::Retired || newest::is_torn(folder, manifest) {
            continue;
        }
        match read_manifest(folder, manifest) {
            Ok(m) => kept.push(m),
            // Somebody holds what cannot be read: give back nothing.
            Err(_) => opaque = true,
        }
        // A pinned one keeps its name as long as the folder stays: the next collection must see it,
        // too.
        leased |= probe == Probe::Leased;
    }
    let mut report = RemoveReport::default();
    if !opaque {
        let kept: Vec<&Manifest> = kept.iter().collect();
        let committed = committed.as_ref().and_then(Manifest::own_identity);
        (report.freed, report.kept) = sweep_memory(folder, id, &kept, committed)?;
    }
    memory::release(id);
    // Without memory and pins there is nothing a lease could still need.
    let has_memory = folder.exists(MEMORY) || folder.exists(&held_name(MEMORY));
    if !leased || !(has_memory || folder.exists(PARENTS)) {
        delete_folder(ns.folder(), &grave, folder)?;
    }
    Ok(report)
}

/// Removes a folder of ours with everything in it.
pub(crate) fn delete_folder(parent: &Folder, name: &str, folder: &Folder) -> Result<()> {
    match folder.open_folder(PARENTS) {
        Ok(parents) => {
            for file in parents.names()? {
                parents.unlink(&file)?;
            }
            folder.remove_folder(PARENTS)?;
        }
        Err(Fault::NotFound) => {}
        Err(fault) => return Err(fault),
    }
    for file in folder.names()? {
        folder.unlink(&file)?;
    }
    parent.remove_folder(name)?;
    Ok(())
}
