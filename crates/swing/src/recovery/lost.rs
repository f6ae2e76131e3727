//! Whether an area has lost its memory for good.
//!
//! A memfd is gone with the last process that had it open. That an area is lost is concluded from
//! locks, which reach into other containers, not only from what `/proc` shows: no owner's lock, no
//! lease and no pin on any of its manifests, and no lock on the file `holders`.

use crate::memory::lookup::open;
use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::AreaId;
use crate::namespace::files::{
    HOLDERS, MEMORY, PARENTS, held_name, manifest_name, parent_memory_name, pin_name,
};
use crate::namespace::lease;
use crate::recovery::inventory::Inventory;
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::Access;

/// The memory files that manifests need: folder, name, area and identity of each.
fn needed<'a>(
    manifests: impl Iterator<Item = &'a Manifest>,
) -> Vec<(bool, String, AreaId, (u64, u64))> {
    let mut out: Vec<(bool, String, AreaId, (u64, u64))> = Vec::new();
    for manifest in manifests {
        let mut used = vec![false; manifest.sources.len()];
        manifest.runs.iter().for_each(|run| used[run.source as usize] = true);
        for (i, entry) in manifest.sources.iter().enumerate().filter(|(i, _)| used[*i]) {
            let name = if i == 0 { MEMORY.to_owned() } else { parent_memory_name(entry.area) };
            let one = (i > 0, name, entry.area, (entry.dev, entry.ino));
            if !out.contains(&one) {
                out.push(one);
            }
        }
    }
    out
}

/// Whether any memory of an area is a memfd, as far as names tell.
pub(crate) fn has_links(folder: &Folder) -> bool {
    folder.exists(&held_name(MEMORY)) || folder.exists(PARENTS)
}

/// Whether an area whose owner's lock is held by the caller has lost memory that its committed
/// state shows, for good.
pub(crate) fn is_lost(folder: &Folder, inventory: &Inventory) -> Result<bool> {
    let parents = folder.open_folder(PARENTS);
    let gone = |(of_parent, name, area, identity): &(bool, String, AreaId, (u64, u64))| {
        let place = match (of_parent, &parents) {
            (false, _) => folder,
            (true, Ok(parents)) => parents,
            (true, Err(_)) => return false,
        };
        let found = open(place, name, *area, Some(*identity), Access::Read);
        matches!(found, Err(Fault::MemoryGone { .. }))
    };
    if !needed(std::iter::once(&inventory.committed)).iter().any(gone) {
        return Ok(false);
    }
    // What `/proc` does not show may be held all the same, in another container.
    match folder.open_write(HOLDERS) {
        Ok(file) if !file::try_lock(&file, true, &folder.join(HOLDERS))? => return Ok(false),
        Ok(_) | Err(Fault::NotFound) => {}
        Err(fault) => return Err(fault),
    }
    for manifest in inventory.live.values() {
        let current = manifest.epoch == inventory.committed.epoch;
        let shared = inventory.shared == Some(manifest.epoch);
        // A state that the area itself came from has a pin in its own folder.
        let pin = pin_name(manifest.id, manifest.epoch);
        let pinned = parents.as_ref().is_ok_and(|parents| parents.exists(&pin));
        let links = 1 + u64::from(current) + u64::from(shared) + u64::from(pinned);
        if lease::is_held(folder, &manifest_name(manifest.epoch), links)? {
            return Ok(false);
        }
    }
    Ok(true)
}
