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
use std::ptr::NonNull;
use std::sync::Arc;

use crate::area::options::AreaOptions;
use crate::hook::options::HookAt;
use crate::hook::sources::{HeldSource, map_state};
use crate::memory::mapping::Mapping;
use crate::memory::release::OnRelease;
use crate::model::backing::Backing;
use crate::model::error::Result;
use crate::model::geometry::Geometry;
use crate::model::manifest::Manifest;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, AreaOffset, Epoch, StateId};
use crate::namespace::handle::Namespace;
use crate::namespace::info::Lineage;

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
        assert_eq!(held.len(), manifest.sources.len(), "every source is leased and open");
        let mapping = map_state(ns, &manifest, &held, at)?;
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

    /// Whether the snapshot has the addresses of its origin: raw pointers in it are valid.
    pub fn is_at_origin(&self) -> bool {
        self.base().as_ptr() as u64 == self.inner.manifest.base
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
