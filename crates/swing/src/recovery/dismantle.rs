//! Taking an area apart whose owner's lock the caller holds.
//!
//! The name goes at once. Memory that snapshots still show stays, in a folder `.removed-<id>`,
//! until the last of them lets go; memory that derived areas need stays through their hard links.
//! Everything else is given back immediately. **Crash.** A kill in the middle leaves a folder
//! `.removed-<id>` that the next collection finishes.

use crate::memory::retained;
use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::{AreaId, ByteLen};
use crate::namespace::files::{
    COMMITTED, LINKS, MEMORY, PARENTS, REMOVED, drop_temporary_names, held_name, manifest_epoch,
};
use crate::namespace::handle::Namespace;
use crate::namespace::info::Info;
use crate::namespace::lease::{self, Probe};
use crate::namespace::manifest_file::read_manifest;
use crate::namespace::newest;
use crate::namespace::owner_lock::OwnerLock;
use crate::recovery::sweep::sweep_memory;
use crate::sys::file::Folder;
use crate::sys::process;

/// What removing an area came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveReport {
    /// Memory given back at once.
    pub freed: ByteLen,
    /// Memory that snapshots or derived areas still need.
    pub kept: ByteLen,
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
    retained::release(id);
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
