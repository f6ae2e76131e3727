//! The newest state in an area's folder, which hookers look for.
//!
//! The newest state has the name [`SHARED`]. A manifest made ahead ([`crate::publish::made_ahead`])
//! has the name [`SHARING`] while it is empty. When its first word is stored it is complete, and
//! the newest state at once. It gets the name [`SHARED`] some microseconds later; if its owner died
//! in between, the next process that opens the area renames it. So a hooker reads both names, and
//! takes the newer complete manifest.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::model::error::{Fault, Result};
use crate::model::manifest::{COMING, FILLING, HEADER_BYTES, Header, Kind};
use crate::namespace::files::{OVERSHARED, SHARED, SHARING, UNSHARED};
use crate::sys::file::{self, Folder};

/// How often the names of an area are looked at whose owner changes them meanwhile.
const MAX_LOOKS: u32 = 16;

/// Opens the manifest of the newest shared state, or says why there is none.
///
/// The owner may share, or refuse hooks, between two of the calls here. A state that was absent at
/// the first and is there at the last was shared meanwhile, so it is opened.
pub(crate) fn open_newest(folder: &Folder) -> Result<File> {
    for _ in 0..MAX_LOOKS {
        if let Some(file) = open_ahead(folder) {
            return Ok(file);
        }
        match folder.open_read(SHARED) {
            Err(Fault::NotFound) => {}
            other => return other,
        }
        if [UNSHARED, OVERSHARED].iter().any(|link| folder.exists(link)) {
            return Err(Fault::NotHookable);
        }
        if !folder.exists(SHARED) {
            return Err(Fault::NotShared);
        }
    }
    Err(Fault::Contended)
}

/// Gives what is newest the usual name, also if hooks were refused because of a threshold, which
/// has ended with its owner. The caller holds the owner lock.
pub(crate) fn finish(folder: &Folder) -> Result<()> {
    if !folder.exists(SHARED) && folder.exists(OVERSHARED) {
        folder.rename(OVERSHARED, SHARED)?;
    }
    if open_ahead(folder).is_some() { folder.rename(SHARING, SHARED) } else { Ok(()) }
}

/// Whether a manifest never came to its end, because its owner died before: nobody uses it, also if
/// somebody has waited for it, and still holds its lease.
pub(crate) fn is_torn(folder: &Folder, name: &str) -> bool {
    let path = folder.join(name);
    let Ok(file) = folder.open_read(name) else { return false };
    let Ok(facts) = file::facts(&file, &path) else { return false };
    let mut header = [0; HEADER_BYTES];
    if file.read_exact_at(&mut header, 0).is_err() {
        return true;
    }
    let whole = |header: Header| header.total <= facts.len;
    // What begins with something else is something else.
    [[0; COMING.len()], COMING, FILLING].iter().any(|word| header.starts_with(word))
        || !Header::decode(&header, &path).map_or(true, whole)
}

/// The fixed part of a manifest.
pub(crate) fn read_header(file: &File, path: &Path) -> Result<Header> {
    let mut header = [0; HEADER_BYTES];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => Header::decode(&header, path),
        Err(_) => Err(Fault::corrupt(path, "shorter than the header of a manifest")),
    }
}

/// The manifest made ahead, if it is complete and newer than the one with the usual name.
fn open_ahead(folder: &Folder) -> Option<File> {
    let file = folder.open_read(SHARING).ok()?;
    let path = folder.join(SHARING);
    let facts = file::facts(&file, &path).ok().filter(|facts| facts.regular && facts.len > 0)?;
    let is_complete = |header: &Header| header.kind == Kind::Shared && header.total <= facts.len;
    let header = read_header(&file, &path).ok().filter(is_complete)?;
    let path = folder.join(SHARED);
    let usual = folder.open_read(SHARED).ok().and_then(|file| read_header(&file, &path).ok());
    let newer = usual.is_none_or(|usual| usual.id == header.id && usual.epoch < header.epoch);
    newer.then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::manifest::AHEAD_BYTES;
    use crate::namespace::files::manifest_name;
    use crate::policy::switches::Switches;
    use crate::publish::protocol::Publish;
    use crate::{Area, AreaName, AreaOptions, ByteLen, Epoch, Namespace};

    fn name() -> AreaName {
        AreaName::new("sharing").unwrap()
    }

    fn area(ns: &Namespace) -> Area {
        let area = ns.create(&name(), &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
        area.publish(Publish::Shared, b"first").unwrap();
        area
    }

    /// Publishes another state, and undoes what comes after its last byte. Gives its epoch.
    fn publish_by_half(area: &Area, first: Epoch) -> Epoch {
        // Keeps the first state.
        let keep = area.core.ns.hook(&name()).unwrap();
        assert_eq!(keep.epoch(), first);
        let second = area.publish(Publish::Shared, b"second").unwrap();
        let folder = &area.core.folder;
        folder.rename(SHARED, SHARING).unwrap();
        for link in [SHARED, "committed"] {
            folder.relink(&manifest_name(first), "t.link", link).unwrap();
        }
        second
    }

    #[test]
    fn a_complete_manifest_is_current_before_it_has_the_usual_name() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let area = area(&ns);
        let second = publish_by_half(&area, Epoch(1));
        assert_eq!(ns.hook(&name()).unwrap().payload(), b"second");
        assert_eq!(ns.shared_state(&name()).unwrap().unwrap().epoch, second);
        let listed = || ns.list().unwrap().remove(0).shared_epoch;
        assert_eq!(listed(), Some(second));
        // The owner dies.
        drop(area);
        let area = ns.open_area(&name()).unwrap();
        assert_eq!(area.payload(), b"second");
        assert!(!area.core.folder.exists(SHARING));
        assert_eq!((ns.hook(&name()).unwrap().epoch(), listed()), (second, Some(second)));
    }

    #[test]
    fn a_first_state_is_not_taken_for_a_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_path(dir.path()).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // What the first publish, and the end of an area, do with the name.
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    drop(folder.create_new(SHARED).unwrap());
                    folder.unlink(SHARED).unwrap();
                }
            });
            let refused =
                (0..100_000).any(|_| matches!(open_newest(&folder), Err(Fault::NotHookable)));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!refused);
        });
    }

    #[test]
    fn what_is_not_complete_or_older_is_not_current() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let area = area(&ns);
        let old = area.core.folder.open_read(&manifest_name(Epoch(1))).unwrap();
        let old = file::read_all(&old, 1 << 20, dir.path()).unwrap().unwrap();
        let second = publish_by_half(&area, Epoch(1));
        let new = area.core.folder.open_read(SHARING).unwrap();
        let new = file::read_all(&new, 1 << 20, dir.path()).unwrap().unwrap();
        let mut other = new.clone();
        other[40] ^= 1;
        let coming = [&COMING, &new[COMING.len()..]].concat();
        let filled = [&new[..], &vec![0; AHEAD_BYTES - new.len()]].concat();
        for (bytes, epoch) in [
            (&new[..], second),
            (&filled[..], second),
            (&coming[..], Epoch(1)),
            (&new[..new.len() - 1], Epoch(1)),
            (&new[..HEADER_BYTES], Epoch(1)),
            (&new[..HEADER_BYTES - 1], Epoch(1)),
            (&other[..], Epoch(1)),
            (&old[..], Epoch(1)),
            (&[], Epoch(1)),
        ] {
            area.core.folder.unlink(SHARING).unwrap();
            let file = area.core.folder.create_new(SHARING).unwrap();
            file::write_all(&file, bytes, dir.path()).unwrap();
            assert_eq!(ns.shared_state(&name()).unwrap().unwrap().epoch, epoch);
            assert_eq!(ns.hook(&name()).unwrap().epoch(), epoch);
        }
    }

    #[test]
    fn a_state_shared_while_hooks_are_refused_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap().with_switches(Switches::ON);
        let area = area(&ns);
        area.allow_live_hooks(true).unwrap();
        ns.hook_live(&name()).unwrap();
        while area.core.state.lock().manifests.made_ahead.is_none() {
            std::thread::yield_now();
        }
        area.set_hookable(false).unwrap();
        area.publish(Publish::Shared, b"").unwrap();
        assert!(!area.core.folder.exists(SHARING), "nobody finds it there, at no time");
        assert_eq!(ns.shared_state(&name()).unwrap(), None);
    }
}
