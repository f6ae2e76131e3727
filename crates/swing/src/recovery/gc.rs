//! Collecting what dead processes left in a namespace.
//!
//! A collector takes the owner's lock of each folder for a moment, so it never touches an area
//! whose owner lives. **Crash.** A kill in the middle leaves a folder `.removed-<id>` that the next
//! collection finishes.

use std::io::ErrorKind;

use crate::memory::release::OnRelease;
use crate::memory::retained;
use crate::model::error::{Context, Fault, NamespaceError, Result};
use crate::model::name::AreaName;
use crate::model::units::{AreaId, ByteLen};
use crate::namespace::files::{EPHEMERAL, MAKING, REMOVED, UNNAMED, was_published};
use crate::namespace::handle::Namespace;
use crate::namespace::owner_lock::OwnerLock;
use crate::recovery::dismantle::{delete_folder, dismantle};
use crate::recovery::inventory::Inventory;
use crate::recovery::lost;
use crate::sys::process;

/// Folders of the dead that are looked for whenever an area is made.
const COLLECTED_PER_CREATION: usize = 4;

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
        retained::release_removed();
        let Ok(mut names) = self.folder().names() else { return };
        names.retain(|n| [UNNAMED, REMOVED, MAKING].iter().any(|begin| n.starts_with(begin)));
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
        if lost::is_lost(&folder, &inventory)? {
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

    /// For addresses that show areas of this namespace: when their leases are given up, those that
    /// have been removed meanwhile are collected.
    pub(crate) fn on_release(&self) -> OnRelease {
        let ns = self.clone();
        OnRelease::new(move |area| ns.collect_removed(area))
    }
}
