//! Taking an area out of its namespace while its memory stays in use.
//!
//! A process that is about to end removes its area's folder as late as it can. Libraries may still
//! use the memory afterwards, in their exit handlers. So only the names are removed, and the memory
//! goes with the last process that maps it. If the area is hooked, or another area derives from it,
//! the folder is renamed as that of a removed area ([`crate::recovery::remove`]), and goes with its
//! last user.
//!
//! **Concurrency.** Only the owner's process renames its folder, while it has the owner's lock. A
//! hooker looks for the published state after it has leased it, and starts over if there is none.
//! **Crash.** At each step, what is left is what a collector of removed areas expects.

use std::path::Path;

use crate::area::handle::Area;
use crate::model::error::{NamespaceError, Result};
use crate::model::units::AreaId;
use crate::namespace::files::{
    COMMITTED, EPHEMERAL, LINKS, MAX_LABEL_BYTES, REMOVED, folder_name, manifest_epoch,
};
use crate::namespace::info::Info;
use crate::recovery::dismantle::delete_folder;
use crate::sys::file::{self, Folder};

impl Area {
    /// Takes the area's names out of the namespace at `home`, at the end of its process: nobody can
    /// hook it any more, the memory stays mapped here, and who has it hooked keeps it. Best effort.
    ///
    /// The path must be absolute. It is opened anew, since the program may have closed descriptors
    /// that it did not open.
    pub fn leave_namespace(&self, home: &Path) {
        assert!(home.is_absolute(), "the program may be anywhere by now");
        // What cannot be done here a collector does.
        let _ = self.leave(home);
    }

    fn leave(&self, home: &Path) -> Result<()> {
        let home = Folder::open_path(home)?;
        let Some(name) = self.present_name(&home)? else { return Ok(()) };
        let grave = format!("{REMOVED}{}", self.id());
        home.rename(&name, &grave)?;
        let _ = self.allow_live_hooks(false);
        let folder = home.open_folder(&grave)?;
        for link in LINKS.into_iter().chain([COMMITTED]) {
            folder.unlink(link)?;
        }
        let mut locks = Vec::new();
        for state in folder.names()?.iter().filter(|name| manifest_epoch(name).is_some()) {
            let (path, file) = (folder.join(state), folder.open_read(state)?);
            // A further name is the pin of an area that was derived from this one.
            if !file::try_lock(&file, true, &path)? || file::facts(&file, &path)?.links > 1 {
                return Ok(());
            }
            locks.push(file);
        }
        delete_folder(&home, &grave, &folder)?;
        // The locks go only now: nobody has hooked in between.
        drop(locks);
        Ok(())
    }

    /// The name of this area's folder: of that which says so.
    fn present_name(&self, home: &Folder) -> Result<Option<String>> {
        let id_of =
            |name: &str| -> Option<AreaId> { Some(Info::read(&home.open_folder(name).ok()?)?.id) };
        let is_ours = |name: &String| id_of(name) == Some(self.id());
        // Most areas still have the name that they were made with.
        let usual = folder_name(self.name(), self.id());
        if is_ours(&usual) {
            return Ok(Some(usual));
        }
        let mut names = home.names()?;
        // A dot begins the names of what has none.
        names.retain(|name| !name.starts_with('.'));
        Ok(names.into_iter().find(is_ours))
    }
}

impl Area {
    /// The area is there for its process only: when that has ended, [`crate::Namespace::gc`]
    /// removes it, also if it was published. `label` is what listings call it besides its name; the
    /// empty one is none, and at most 255 bytes count.
    pub fn end_with_process(&self, label: &str) -> Result<(), NamespaceError> {
        let folder = &self.core.folder;
        let write = || {
            folder.unlink("t.ephemeral")?;
            let file = folder.create_new("t.ephemeral")?;
            let end = label.floor_char_boundary(MAX_LABEL_BYTES);
            file::write_all(&file, &label.as_bytes()[..end], &folder.join(EPHEMERAL))?;
            folder.rename("t.ephemeral", EPHEMERAL)
        };
        let ctx = self.core.context();
        self.core
            .check_fork()
            .and_then(|()| write())
            .map_err(|f| NamespaceError::from_fault(f, &ctx))
    }
}
