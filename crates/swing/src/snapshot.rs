//! A read-only view of one published state of an area.
//!
//! A snapshot maps the memory of the manifest it leased. Nothing the owner does later is visible
//! through it, also not in pages the reader has not touched yet, because the owner never writes a
//! byte that a leased manifest shows (INV-AREA-1). The files are open for reading only: the kernel
//! refuses to make the mapping writable (INV-AREA-4).
//!
//! [`Snapshot::derive`] makes it writable: a new area over the same addresses, of which each extent
//! is copied when it is first written.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::area::area::Area;
use crate::area::options::AreaOptions;
use crate::area::start::Start;
use crate::area::tables::Source;
use crate::fork::handle_forks;
use crate::hook::HookAt;
use crate::memory::lookup::{self, check_memory};
use crate::memory::mapping::{Mapping, mapping_fault};
use crate::memory::release::OnRelease;
use crate::model::backing::Backing;
use crate::model::error::{Context, DeriveError, Fault, Result};
use crate::model::geometry::Geometry;
use crate::model::manifest::Manifest;
use crate::model::name::AreaName;
use crate::model::runs::{Run, RunMap, layers, not_in};
use crate::model::units::{AreaId, AreaOffset, Epoch, StateId};
use crate::namespace::files::{MEMORY, folder_name};
use crate::namespace::handle::Namespace;
use crate::namespace::info::Lineage;
use crate::namespace::lease::Lease;
use crate::recovery::dismantle::dismantle;
use crate::sys::kept_file::{Access, Here, KeptFile};
use crate::sys::{file, process};

/// A leased, mapped, read-only state. Clones share the lease and the addresses.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
    /// See [`Snapshot::is_fresh`].
    fresh: bool,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub ns: Namespace,
    pub manifest: Manifest,
    pub mapping: Arc<Mapping>,
    pub held: Vec<HeldSource>,
    // Last: looks after removed areas when all leases above are gone.
    _released: Arc<OnRelease>,
}

/// The open memory file and the lease of one source of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct HeldSource {
    /// `None` for an area without memory of its own.
    pub file: Option<Arc<KeptFile>>,
    pub lease: Arc<Lease>,
    /// See [`Source::via`].
    pub via: Option<Arc<Lease>>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Snapshot");
        out.field("area", &self.area_id()).field("name", &self.name());
        out.field("epoch", &self.epoch()).field("base", &self.base()).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Maps a manifest whose leases are held and whose files are open.
    pub(crate) fn map(
        ns: &Namespace,
        manifest: Manifest,
        held: Vec<HeldSource>,
        at: HookAt,
    ) -> Result<Self> {
        let mapping = reserve(ns, &manifest, at)?;
        Self::map_over(ns, manifest, held, mapping, &[])
    }

    /// The same over addresses that show nothing yet, or other runs of the area's own memory, in
    /// the same places ([`not_in`]).
    pub(crate) fn map_over(
        ns: &Namespace,
        manifest: Manifest,
        held: Vec<HeldSource>,
        mapping: Arc<Mapping>,
        shown: &[Run],
    ) -> Result<Self> {
        assert_eq!(held.len(), manifest.sources.len(), "every source is leased and open");
        map_all(&mapping, &not_in(&manifest.runs, shown), &held, ns.path())?;
        let released = mapping.released().clone();
        let inner = Inner { ns: ns.clone(), manifest, mapping, held, _released: released };
        Ok(Self { inner: Arc::new(inner), fresh: false })
    }

    /// The address range.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.inner.mapping
    }

    /// The first address.
    pub fn base(&self) -> NonNull<u8> {
        self.inner.mapping.base()
    }

    /// The epoch of the state.
    pub fn epoch(&self) -> Epoch {
        self.inner.manifest.epoch
    }

    /// Which state of which area it is.
    pub fn state(&self) -> StateId {
        StateId { area: self.area_id(), epoch: self.epoch() }
    }

    /// The area the state belongs to.
    pub fn area_id(&self) -> AreaId {
        self.inner.manifest.id
    }

    /// That area's name when the state was published.
    pub fn name(&self) -> Option<&AreaName> {
        self.inner.manifest.sources[0].name.as_ref()
    }

    /// What the client left with the publish.
    pub fn payload(&self) -> &[u8] {
        &self.inner.manifest.payload
    }

    /// How the address range is cut into extents.
    pub fn geometry(&self) -> &Geometry {
        &self.inner.manifest.geometry
    }

    /// Whether a live hook gave it, and its owner published the state after that was called.
    /// `false` for the newest shared state, however new: nobody was asked whether it is the owner's
    /// present one.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    pub(crate) fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    /// When the state was published, in nanoseconds since 1970, by the clock that its owner had
    /// then. Clocks are set: for a state's order use its epoch, and [`Snapshot::is_fresh`].
    pub fn published_ns(&self) -> u64 {
        self.inner.manifest.published_ns
    }

    /// Whether all of `range` can be read without a fault. Offsets found in a snapshot's bytes are
    /// hostile: ask before use.
    pub fn is_mapped(&self, range: &Range<AreaOffset>) -> bool {
        let runs = &self.inner.manifest.runs;
        let mut at = range.start.0;
        let first = runs.partition_point(|r| r.end() <= at);
        for run in &runs[first..] {
            if at >= range.end.0 || run.start > at {
                break;
            }
            at = run.end();
        }
        range.start.0 <= range.end.0 && (at >= range.end.0)
    }

    /// Makes the snapshot writable: a new area that shows the same bytes, over the *same* mapping
    /// and base, so that addresses into the snapshot stay valid. Only one area can have the
    /// mapping: a second derive from the same snapshot (or a clone) maps the state again, at
    /// another base.
    ///
    /// A named area has its folder, owner lock and place in the lineage at once, and memory of its
    /// own with the first write. It is ephemeral until its first publish.
    pub fn derive(&self, name: Option<&AreaName>) -> Result<Area, DeriveError> {
        let ns = &self.inner.ns;
        let ctx = Context { name, id: None, path: ns.path() };
        let derived = self.derive_inner(name, HookAt::Anywhere);
        derived.map_err(|fault| DeriveError::from_fault(fault, &ctx))
    }

    /// As [`Snapshot::derive`], but an error when the new area would not have the addresses of the
    /// origin, where raw pointers stored in it are valid.
    pub fn derive_at_origin(&self, name: Option<&AreaName>) -> Result<Area, DeriveError> {
        let ctx = Context { name, id: None, path: self.inner.ns.path() };
        let derived = self.derive_inner(name, HookAt::OriginAddress);
        derived.map_err(|fault| DeriveError::from_fault(fault, &ctx))
    }

    /// Whether the snapshot has the addresses of its origin: raw pointers in it are valid.
    pub fn is_at_origin(&self) -> bool {
        self.base().as_ptr() as u64 == self.inner.manifest.base
    }

    fn derive_inner(&self, name: Option<&AreaName>, at: HookAt) -> Result<Area> {
        handle_forks();
        let Inner { ns, manifest, held, .. } = &*self.inner;
        if at == HookAt::OriginAddress && !self.is_at_origin() {
            let (address, len) = (manifest.base as usize, manifest.geometry.reserve());
            return Err(Fault::AddressTaken { address, len });
        }
        let backing = ns.choose_backing(Backing::Auto)?;
        let id = AreaId(process::random_id());
        let lineage = self.lineage();
        let made = ns.make_area_folder(name, id, &lineage)?;
        assert_eq!(held.len(), manifest.sources.len(), "every source is leased and open");
        let mapping = if self.inner.mapping.claim_writer() {
            self.inner.mapping.clone()
        } else {
            let again = map_again(ns, manifest, held, at).inspect_err(|_| {
                // Nothing is in it yet; what cannot be taken away now a collector finds.
                let folder_name = folder_name(name, id);
                let _ = dismantle(ns, &made.folder, &folder_name, &made.lock);
            })?;
            again.claim_writer();
            again
        };
        // Source k of the snapshot becomes slot k + 1; slot 0 is the new area itself.
        let runs =
            manifest.runs.iter().map(|r| crate::model::runs::Run { source: r.source + 1, ..*r });
        let mut sources = vec![None];
        for (entry, held) in manifest.sources.iter().zip(held) {
            sources.push(held.file.as_ref().map(|file| Source {
                area: entry.area,
                epoch: entry.epoch,
                name: entry.name.clone(),
                file: file.clone(),
                dev: entry.dev,
                ino: entry.ino,
                lease: held.lease.clone(),
                via: held.via.clone(),
                pinned: false,
                first_published: None,
                last_published: None,
            }));
        }
        Ok(Area::start(Start {
            ns: ns.clone(),
            folder: made.folder,
            lock: made.lock,
            id,
            name: name.cloned(),
            cow_threshold: None,
            backing,
            mapping,
            runs: RunMap::from_runs(runs),
            sources,
            payload: manifest.payload.clone(),
        }))
    }

    /// Where an area derived from this snapshot comes from.
    pub(crate) fn lineage(&self) -> Vec<Lineage> {
        let own = &self.inner.manifest.sources[0];
        vec![Lineage { id: own.area, epoch: own.epoch, name: own.name.clone() }]
    }

    /// Options with the snapshot's geometry, e.g. for an area that will take parts of it by
    /// `map_foreign`.
    pub fn options(&self) -> AreaOptions {
        let geometry = self.geometry();
        AreaOptions {
            reserve: geometry.reserve(),
            small_zone: geometry.small_zone(),
            extent: geometry.data_extent(),
            base_hint: None,
            backing: Backing::Auto,
            cow_threshold: None,
        }
    }
}

/// Addresses for a state: those of its owner when they are free here.
fn reserve(ns: &Namespace, manifest: &Manifest, at: HookAt) -> Result<Arc<Mapping>> {
    let base = manifest.base as usize;
    match at {
        HookAt::Anywhere => Mapping::reserve(ns.on_release(), manifest.geometry, Some(base)),
        HookAt::OriginAddress => Mapping::reserve_at(ns.on_release(), manifest.geometry, base),
    }
}

/// Maps all of a state read-only at addresses of its own.
fn map_again(
    ns: &Namespace,
    manifest: &Manifest,
    held: &[HeldSource],
    at: HookAt,
) -> Result<Arc<Mapping>> {
    let mapping = reserve(ns, manifest, at)?;
    map_all(&mapping, &layers(&manifest.runs), held, ns.path())?;
    Ok(mapping)
}

/// Maps runs read-only, one after the other, and keeps what they depend on.
fn map_all(mapping: &Mapping, runs: &[Run], held: &[HeldSource], path: &Path) -> Result<()> {
    // Looked at once for runs of one source that follow each other.
    let mut last: Option<(u32, Here<'_>)> = None;
    for run in runs {
        let file = held[run.source as usize].file.as_ref().ok_or_else(|| {
            Fault::corrupt(path, format!("run at {:#x} lies in an area without memory", run.start))
        })?;
        let here = match last {
            Some((source, here)) if source == run.source => here,
            _ => file.here_for(path)?,
        };
        last = Some((run.source, here));
        mapping.map_to_read(run, here).map_err(|e| mapping_fault(e, path))?;
    }
    for source in held {
        mapping.keep(source.lease.clone(), source.file.clone());
    }
    Ok(())
}

/// Opens the memory files and takes the leases of everything a leased manifest depends on.
pub(crate) fn hold_sources(
    folder: &file::Folder,
    manifest: &Manifest,
    own: Arc<Lease>,
) -> Result<Vec<HeldSource>> {
    let mut held = Vec::with_capacity(manifest.sources.len());
    let entry = &manifest.sources[0];
    let identity = manifest.own_identity();
    let own_file = if identity.is_none() {
        None
    } else {
        let path = folder.join(MEMORY);
        let opened = lookup::open(folder, MEMORY, entry.area, identity, Access::Read)?;
        check_memory(manifest, 0, &opened.1, &path)?;
        Some(Arc::new(lookup::keep(folder, MEMORY, opened, Access::Read)))
    };
    let leased = (own.area(), own.epoch());
    assert_eq!(leased, (manifest.id, manifest.epoch), "INV-AREA-1: leased before it is read");
    held.push(HeldSource { file: own_file, lease: own.clone(), via: None });
    if manifest.sources.len() == 1 {
        return Ok(held);
    }
    let parents = folder.open_folder(crate::namespace::files::PARENTS)?;
    for (i, source) in manifest.sources.iter().enumerate().skip(1) {
        let pin = crate::namespace::files::pin_name(source.area, source.epoch);
        let lease = Lease::take(&parents, &pin, source.area, source.epoch)?;
        let name = crate::namespace::files::parent_memory_name(source.area);
        let path = parents.join(&name);
        let identity = Some((source.dev, source.ino));
        let opened = lookup::open(&parents, &name, source.area, identity, Access::Read)?;
        check_memory(manifest, i, &opened.1, &path)?;
        let file = lookup::keep(&parents, &name, opened, Access::Read);
        let (file, lease) = (Some(Arc::new(file)), Arc::new(lease));
        held.push(HeldSource { file, lease, via: Some(own.clone()) });
    }
    Ok(held)
}
