//! Giving back the memory of an area without a living owner that no manifest shows.
//!
//! Nothing in a memory file is trusted except what a valid manifest names; the rest is punched out.
//! The caller holds the owner's lock.

use std::fs::File;

use crate::memory::lookup;
use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::{AreaId, ByteLen};
use crate::namespace::files::{
    MEMORY, PARENTS, held_name, parent_memory_name, pin_name, twin_name,
};
use crate::recovery::inventory::Inventory;
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::Access;

impl Inventory {
    /// Gives back the memory that no live manifest shows, and the names that none needs.
    pub(crate) fn sweep(&self, folder: &Folder) -> Result<ByteLen> {
        let manifests: Vec<&Manifest> = self.live.values().collect();
        let freed = sweep_memory(folder, self.committed.id, &manifests, None)?.0;
        let own = manifests.iter().filter_map(|m| m.own_identity());
        let needed: Vec<String> = own.map(|id| lookup::present_name(folder, MEMORY, id)).collect();
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
                let memory = lookup::present_name(&parents, &name, (s.dev, s.ino));
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
        let file = match lookup::open(folder, MEMORY, area, Some(identity), Access::Write) {
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
