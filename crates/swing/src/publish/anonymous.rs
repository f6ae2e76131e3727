//! Anonymous states: manifests that nobody can hook, reached only through a lease taken before
//! anybody else could see them.
//!
//! They serve snapshots within the process, forked children, and addresses that outlive their area.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::model::manifest::{Kind, Manifest};
use crate::model::units::Epoch;
use crate::namespace::files::manifest_name;
use crate::namespace::lease::Lease;
use crate::publish::commit::Commit;
use crate::publish::protect::Freeze;
use crate::sys::file;
use crate::sys::kept_file::KeptFile;

impl Core {
    /// An anonymous manifest of the present state, leased before anybody else can see it. A
    /// manifest of the unchanged state serves again.
    pub(crate) fn publish_view(&self, state: &mut Tables) -> Result<(Manifest, Lease)> {
        // Others may depend on the view: whoever punches after this process must find the memory.
        self.link_memory(state)?;
        self.lease_view(state)
    }

    /// As `publish_view`, for a view that only this process and its children can ever use.
    pub(crate) fn lease_view(&self, state: &mut Tables) -> Result<(Manifest, Lease)> {
        if !state.changed.dirty
            && let Some((epoch, ())) = state.manifests.live.last_key_value().map(|(e, v)| (*e, *v))
            && epoch.next() == state.manifests.next_epoch
            && let Ok(lease) = Lease::take(&self.folder, &manifest_name(epoch), self.id, epoch)
        {
            let manifest = self.describe(state, Kind::Anonymous, epoch)?;
            return Ok((manifest, lease));
        }
        let written = self.while_frozen(state, Freeze::View, |state, frozen| {
            self.write_manifest(state, Kind::Anonymous, frozen)
        });
        let (epoch, file) = written?.into_file();
        let path = self.folder.join(&manifest_name(epoch));
        // The state lock is held: nobody but this process may probe, and it does so only under this
        // lock.
        if !file::try_lock(file.here_for(&path)?, false, &path)? {
            return Err(Fault::Contended);
        }
        let manifest = self.describe(state, Kind::Anonymous, epoch)?;
        let locked = file.here_for(&path)?;
        let lease = Lease::from_locked(locked, file.identity(), path.clone(), self.id, epoch)?;
        Ok((manifest, lease))
    }

    /// A manifest of the present state, frozen or not, that nobody can hook.
    pub(crate) fn write_view(&self, state: &mut Tables) -> Result<(Epoch, KeptFile)> {
        let written = self.write_frozen(state, Kind::Anonymous, &mut None);
        written.map(Commit::into_file)
    }
}
