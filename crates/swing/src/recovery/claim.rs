//! Making the folder of a new area, and taking the owner's lock of one that exists.
//!
//! A folder appears under its final name by a rename, complete and with its owner's lock held, so
//! nobody ever sees a half-made area.

use crate::model::error::{Fault, Result};
use crate::model::name::AreaName;
use crate::model::units::AreaId;
use crate::namespace::files::{MAKING, OWNER_LOCK, folder_name, was_published};
use crate::namespace::handle::Namespace;
use crate::namespace::info::{Info, Lineage};
use crate::namespace::owner_lock::OwnerLock;
use crate::recovery::inventory::Inventory;
use crate::sys::file::Folder;
use crate::sys::process::now_ns;

/// How often making a folder is tried while others make, remove or collect the same one.
const MAX_TRIES: u32 = 16;
/// How often a lock that a collector may hold for a moment is tried, a millisecond apart.
const MAX_LOCK_TRIES: u32 = 8;
/// The same while nobody says that it is the owner: somebody is just taking the lock, or the last
/// owner has let go but a program it was starting at that moment still has the descriptor.
const MAX_LOCK_TRIES_NOBODY: u32 = 300;

/// A new folder, locked.
pub(crate) struct NewFolder {
    pub folder: Folder,
    pub lock: OwnerLock,
}

impl Namespace {
    /// Makes the folder of a new area, complete and locked.
    pub(crate) fn make_area_folder(
        &self,
        name: Option<&AreaName>,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<NewFolder> {
        self.collect_a_little();
        let target = folder_name(name, id);
        for tries in 0..MAX_TRIES {
            // Another name each time: a collector may still be taking the last one away.
            let making = format!("{MAKING}{id}-{tries}");
            match self.try_make(&making, &target, id, parents) {
                Ok(Some(made)) => return Ok(made),
                Ok(None) => match self.clear_the_way(&target) {
                    // Nobody says that it is the owner: a collector holds the lock for a moment, or
                    // has just taken it away.
                    Err(Fault::Owned { pid: 0, .. } | Fault::NotFound) if tries + 1 < MAX_TRIES => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    other => other?,
                },
                // A collector took the unfinished folder for a dead one, or is about to.
                Err(Fault::NotFound | Fault::Owned { pid: 0, .. }) => {
                    crate::sys::backoff::pause(tries)
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::AlreadyExists)
    }

    fn try_make(
        &self,
        making: &str,
        target: &str,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<Option<NewFolder>> {
        self.folder().make_folder(making)?;
        let filled = self.fill_and_rename(making, target, id, parents);
        if !matches!(filled, Ok(Some(_))) {
            self.abandon(making);
        }
        filled
    }

    fn fill_and_rename(
        &self,
        making: &str,
        target: &str,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<Option<NewFolder>> {
        let folder = self.folder().open_folder(making)?;
        folder.create_new(OWNER_LOCK)?;
        let mut lock = OwnerLock::take(&folder)?;
        Info { id, created_ns: now_ns(), parents: parents.to_vec() }.write(&folder)?;
        if !self.folder().rename_new(making, target)? {
            return Ok(None);
        }
        let folder = folder.renamed(self.folder().join(target)).kept()?;
        lock.renamed(&folder);
        Ok(Some(NewFolder { folder, lock }))
    }

    /// Takes away a folder that this process has begun to make. The name is its own, so nobody but
    /// a collector, who wants the same, does anything there; what cannot be taken away now is left
    /// to that.
    fn abandon(&self, making: &str) {
        debug_assert!(making.starts_with(MAKING), "nobody's area");
        if let Ok(folder) = self.folder().open_folder(making) {
            let _ = crate::recovery::dismantle::delete_folder(self.folder(), making, &folder);
        }
    }

    /// Something has the name already: an error, unless it is what a process that died before its
    /// first publish left.
    fn clear_the_way(&self, target: &str) -> Result<()> {
        let folder = match self.folder().open_folder(target) {
            Err(Fault::NotFound) => return Ok(()),
            other => other?,
        };
        let lock = OwnerLock::take(&folder)?;
        if !self.still_named(target, &folder)? {
            return Ok(());
        }
        if was_published(&folder) {
            // Memory that went with its last holder is no reason to refuse the name.
            let lost =
                || crate::recovery::lost::is_lost(&folder, &Inventory::take(&folder, &lock)?);
            if !crate::recovery::lost::has_links(&folder) || !lost().unwrap_or(false) {
                return Err(Fault::AlreadyExists);
            }
        }
        crate::recovery::dismantle::dismantle(self, &folder, target, &lock).map(|_| ())
    }

    /// Opens a named folder and takes its owner lock.
    pub(crate) fn own_folder(&self, name: &AreaName) -> Result<(Folder, OwnerLock)> {
        let encoded = name.folder();
        let mut tries = 0;
        loop {
            tries += 1;
            let folder = self.folder().open_folder(&encoded)?;
            match OwnerLock::take(&folder) {
                Ok(lock) => {
                    // It may have been removed, and even made again, between open and lock.
                    if self.still_named(&encoded, &folder)? {
                        return Ok((folder.kept()?, lock));
                    }
                }
                Err(Fault::Owned { pid, .. })
                    if tries < if pid == 0 { MAX_LOCK_TRIES_NOBODY } else { MAX_LOCK_TRIES } =>
                {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(fault) => return Err(fault),
            }
            if tries >= 2 * MAX_LOCK_TRIES_NOBODY {
                return Err(Fault::NotFound);
            }
        }
    }
}
