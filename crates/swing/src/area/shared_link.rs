//! The link by which hookers find an area's newest shared state, and the folder of what it depends
//! on.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::namespace::files::{LINKS, MEMORY, OVERSHARED, PARENTS, SHARED, UNSHARED};
use crate::sys::file::Folder;

impl Core {
    pub(crate) fn parents_folder(&self) -> Result<Folder> {
        match self.folder.open_folder(PARENTS) {
            Err(Fault::NotFound) => {
                self.folder.make_folder(PARENTS)?;
                self.folder.open_folder(PARENTS)
            }
            other => other,
        }
    }

    /// The name the link for hookers has at the moment.
    pub(crate) fn shared_link(&self, state: &Tables) -> &'static str {
        match (state.hooks.hookable, state.hooks.over_threshold) {
            (false, _) => UNSHARED,
            (true, true) => OVERSHARED,
            (true, false) => SHARED,
        }
    }

    /// Renames the link for hookers after a change of what it depends on.
    pub(crate) fn place_shared_link(&self, state: &mut Tables) -> Result<()> {
        let to = self.shared_link(state);
        for from in LINKS.into_iter().filter(|from| *from != to) {
            match self.folder.rename(from, to) {
                Ok(()) | Err(Fault::NotFound) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Takes the file's name away when no live manifest has it as its own memory any more, and
    /// nothing of it is shown.
    pub(crate) fn drop_former(&self, state: &mut Tables) -> Result<()> {
        let Some(former) = state.storage.former else { return Ok(()) };
        let shown = state.sources.iter().flatten();
        let shown = shown.clone().any(|s| s.area == self.id && s.epoch == former.last);
        if shown || state.manifests.live.keys().any(|epoch| *epoch <= former.last) {
            return Ok(());
        }
        self.folder.unlink(MEMORY)?;
        state.storage.former = None;
        Ok(())
    }
}
