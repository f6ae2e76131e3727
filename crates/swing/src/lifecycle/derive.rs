//! Deriving: making a snapshot writable.
//!
//! The new area shows the same bytes over the same addresses; each extent is copied when it is
//! first written.

use crate::area::handle::Area;
use crate::area::start::Start;
use crate::area::tables::Source;
use crate::hook::options::HookAt;
use crate::hook::snapshot::{Inner, Snapshot};
use crate::hook::sources::map_state;
use crate::lifecycle::fork::handle_forks;
use crate::model::backing::Backing;
use crate::model::error::{Context, DeriveError, Fault, Result};
use crate::model::name::AreaName;
use crate::model::runs::RunMap;
use crate::model::units::AreaId;
use crate::namespace::files::folder_name;
use crate::recovery::dismantle::dismantle;
use crate::sys::process;

impl Snapshot {
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
            let again = map_state(ns, manifest, held, at).inspect_err(|_| {
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
}
