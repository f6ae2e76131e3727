//! What a leased manifest shows: opening the memory, taking the leases of what it depends on, and
//! mapping all of it.

use std::path::Path;
use std::sync::Arc;

use crate::hook::options::HookAt;
use crate::memory::lookup::{self, check_memory};
use crate::memory::mapping::{Mapping, mapping_fault};
use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::runs::{Run, layers};
use crate::namespace::files::MEMORY;
use crate::namespace::handle::Namespace;
use crate::namespace::lease::Lease;
use crate::sys::file;
use crate::sys::kept_file::{Access, Here, KeptFile};

/// The open memory file and the lease of one source of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct HeldSource {
    /// `None` for an area without memory of its own.
    pub file: Option<Arc<KeptFile>>,
    pub lease: Arc<Lease>,
    /// See [`crate::area::tables::Source::via`].
    pub via: Option<Arc<Lease>>,
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
pub(crate) fn map_state(
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
