//! The manifest of the next publish, made before anybody asks for one.
//!
//! A live hook waits for the publish that it causes. Most of the publish's time for the manifest
//! goes into system calls: create `m.<epoch>`, write it, link it to a temporary name, rename that.
//! So after each live hook the next manifest is created, empty, with its memory mapped here and
//! with its temporary name. Publish fills the page and stores the first word last; that store
//! commits it ([`crate::namespace::newest`]). Nobody waits for the rename.
//!
//! A hooker opens the empty manifest while the owner works, takes its lease, and watches its first
//! word ([`crate::live::pending`]). When the manifest says what lies where, the word says that the
//! state is coming: the hooker may map it, but it may still change. Meanwhile the owner takes write
//! access and stores another word, which makes the state current. The hooker uses the state only
//! then, so no later hook, even after the owner's death, finds an older one. Behind the manifest
//! stands the stamp of the notification that the state answers. By it a hooker recognises its
//! answer, even if the owner was quicker than the hooker's opening of the file.
//!
//! **Fork.** A child has not got the mapping, and closes its copy of the file
//! ([`Core::forget_made_ahead_in_child`]).
//!
//! **Crash.** A manifest that is not complete never became current: whoever takes the inventory
//! drops temporary names first, and then finds that it has no other name and no contents.

use std::os::fd::AsFd;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::model::manifest::{AHEAD_BYTES, Kind};
use crate::model::units::Epoch;
use crate::namespace::files::{SHARED, SHARING, manifest_name};
use crate::namespace::manifest_file::{MadeAhead, ManifestFile};
use crate::sys::file;
use crate::sys::first_page::Page;
use crate::sys::kept_file::{Access, KeptFile};

impl Core {
    /// Makes the next manifest ahead, where live hooks are expected. Without success nothing is
    /// lost but time.
    pub(crate) fn make_manifest_ahead(&self) {
        if !self.ns.switches().made_ahead {
            return;
        }
        let Ok(mut state) = self.lock_for_change() else { return };
        let expected = self.live.try_lock().is_some_and(|live| live.is_answering());
        if !expected || state.manifests.made_ahead.is_some() {
            return;
        }
        let epoch = state.manifests.next_epoch;
        let name = manifest_name(epoch);
        let Ok(file) = self.new_manifest(epoch) else { return };
        match self.make_ahead(&file, &name) {
            Ok(page) => state.manifests.made_ahead = Some(MadeAhead { epoch, file, page }),
            Err(_) => self.drop_names(epoch),
        }
    }

    /// Gives an empty manifest its memory and its second name.
    fn make_ahead(&self, file: &KeptFile, name: &str) -> Result<Page> {
        let path = self.folder.join(name);
        let fault = |e| Fault::io("map", &path, e);
        let file = file.here_for(&path)?;
        file::allocate(file.as_fd(), 0, AHEAD_BYTES as u64).map_err(fault)?;
        file::set_len(file, AHEAD_BYTES as u64, &path)?;
        let page = Page::map(file.as_fd()).map_err(fault)?;
        self.folder.link(name, SHARING)?;
        Ok(page)
    }

    /// The file for the manifest of this epoch, new or made ahead; only a shared state needs the
    /// name [`SHARING`].
    pub(crate) fn manifest_file(
        &self,
        state: &mut Tables,
        epoch: Epoch,
        kind: Kind,
    ) -> Result<ManifestFile> {
        match state.manifests.made_ahead.take() {
            // Complete it is there for hookers, which may be refused meanwhile.
            Some(MadeAhead { epoch: of, file, page })
                if of == epoch && kind == Kind::Shared && self.shared_link(state) == SHARED =>
            {
                return Ok(ManifestFile::Ahead(file, page));
            }
            Some(prepared) => self.drop_names(prepared.epoch),
            None => {}
        }
        match kind {
            Kind::Anonymous => Ok(ManifestFile::Kept(self.new_manifest(epoch)?)),
            Kind::Committed | Kind::Shared => Ok(ManifestFile::New),
        }
    }

    fn new_manifest(&self, epoch: Epoch) -> Result<KeptFile> {
        let name = manifest_name(epoch);
        let file = self.folder.create_new(&name)?;
        let path = self.folder.join(&name);
        let kept = KeptFile::new(file, Access::Write).map_err(|e| Fault::io("use", &path, e))?;
        Ok(kept.named(&path))
    }

    /// In a forked child, which has not got the mapping.
    pub(crate) fn forget_made_ahead_in_child(&self, state: &mut Tables) {
        if let Some(MadeAhead { page, .. }) = state.manifests.made_ahead.take() {
            page.forget();
        }
    }

    /// Nobody will ask for a publish any more.
    pub(crate) fn forget_made_ahead(&self, state: &mut Tables) {
        if let Some(prepared) = state.manifests.made_ahead.take() {
            self.drop_names(prepared.epoch);
        }
    }

    fn drop_names(&self, epoch: Epoch) {
        let _ = self.folder.unlink(SHARING);
        let _ = self.folder.unlink(&manifest_name(epoch));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::live::pending::{Stage, Watch};
    use crate::model::manifest::{COMING, FILLING, HEADER_BYTES, Header, MAGIC, MAX_PAYLOAD_BYTES};
    use crate::policy::switches::Switches;
    use crate::publish::commit::Published;
    use crate::publish::protocol::Publish;
    use crate::sys::file::Folder;
    use crate::sys::first_page::LAST_WORD;
    use crate::sys::notifier::Stamp;
    use crate::{Area, AreaName, AreaOptions, ByteLen, Namespace};

    fn name() -> AreaName {
        AreaName::new("prepared").unwrap()
    }

    fn area(home: &Path) -> (Namespace, Area) {
        let ns = Namespace::open(home).unwrap().with_switches(Switches::ON);
        area_in(ns)
    }

    fn area_in(ns: Namespace) -> (Namespace, Area) {
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
            let found =
                state.manifests.made_ahead.as_ref().map(|p| {
                    (p.epoch, file::facts(p.file.here().unwrap(), Path::new("")).unwrap())
                });
            drop(state);
            if let Some((epoch, facts)) = found {
                let whole = AHEAD_BYTES as u64;
                assert_eq!((facts.len, facts.links), (whole, 2), "with both names");
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
    fn switched_off_nothing_is_made_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let off = Switches { made_ahead: false, ..Switches::ON };
        let (ns, area) = area_in(Namespace::open(dir.path()).unwrap().with_switches(off));
        for round in 2..6 {
            assert_eq!(ns.hook_live(&name()).unwrap().epoch(), Epoch(round));
            area.core.make_manifest_ahead();
            assert!(area.core.lock_for_change().unwrap().manifests.made_ahead.is_none());
            assert_eq!(area.core.folder.identity_of(SHARING), None);
        }
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

    /// Publishes as for somebody who has asked; what that one has watched.
    fn watched(area: &Area) -> (Watch, Epoch, Published) {
        let watch = Watch::begin(&area.core.folder, None).expect("empty");
        let published = area.core.publish_quickly(Kind::Shared, b"").unwrap();
        assert_eq!(watch.stage(), Stage::Current);
        let epoch = watch.manifest().unwrap().epoch;
        (watch, epoch, published)
    }

    #[test]
    fn a_state_that_was_watched_is_current_and_lasts_as_long_as_its_lease() {
        let dir = tempfile::tempdir().unwrap();
        let (ns, area) = area(dir.path());
        let first = prepared(&area).unwrap();
        let (watch, epoch, published) = watched(&area);
        assert_eq!((epoch, published.epoch), (first, first));
        assert_eq!(ns.hook(&name()).unwrap().epoch(), epoch);
        assert!(Watch::begin(&area.core.folder, None).is_none(), "not empty, or not there");
        area.core.follow_up(published).unwrap();
        // It lasts as long as that one wants.
        for _ in 0..3 {
            area.publish(Publish::Shared, b"").unwrap();
        }
        assert!(names(&area).contains(&manifest_name(epoch)));
        drop(watch);
        area.reclaim().unwrap();
        assert!(!names(&area).contains(&manifest_name(epoch)));
    }

    #[test]
    fn a_state_that_came_before_anybody_looked_is_known_by_its_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let (ns, area) = area(dir.path());
        let [stamp, next] = [1, 2].map(|n| Stamp::of(n * 1_000_000));
        let watch = |stamp| Watch::begin(&area.core.folder, Some(stamp));
        for payload in [0, LAST_WORD - 512, MAX_PAYLOAD_BYTES] {
            let epoch = prepared(&area).unwrap();
            // Empty, it may be the one that comes.
            assert!(watch(next).is_some_and(|watch| watch.stage() == Stage::Empty));
            area.core.lock_for_change().unwrap().hooks.notified = Some(stamp);
            let payload = vec![1; payload];
            let published = area.core.publish_quickly(Kind::Shared, &payload).unwrap();
            assert!(area.core.lock_for_change().unwrap().hooks.notified.is_none());
            assert!(watch(next).is_none(), "it answers another one");
            let found = watch(stamp);
            assert_eq!(found.is_some(), payload.len() < MAX_PAYLOAD_BYTES, "there is no room");
            if let Some(found) = found {
                assert_eq!(found.manifest().unwrap().epoch, epoch);
                area.core.follow_up(published).unwrap();
                area.publish(Publish::Shared, b"").unwrap();
                assert!(watch(stamp).is_none(), "there is a newer one");
                assert!(names(&area).contains(&manifest_name(epoch)), "as long as that one wants");
            }
            drop(ns.hook_live(&name()).unwrap());
        }
    }

    #[test]
    fn a_state_that_is_not_announced_is_no_answer_to_whoever_asks_after_its_moment() {
        let dir = tempfile::tempdir().unwrap();
        let (_ns, area) = area(dir.path());
        let core = &area.core;
        for (payload, simple) in [(0, true), (AHEAD_BYTES, false)] {
            let epoch = prepared(&area).unwrap();
            let before = Watch::begin(&core.folder, None).unwrap();
            let mut state = core.lock_for_change().unwrap();
            state.manifests.payload = vec![7; payload];
            let manifest = core.describe(&state, Kind::Shared, epoch).unwrap();
            let bytes = manifest.encode();
            let made = core.manifest_file(&mut state, epoch, Kind::Shared).unwrap();
            // The moment comes next; the rest may take long, and stores go on meanwhile.
            assert_eq!(made.announce(&manifest, &bytes), simple);
            for stamp in [None, Some(Stamp::of(9))] {
                assert!(Watch::begin(&core.folder, stamp).is_none(), "{payload} {stamp:?}");
            }
            let stage = if simple { Stage::Coming } else { Stage::Empty };
            assert_eq!(before.stage(), stage, "whoever asked before goes on waiting");
            made.complete(&bytes, simple, (&core.folder, &manifest_name(epoch))).unwrap();
            assert_eq!(before.stage(), Stage::Current);
            made.withdraw();
            core.drop_names(epoch);
            state.manifests.next_epoch = epoch.next();
            drop(state);
            core.make_manifest_ahead();
        }
    }

    #[test]
    fn a_long_manifest_is_watched_by_its_end_only() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_path(dir.path()).unwrap();
        let file = folder.create_new("m").unwrap();
        file.set_len(AHEAD_BYTES as u64).unwrap();
        let page = Page::map(file.as_fd()).unwrap();
        let file = KeptFile::new(file, Access::Write).unwrap();
        let made = ManifestFile::Ahead(file, page);
        for len in [HEADER_BYTES, AHEAD_BYTES - 1, AHEAD_BYTES, AHEAD_BYTES + 1, 3 * AHEAD_BYTES] {
            let mut bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
            made.complete(&bytes, false, (&folder, "m")).unwrap();
            let found = std::fs::read(dir.path().join("m")).unwrap();
            assert_eq!(found[..len], bytes);
            made.withdraw();
            let found = std::fs::read(dir.path().join("m")).unwrap();
            assert_eq!(found[..MAGIC.len()], [0; MAGIC.len()]);
        }
    }

    /// Also if somebody has watched it: whoever has its lease does not use it.
    #[test]
    fn what_a_dead_owner_had_prepared_is_swept() {
        let whole = |folder: &Folder| {
            let file = folder.open_read(SHARED).unwrap();
            file::read_all(&file, 1 << 20, folder.path()).unwrap().unwrap()
        };
        let torn = |folder: &Folder| {
            let whole = whole(folder);
            let total = Header::decode(&whole, folder.path()).unwrap().total as usize;
            let begun = |word: [u8; 8]| [&word, &whole[8..]].concat();
            let header = whole[..HEADER_BYTES].to_vec();
            let (short, longest) = (b"SWINGMF\0 torn".to_vec(), whole[..total - 1].to_vec());
            let empty = vec![0; AHEAD_BYTES];
            let begun = [COMING, FILLING, [0; 8]].map(begun);
            [vec![Vec::new(), short, header, longest, empty], begun.into()].concat()
        };
        for (case, leased) in (0..8).flat_map(|case| [(case, false), (case, true)]) {
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
