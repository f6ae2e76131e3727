//! The manifest of the next publish, made before anybody asks for one.
//!
//! A live hook waits for the publish that it causes, and half of the time that this spends on the
//! manifest goes into names: creating `m.<epoch>`, linking it to a temporary name, renaming that.
//! So after each live hook the next manifest is created, empty but with memory, and gets its
//! temporary name as well. A publish writes it, and it is current ([`crate::sharing`]): nobody
//! waits for the rename.
//!
//! Whoever asks need not open anything either: the manifest's lease is taken ahead, too, and handed
//! over, as are the memory, open for reading, and the manifest's bytes, before these are in the
//! file. A lease is a lock of an open file, and so the receiver's as soon as it is sent, whatever
//! becomes of the owner. While the receiver maps the state, the owner takes write access, makes the
//! state current and says so; only then is it used: nobody who hooks later, also after the owner's
//! death, finds an older one.
//!
//! **Fork.** A child closes its copies of what could keep a lease ([`Core::forget_in_child`]).
//!
//! **Crash.** A manifest that is not complete never became current: whoever takes the inventory
//! drops temporary names first, and then finds that it has no other name and no lease.

use std::fs::File;
use std::os::fd::AsFd;

use crate::area::{Core, State};
use crate::error::Result;
use crate::manifest::Kind;
use crate::publish::{SHARED, SHARING, manifest_name};
use crate::sys::file::{self, Folder};
use crate::units::Epoch;

/// Begin of the names that mean nothing after a crash.
const TEMPORARY: &str = "t.";
/// Memory that a manifest gets ahead; most need no more.
const ROOM: u64 = 4096;

/// The longest manifest that is handed over; longer ones take long to map in any case.
pub(crate) const MAX_HANDED_BYTES: usize = 4096;

/// An empty manifest with its own name and [`SHARING`].
#[derive(Debug)]
pub(crate) struct Prepared {
    epoch: Epoch,
    file: File,
    keys: Option<Keys>,
}

/// What whoever hooks needs besides the bytes of the manifest.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The manifest, with a shared lock.
    pub lease: File,
    /// The area's own memory, open for reading.
    pub memory: File,
    /// Of the memory.
    pub identity: (u64, u64),
}

/// A state that is handed over to whoever has asked for it.
#[derive(Debug)]
pub(crate) struct Handed {
    pub keys: Keys,
    pub epoch: Epoch,
}

/// Whoever waits for a state while it is published.
pub(crate) trait Audience {
    /// It is known what the state will be: the bytes of its manifest, and what goes with them. It
    /// may still be stored to.
    fn coming(&mut self, _manifest: &[u8], _handed: &Handed) {}
    /// The state that was coming does not change any more, and is current.
    fn current(&mut self, _epoch: Epoch) {}
}

/// Nobody.
impl Audience for () {}

/// The file for a manifest.
#[derive(Debug)]
pub(crate) struct ManifestFile {
    pub file: File,
    /// It has the name [`SHARING`] already.
    pub linked: bool,
    pub keys: Option<Keys>,
}

/// Drops the names that a crash has left in the middle of something. The caller holds the owner
/// lock.
pub(crate) fn drop_temporary_names(folder: &Folder) -> Result<()> {
    for name in folder.names()?.iter().filter(|name| name.starts_with(TEMPORARY)) {
        folder.unlink(name)?;
    }
    Ok(())
}

impl Core {
    /// Makes the next manifest ahead, where live hooks are expected. Without success nothing is
    /// lost but time.
    pub(crate) fn prepare_manifest(&self) {
        let Ok(mut state) = self.lock_for_change() else { return };
        let expected = self.live.try_lock().is_some_and(|live| live.is_answering());
        if !expected || state.prepared.is_some() {
            return;
        }
        let epoch = state.next_epoch;
        let name = manifest_name(epoch);
        if let Ok(file) = self.folder.create_new(&name) {
            let _ = file::allocate(file.as_fd(), 0, ROOM);
            let keys = self.make_keys(&state, &name).unwrap_or(None);
            let prepared = Prepared { epoch, file, keys };
            match self.folder.link(&name, SHARING) {
                Ok(()) => state.prepared = Some(prepared),
                Err(_) => self.drop_prepared(prepared),
            }
        }
    }

    fn make_keys(&self, state: &State, name: &str) -> Result<Option<Keys>> {
        let Some(identity) = state.memory.as_ref().map(|memory| memory.identity) else {
            return Ok(None);
        };
        let Some(memory) = self.own_memory_read_only(state)? else { return Ok(None) };
        let lease = self.folder.open_read(name)?;
        let locked = file::try_lock(&lease, false, &self.folder.join(name))?;
        Ok(locked.then_some(Keys { lease, memory, identity }))
    }

    /// The file for the manifest of this epoch, new or made ahead; only a shared state needs the
    /// name [`SHARING`], and can be handed over.
    pub(crate) fn manifest_file(
        &self,
        state: &mut State,
        epoch: Epoch,
        kind: Kind,
    ) -> Result<ManifestFile> {
        match state.prepared.take() {
            // Complete it is there for hookers, which may be refused meanwhile.
            Some(Prepared { epoch: of, file, keys })
                if of == epoch && kind == Kind::Shared && self.shared_link(state) == SHARED =>
            {
                return Ok(ManifestFile { file, linked: true, keys });
            }
            Some(prepared) => self.drop_prepared(prepared),
            None => {}
        }
        let file = self.folder.create_new(&manifest_name(epoch))?;
        Ok(ManifestFile { file, linked: false, keys: None })
    }

    /// Closes a forked child's copies of files whose locks would be kept by it.
    pub(crate) fn forget_in_child(&self, state: &mut State) {
        state.prepared = None;
        state.handed = None;
    }

    /// Nobody will ask for a publish any more.
    pub(crate) fn forget_prepared(&self, state: &mut State) {
        if let Some(prepared) = state.prepared.take() {
            self.drop_prepared(prepared);
        }
    }

    fn drop_prepared(&self, prepared: Prepared) {
        assert!(prepared.epoch.0 > 0, "a manifest of this area");
        let _ = self.folder.unlink(SHARING);
        let _ = self.folder.unlink(&manifest_name(prepared.epoch));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;
    use crate::publish::{Publish, Published};
    use crate::{Area, AreaName, AreaOptions, ByteLen, Namespace};

    fn name() -> AreaName {
        AreaName::new("prepared").unwrap()
    }

    fn area(home: &Path) -> (Namespace, Area) {
        let ns = Namespace::open(home).unwrap();
        let options = AreaOptions::with_reserve(ByteLen::mib(64));
        let area = ns.create(&name(), &options).unwrap();
        area.track().unwrap();
        area.allow_live_hooks(true).unwrap();
        (ns, area)
    }

    /// The epoch prepared, once the responder has come to it.
    fn prepared(area: &Area) -> Option<Epoch> {
        for _ in 0..2000 {
            let state = area.core.lock_for_change().unwrap();
            let found = state.prepared.as_ref().map(|p| (p.epoch, p.file.metadata().unwrap()));
            drop(state);
            if let Some((epoch, facts)) = found {
                assert_eq!((facts.len(), facts.nlink()), (0, 2), "empty, with both names");
                return Some(epoch);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        None
    }

    fn names(area: &Area) -> Vec<String> {
        let mut names = area.core.folder.names().unwrap();
        names.retain(|name| name.starts_with("t.") || name.starts_with("m."));
        names.sort();
        names
    }

    #[test]
    fn what_was_made_ahead_is_what_a_hook_shows() {
        let dir = tempfile::tempdir().unwrap();
        let (ns, area) = area(dir.path());
        for round in 2..20 {
            let expected = Epoch(round);
            assert_eq!(prepared(&area), Some(expected));
            let ino = area.core.folder.identity_of(SHARING).unwrap();
            let snapshot = ns.hook_live(&name()).unwrap();
            assert_eq!(snapshot.epoch(), expected);
            // The name follows, under the lock.
            drop(area.core.lock_for_change().unwrap());
            assert_eq!(area.core.folder.identity_of(SHARED), Some(ino));
        }
        assert_eq!(prepared(&area), Some(Epoch(20)));
        area.allow_live_hooks(false).unwrap();
        assert_eq!(names(&area), ["m.19"], "nothing is left of what was prepared");
    }

    #[test]
    fn other_publishes_come_in_between() {
        let dir = tempfile::tempdir().unwrap();
        let (ns, area) = area(dir.path());
        let mut last = Epoch(1);
        for round in 0..20 {
            assert_eq!(prepared(&area), Some(last.next()));
            let view = (round % 3 == 0).then(|| area.freeze_view().unwrap());
            if round % 2 == 0 {
                area.publish(Publish::Committed, b"").unwrap();
            } else if round % 5 == 0 {
                area.publish(Publish::Shared, b"").unwrap();
            }
            let snapshot = ns.hook_live(&name()).unwrap();
            assert!(snapshot.epoch() > last, "a fresh state");
            last = snapshot.epoch();
            drop(view);
        }
        drop(area);
        let area = ns.open_area(&name()).unwrap();
        area.reclaim().unwrap();
        assert_eq!(names(&area), [manifest_name(last)]);
    }

    /// Publishes as for somebody who has asked; the lease that this gets, and the epoch.
    fn hand_over(area: &Area) -> (File, Epoch, Published) {
        let published = area.core.publish_quickly(Kind::Shared, b"", &mut ()).unwrap();
        let state = area.core.state.lock();
        let handed = state.handed.as_ref().expect("prepared, and of one area");
        assert_eq!(handed.epoch, published.epoch);
        // A second descriptor of the same lock, as one that is sent.
        (handed.keys.lease.try_clone().unwrap(), handed.epoch, published)
    }

    #[test]
    fn a_state_that_is_handed_over_is_current_and_lasts_as_long_as_its_lease() {
        let dir = tempfile::tempdir().unwrap();
        let (ns, area) = area(dir.path());
        let first = prepared(&area).unwrap();
        let (lease, epoch, published) = hand_over(&area);
        assert_eq!(epoch, first);
        assert_eq!(ns.hook(&name()).unwrap().epoch(), epoch);
        area.core.follow_up(published).unwrap();
        assert!(area.core.state.lock().handed.is_none(), "the lease is the receiver's alone");
        // It lasts as long as that one wants.
        for _ in 0..3 {
            area.publish(Publish::Shared, b"").unwrap();
        }
        assert!(names(&area).contains(&manifest_name(epoch)));
        drop(lease);
        area.reclaim().unwrap();
        assert!(!names(&area).contains(&manifest_name(epoch)));
    }

    /// Also if it had been handed over already: whoever has its lease does not use it.
    #[test]
    fn what_a_dead_owner_had_prepared_is_swept() {
        let whole = |folder: &Folder| {
            let file = folder.open_read(SHARED).unwrap();
            file::read_all(&file, ROOM, folder.path()).unwrap().unwrap()
        };
        let torn = |folder: &Folder| {
            let mut longest = whole(folder);
            longest.pop();
            let header = longest[..128].to_vec();
            [Vec::new(), b"SWINGMF\0 torn".to_vec(), header, longest]
        };
        for (case, leased) in (0..4).flat_map(|case| [(case, false), (case, true)]) {
            let dir = tempfile::tempdir().unwrap();
            let (ns, area) = area(dir.path());
            drop(area);
            let folder = ns.folder().open_folder(&name().folder()).unwrap();
            let torn = &torn(&folder)[case];
            let leave = || {
                let file = folder.create_new("m.7").unwrap();
                file::write_all(&file, torn, dir.path()).unwrap();
                folder.link("m.7", SHARING).unwrap();
                let lease = folder.open_read("m.7").unwrap();
                assert!(!leased || file::try_lock(&lease, false, dir.path()).unwrap());
                lease
            };
            let lease = leave();
            drop(ns.open_area(&name()).unwrap());
            assert!(!folder.exists("m.7") && !folder.exists(SHARING), "{case}, {leased}");
            drop(lease);
            let lease = leave();
            assert_eq!(ns.gc().unwrap().damaged, 0);
            assert!(!folder.exists("m.7") && !folder.exists(SHARING), "{case}, {leased}");
            drop(lease);
            let _lease = leave();
            ns.remove(&name()).unwrap();
            assert!(ns.folder().names().unwrap().iter().all(|name| !name.contains("removed")));
        }
    }
}
