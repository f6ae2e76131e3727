//! Removing an area by its name.

use crate::model::error::{Context, RemoveError, Result};
use crate::model::name::AreaName;
use crate::namespace::handle::Namespace;
use crate::recovery::dismantle::{RemoveReport, dismantle};

impl Namespace {
    /// Removes a named area that no live process owns. Snapshots and derived areas keep what they
    /// show.
    pub fn remove(&self, name: &AreaName) -> Result<RemoveReport, RemoveError> {
        let ctx = Context::named(name, self.path());
        self.remove_inner(name).map_err(|fault| RemoveError::from_fault(fault, &ctx))
    }

    fn remove_inner(&self, name: &AreaName) -> Result<RemoveReport> {
        let (folder, lock) = self.own_folder(name)?;
        dismantle(self, &folder, &name.folder(), &lock)
    }
}
