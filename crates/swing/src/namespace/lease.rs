//! Leases: a lease keeps a published state unchanged while a process reads it.
//!
//! A lease is a shared `flock` on a manifest file. The holder of an area's owner lock retires a
//! manifest in three steps. It gets the exclusive lock on the manifest. It checks that the file has
//! no name but its own `m.<epoch>`; each further name is a current link, or the pin of a derived
//! area. It removes that name while it still holds the lock. So a reader that takes the shared lock
//! sees either a manifest that stays, or one without any name (`st_nlink == 0`), and then starts
//! over. There is no window in between, and no list of readers that a crash could leave wrong: the
//! kernel drops a dead reader's lock.
//!
//! A lock belongs to the open file description. So two opens in one process count separately, and a
//! forked child shares its parent's lease until both have given it up. No process ever unlocks
//! explicitly: that would take the lock from the other. The lock is held by a mapping, not by a
//! descriptor, which the program could close ([`crate::sys::file_lock`]; INV-AREA-19).

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::model::error::{Fault, Result};
use crate::model::units::{AreaId, Epoch};
use crate::namespace::files::{PARENTS, manifest_name, pin_name};
use crate::sys::backoff::pause;
use crate::sys::file::{self, Folder};
use crate::sys::file_lock::FileLock;

/// How often a lock that is held for moments is tried again.
const MAX_LOCK_TRIES: u32 = 200;

/// A held lease; given up when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    lock: FileLock,
    /// A name that the manifest has, and keeps as long as it is leased.
    found: PathBuf,
    area: AreaId,
    epoch: Epoch,
}

/// What trying to lease an open manifest file came to.
pub(crate) enum Attempt {
    /// The lock is held and the file, of this length and identity, has a name: it will stay.
    Held { len: u64, identity: (u64, u64) },
    /// The file has been retired meanwhile; another one is current.
    Retired,
    /// Somebody is just examining the file.
    Busy,
}

/// One try to lock a manifest for reading.
pub(crate) fn attempt(file: &File, path: &Path) -> Result<Attempt> {
    if !file::try_lock(file, false, path)? {
        return Ok(Attempt::Busy);
    }
    let facts = file::facts(file, path)?;
    if !facts.regular {
        return Err(Fault::corrupt(path, "not a regular file"));
    }
    let identity = facts.identity();
    let held = Attempt::Held { len: facts.len, identity };
    Ok(if facts.links == 0 { Attempt::Retired } else { held })
}

impl Lease {
    /// Goes on holding the shared lock of an open manifest, which has this name.
    pub(crate) fn from_locked(
        file: impl AsFd,
        identity: (u64, u64),
        found: PathBuf,
        area: AreaId,
        epoch: Epoch,
    ) -> Result<Self> {
        assert!(area.0 != 0 && Epoch::POSSIBLE.contains(&epoch), "a lease on a manifest");
        let lock = FileLock::keep(file, Some(identity), None)
            .map_err(|e| Fault::io("lease", &found, e))?;
        Ok(Self { lock, found, area, epoch })
    }

    /// Leases a manifest by the name a pin or its owner gave it. It must exist: whoever calls this
    /// knows that it cannot have been retired, because something that depends on it is leased
    /// already.
    pub(crate) fn take(folder: &Folder, name: &str, area: AreaId, epoch: Epoch) -> Result<Self> {
        let path = folder.join(name);
        let file = folder.open_read(name)?;
        for tries in 0..MAX_LOCK_TRIES {
            match attempt(&file, &path)? {
                Attempt::Held { identity, .. } => {
                    return Self::from_locked(&file, identity, path, area, epoch);
                }
                Attempt::Retired => return Err(Fault::NotFound),
                Attempt::Busy => pause(tries),
            }
        }
        Err(Fault::Contended)
    }

    /// Gives the leased manifest a further name, in the folder of what depends on it. It is looked
    /// for where it was found, and then in all areas: the one it was found in may have been removed
    /// meanwhile, and its folder collected. What is leased keeps some name.
    pub(crate) fn pin(&self, folder: &Folder, name: &str) -> Result<()> {
        let identity = self.lock.identity();
        if folder.identity_of(name) == Some(identity)
            || folder.link_from(&self.found, identity, name)?
        {
            return Ok(());
        }
        for place in self.possible_places() {
            if folder.link_from(&place, identity, name)? {
                return Ok(());
            }
        }
        Err(Fault::corrupt(&self.found, "not the manifest that was leased"))
    }

    /// Its name in its own area's folder and those of its pins, for each folder that there is.
    fn possible_places(&self) -> Vec<PathBuf> {
        let is_pin = self.found.parent().is_some_and(|folder| folder.ends_with(PARENTS));
        let home = self.found.ancestors().nth(if is_pin { 3 } else { 2 });
        let entries = home.and_then(|home| std::fs::read_dir(home).ok()).into_iter().flatten();
        let own = manifest_name(self.epoch);
        let pin = pin_name(self.area, self.epoch);
        let places = |folder: PathBuf| [folder.join(&own), folder.join(PARENTS).join(&pin)];
        entries.flatten().flat_map(|entry| places(entry.path())).collect()
    }

    pub(crate) fn area(&self) -> AreaId {
        self.area
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// What the owner found when it wanted to retire a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Nobody can see it any more; its name is gone.
    Retired,
    /// A reader holds it.
    Leased,
    /// It has other names: a current link, or pins of derived areas.
    Linked,
}

/// Tries to retire the manifest `name`. Only the holder of the owner lock may call this.
pub(crate) fn probe(folder: &Folder, name: &str) -> Result<Probe> {
    let path = folder.join(name);
    let file = match folder.open_read(name) {
        Ok(file) => file,
        Err(Fault::NotFound) => return Ok(Probe::Retired),
        Err(e) => return Err(e),
    };
    if !file::try_lock(&file, true, &path)? {
        return Ok(Probe::Leased);
    }
    if file::facts(&file, &path)?.links > 1 {
        return Ok(Probe::Linked);
    }
    // The exclusive lock is held until `file` is dropped: no lease can slip in before the name is
    // gone.
    folder.unlink(name)?;
    Ok(Probe::Retired)
}

/// Whether a manifest is leased, or has more than the `links` names its area gives it. Only the
/// holder of the owner lock may call this.
pub(crate) fn is_held(folder: &Folder, name: &str, links: u64) -> Result<bool> {
    let path = folder.join(name);
    let file = match folder.open_read(name) {
        Ok(file) => file,
        Err(Fault::NotFound) => return Ok(false),
        Err(e) => return Err(e),
    };
    assert!(links > 0, "its own name is one");
    let leased = !file::try_lock(&file, true, &path)?;
    Ok(leased || file::facts(&file, &path)?.links > links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_path(dir.path()).unwrap();
        (dir, folder)
    }

    fn lease(f: &Folder, name: &str) -> Result<Lease> {
        Lease::take(f, name, AreaId(1), Epoch(1))
    }

    #[test]
    fn a_leased_manifest_is_not_retired_and_an_abandoned_one_is() {
        let (_dir, f) = folder();
        f.create_new("m.1").unwrap();
        let a = lease(&f, "m.1").unwrap();
        let b = lease(&f, "m.1").unwrap();
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Leased);
        drop(a);
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Leased);
        drop(b);
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Retired);
        assert!(matches!(lease(&f, "m.1"), Err(Fault::NotFound)));
    }

    #[test]
    fn a_further_name_keeps_a_manifest() {
        let (_dir, f) = folder();
        let file = f.create_new("m.1").unwrap();
        assert!(f.link_file(&file, "pin").unwrap());
        drop(file);
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Linked);
        f.unlink("pin").unwrap();
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Retired);
    }

    #[test]
    fn an_open_file_without_a_name_is_seen_as_retired() {
        let (_dir, f) = folder();
        f.create_new("m.1").unwrap();
        let open = f.open_read("m.1").unwrap();
        assert_eq!(probe(&f, "m.1").unwrap(), Probe::Retired);
        assert!(matches!(attempt(&open, f.path()).unwrap(), Attempt::Retired));
    }

    #[test]
    fn a_folder_in_place_of_a_manifest_is_corrupt() {
        let (_dir, f) = folder();
        f.make_folder("m.1").unwrap();
        assert!(matches!(lease(&f, "m.1"), Err(Fault::Corrupt { .. } | Fault::Io(_))));
    }
}
