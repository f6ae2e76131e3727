//! Becoming the writer of an area that exists: after an orderly close, or adopting what a dead
//! owner left.
//!
//! A process can die at any instruction. What is then in the folder is: the manifests that were
//! current, possibly one more that never became current, temporary names, and a memory file with
//! bytes of all ages. The adopter takes the owner lock (the kernel released it), takes the
//! inventory, rebuilds its tables from the valid manifests alone, and punches the rest. Snapshots
//! of readers that are alive keep their leases all the while and notice nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::start::Start;
use crate::area::tables::{Former, Memory, Source, Tables};
use crate::lifecycle::fork::handle_forks;
use crate::memory::backing::BackingChoice;
use crate::memory::lookup::{self, check_memory};
use crate::memory::mapping::{Mapping, mapping_fault};
use crate::memory::retained;
use crate::model::backing::Backing;
use crate::model::error::{Context, Fault, OpenError, Result};
use crate::model::manifest::{Kind, Manifest, SourceEntry};
use crate::model::name::AreaName;
use crate::model::own_versions::Own;
use crate::model::runs::RunMap;
use crate::model::units::{AreaId, AreaOffset, Epoch, ExtentId};
use crate::namespace::files::{LIVE, MEMORY, PARENTS, parent_memory_name, pin_name};
use crate::namespace::handle::Namespace;
use crate::namespace::lease::Lease;
use crate::namespace::owner_lock::OwnerLock;
use crate::recovery::inventory::Inventory;
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::memfd;

impl Namespace {
    /// Becomes the writer of an existing named area, in the state its last owner committed. Private
    /// changes a dead owner had not committed are gone.
    pub fn open_area(&self, name: &AreaName) -> Result<Area, OpenError> {
        let ctx = Context::named(name, self.path());
        self.open_area_inner(name).map_err(|fault| OpenError::from_fault(fault, &ctx))
    }

    fn open_area_inner(&self, name: &AreaName) -> Result<Area> {
        handle_forks();
        let (folder, lock) = self.own_folder(name)?;
        let inventory = match Inventory::take(&folder, &lock) {
            Err(Fault::NotFound) => {
                // Its owner died before the first publish: there is nothing to come back to.
                crate::recovery::dismantle::dismantle(self, &folder, &name.folder(), &lock)?;
                return Err(Fault::NotFound);
            }
            other => other?,
        };
        inventory.sweep(&folder)?;
        // What a dead owner has listened on: whoever finds it would wait for this one to answer.
        folder.unlink(LIVE)?;
        adopt(self, name, folder, lock, inventory)
    }
}

fn adopt(
    ns: &Namespace,
    name: &AreaName,
    folder: Folder,
    lock: OwnerLock,
    inventory: Inventory,
) -> Result<Area> {
    let manifest = &inventory.committed;
    let memory = open_memory(&folder, &inventory)?;
    let backing = backing_of(ns, memory.as_ref())?;
    let mut sources = vec![None];
    let mut files = Files::new();
    for entry in &manifest.sources[1..] {
        let source = open_source(&folder, entry, manifest, &mut files);
        sources.push(Some(source.map_err(|fault| pin_is_missing(fault, &folder))?));
    }
    for other in inventory.live.values() {
        for entry in &other.sources[1..] {
            let same = |s: &&mut Source| s.area == entry.area && s.epoch == entry.epoch;
            if let Some(known) = sources.iter_mut().flatten().find(same) {
                known.last_published = known.last_published.max(Some(other.epoch));
                known.first_published = known.first_published.min(Some(other.epoch));
            } else {
                match open_source(&folder, entry, other, &mut files) {
                    Ok(source) => sources.push(Some(source)),
                    // Views are not pinned: their holder has leases of its own on what they show.
                    Err(Fault::NotFound) if other.kind == Kind::Anonymous => {}
                    Err(fault) => return Err(pin_is_missing(fault, &folder)),
                }
            }
        }
    }
    let mapping =
        Mapping::reserve(ns.on_release(), manifest.geometry, Some(manifest.base as usize))?;
    mapping.claim_writer();
    for source in sources.iter().flatten() {
        mapping.keep(source.lease.clone(), Some(source.file.clone()));
    }
    for run in &manifest.runs {
        let file = match run.source {
            0 => memory.as_ref().map(|m| &m.file),
            s => sources[s as usize].as_ref().map(|s| &s.file),
        };
        let missing = || Fault::corrupt(folder.path(), "a run lies in an area without memory");
        let file = file.ok_or_else(missing)?;
        mapping.map_run(run, file, false).map_err(|e| mapping_fault(e, folder.path()))?;
    }
    let area = Area::start(Start {
        ns: ns.clone(),
        folder,
        lock,
        id: manifest.id,
        name: Some(name.clone()),
        cow_threshold: None,
        backing,
        mapping,
        runs: RunMap::from_runs(manifest.runs.iter().copied()),
        sources,
        payload: manifest.payload.clone(),
    });
    {
        let mut state = area.core.state.lock();
        state.storage.memory = memory;
        rebuild(&area.core, &mut state, &inventory)?;
    }
    retained::release(area.core.id);
    Ok(area)
}

/// The area is there; what it is made of is not.
fn pin_is_missing(fault: Fault, folder: &Folder) -> Fault {
    match fault {
        Fault::NotFound => Fault::corrupt(folder.path(), "what it has of another area is missing"),
        other => other,
    }
}

/// What an adopted area goes on with: what it has, or what a new one would get.
fn backing_of(ns: &Namespace, memory: Option<&Memory>) -> Result<BackingChoice> {
    let mut choice = ns.choose_backing(Backing::Auto)?;
    if let Some(memory) = memory {
        let is_memfd = memory.file.here().is_ok_and(memfd::is_one);
        choice.backing = if is_memfd { Backing::Memfd } else { Backing::File };
    }
    Ok(choice)
}

fn open_memory(folder: &Folder, inventory: &Inventory) -> Result<Option<Memory>> {
    let path = folder.join(MEMORY);
    let own = &inventory.committed.sources[0];
    let Some(identity) = inventory.own_identity() else { return Ok(None) };
    let opened = lookup::open(folder, MEMORY, own.area, Some(identity), Access::Write);
    let (file, facts) = match opened {
        Err(Fault::NotFound) => return Ok(None),
        other => other?,
    };
    for manifest in inventory.live.values() {
        if manifest.own_identity() == Some(identity) {
            check_memory(manifest, 0, &facts, &path)?;
        }
    }
    lookup::take_name(folder, &file, MEMORY)?;
    let len = facts.len;
    let file = lookup::keep(folder, MEMORY, (file, facts), Access::Write);
    Ok(Some(Memory { file: Arc::new(file), linked: true, len }))
}

/// Memory of other areas that is open already, by area, device and inode: an area that has moved on
/// has two.
type Files = BTreeMap<(AreaId, u64, u64), Arc<KeptFile>>;

fn open_source(
    folder: &Folder,
    entry: &SourceEntry,
    manifest: &Manifest,
    files: &mut Files,
) -> Result<Source> {
    let parents = folder.open_folder(PARENTS)?;
    // Before the memory: where there is no pin, the name may be that of the area's other memory.
    let lease = Lease::take(&parents, &pin_name(entry.area, entry.epoch), entry.area, entry.epoch)?;
    let name = parent_memory_name(entry.area);
    let path = parents.join(&name);
    let key = (entry.area, entry.dev, entry.ino);
    let file = match files.get(&key) {
        Some(file) => file.clone(),
        None => {
            let identity = Some((entry.dev, entry.ino));
            let opened = lookup::open(&parents, &name, entry.area, identity, Access::Read)?;
            lookup::take_name(&parents, &opened.0, &name)?;
            Arc::new(lookup::keep(&parents, &name, opened, Access::Read))
        }
    };
    let index = manifest.sources.iter().position(|s| s == entry).unwrap_or(0);
    check_memory(manifest, index, &file::facts(file.here_for(&path)?, &path)?, &path)?;
    files.insert(key, file.clone());
    Ok(Source {
        area: entry.area,
        epoch: entry.epoch,
        name: entry.name.clone(),
        file,
        dev: entry.dev,
        ino: entry.ino,
        lease: Arc::new(lease),
        via: None,
        pinned: true,
        first_published: Some(manifest.epoch),
        last_published: Some(manifest.epoch),
    })
}

/// Fills the tables of an adopted area from its live manifests.
fn rebuild(core: &Core, state: &mut Tables, inventory: &Inventory) -> Result<()> {
    assert!(inventory.live.keys().all(|e| *e <= inventory.highest), "the next epoch is a new one");
    // Manifests of the time before the area moved on show nothing of its memory.
    let identity = inventory.own_identity();
    let of_former = |m: &Manifest| m.own_identity().is_some() && m.own_identity() != identity;
    let former = inventory.live.iter().filter(|(_, m)| of_former(m)).map(|(e, _)| *e);
    let is_memfd =
        state.storage.memory.as_ref().is_some_and(|m| m.file.here().is_ok_and(memfd::is_one));
    if is_memfd && core.folder.exists(MEMORY) {
        state.storage.former = Some(Former { last: former.max().unwrap_or(Epoch(0)) });
    }
    state.manifests.next_epoch = inventory.highest.next();
    state.manifests.committed = Some(inventory.committed.epoch);
    state.manifests.shared = inventory.shared;
    state.hooks.hookable = !inventory.unshared;
    state.manifests.live = inventory.live.keys().map(|e| (*e, ())).collect();
    state.changed.dirty = inventory.committed.epoch != inventory.highest;
    for (extent, plane) in own_extents(core, &inventory.committed)? {
        let born = inventory.committed.epoch;
        state.own.set(extent, Some(Own { plane, born }));
    }
    // Every other version that a live manifest shows: seen from its first to its last manifest.
    let mut others: BTreeMap<(ExtentId, u32), (Epoch, Epoch)> = BTreeMap::new();
    for (epoch, manifest) in inventory.live.iter().filter(|(_, m)| !of_former(m)) {
        for (extent, plane) in own_extents(core, manifest)? {
            match state.own.get(extent) {
                Some(own) if own.plane == plane => {
                    let born = own.born.min(*epoch);
                    state.own.set(extent, Some(Own { plane, born }));
                }
                _ => {
                    let seen = others.entry((extent, plane)).or_insert((*epoch, *epoch));
                    seen.1 = *epoch;
                }
            }
        }
    }
    for ((extent, plane), (first, last)) in others {
        assert!(state.own.get(extent).is_none_or(|own| own.plane != plane), "INV-AREA-2");
        state.versions.retire(&core.geometry, extent, plane, first, last.next());
    }
    core.assert_tables_agree(state);
    Ok(())
}

/// The extents, with their planes, that a manifest shows of the area's own memory file.
fn own_extents(core: &Core, manifest: &Manifest) -> Result<Vec<(ExtentId, u32)>> {
    let geometry = &core.geometry;
    if manifest.geometry != *geometry {
        return Err(Fault::corrupt(core.folder.path(), "manifests of different geometries"));
    }
    let mut out = Vec::new();
    for run in manifest.runs.iter().filter(|r| r.source == 0) {
        let above = run.file_offset.checked_sub(run.start);
        let plane =
            above.filter(|a| a % geometry.reserve().0 == 0).map(|a| a / geometry.reserve().0);
        let Some(plane) = plane.filter(|p| *p < u64::from(crate::model::geometry::MAX_PLANES))
        else {
            return Err(Fault::corrupt(core.folder.path(), "an own run that lies in no plane"));
        };
        let range = AreaOffset(run.start)..AreaOffset(run.end());
        out.extend(geometry.covering(&range).map(|e| (ExtentId(e), plane as u32)));
    }
    Ok(out)
}
