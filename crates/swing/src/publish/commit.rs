//! Making a manifest current: one protocol, and two ways of going it.
//!
//! | step | a new manifest | one made ahead ([`crate::publish::made_ahead`]) |
//! |---|---|---|
//! | begin | nothing, but for an anonymous one | it is there, empty, with a second name |
//! | announce | nothing | its page says what the state will be, or that it is being filled |
//! | complete | the file `m.<epoch>` is made | the rest of the page, then its first word |
//! | make current | a link is renamed | `t.shared`, its second name, is renamed |
//! | withdraw | nothing | its first word is cleared, and both names go |
//!
//! A manifest made ahead is current for hookers as soon as it is complete: they look at both names,
//! and take the newer manifest that is complete. The last step gives it the usual name. Of a new
//! one nobody knows before the last step.
//!
//! **Crash.** Before the last step (or the first word) the old state is current, after it the new
//! one.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::manifest::{Kind, Manifest};
use crate::model::units::Epoch;
use crate::namespace::files::{COMMITTED, LINKING, SHARING, manifest_name};
use crate::namespace::manifest_file::ManifestFile;
use crate::sys::kept_file::KeptFile;

/// A manifest on its way to being current.
#[derive(Debug)]
pub(crate) struct Commit {
    epoch: Epoch,
    kind: Kind,
    file: ManifestFile,
    bytes: Vec<u8>,
    announced: bool,
}

/// A state that has become current.
pub(crate) struct Published {
    pub epoch: Epoch,
    /// The manifests that were current before it.
    superseded: [Option<Epoch>; 2],
    /// Closing it is left to [`Core::follow_up`]: whoever asked for the state does not wait for it.
    manifest: ManifestFile,
}

impl Core {
    /// Begins to commit a manifest of the next epoch. From here on that is used up, also when
    /// committing fails.
    pub(crate) fn begin_commit(
        &self,
        state: &mut Tables,
        kind: Kind,
        manifest: &Manifest,
    ) -> Result<Commit> {
        let epoch = manifest.epoch;
        assert_eq!(epoch, state.manifests.next_epoch, "epochs only grow");
        let file = self.manifest_file(state, epoch, kind);
        state.manifests.next_epoch = epoch.next();
        let bytes = manifest.encode();
        debug_assert!(
            Manifest::decode(&bytes, self.folder.path()).is_ok_and(|read| read == *manifest),
            "INV-AREA-6: what is written is what readers accept"
        );
        Ok(Commit { epoch, kind, file: file?, bytes, announced: false })
    }
}

impl Commit {
    /// Tells those who watch a manifest made ahead what the state will be, and whose request it
    /// answers. `true`: they know all that it takes to map it, and wait for one word only.
    pub(crate) fn announce(&mut self, state: &mut Tables, manifest: &Manifest) -> bool {
        if self.file.is_linked()
            && let Some(stamp) = state.hooks.notified.take()
        {
            self.file.sign(stamp, &self.bytes);
        }
        self.announced = self.file.announce(manifest, &self.bytes);
        self.announced
    }

    /// Writes all of it. What it shows is frozen.
    pub(crate) fn complete(&self, core: &Core) -> Result<()> {
        let name = manifest_name(self.epoch);
        self.file.complete(&self.bytes, self.announced, (&core.folder, &name))
    }

    /// It will not be current.
    pub(crate) fn withdraw(self, core: &Core) {
        self.file.withdraw();
        // A new one is there only once it is whole.
        if !matches!(self.file, ManifestFile::New) {
            let _ = core.folder.unlink(&manifest_name(self.epoch));
        }
        if self.file.is_linked() {
            let _ = core.folder.unlink(SHARING);
        }
    }

    /// The last step: links name it as the newest state of its kind.
    pub(crate) fn make_current(self, core: &Core, state: &mut Tables) -> Result<Published> {
        let Self { epoch, kind, file: manifest, .. } = self;
        assert_ne!(kind, Kind::Anonymous, "nobody else is to find it");
        let name = manifest_name(epoch);
        let mut superseded = [None; 2];
        // Of a shared state the link for hookers comes first, because somebody may be waiting for
        // it; the other follows, and an adopter that finds it missing takes the newer one.
        let late = kind == Kind::Shared && state.manifests.committed.is_some();
        if !late {
            core.folder.relink(&name, "t.committed", COMMITTED)?;
            superseded[0] = state.manifests.committed.replace(epoch);
        }
        if kind == Kind::Shared {
            let link = core.shared_link(state);
            match manifest.is_linked() {
                true => core.folder.rename(SHARING, link)?,
                false => core.folder.relink(&name, LINKING, link)?,
            }
            superseded[1] = state.manifests.shared.replace(epoch);
        }
        let older = superseded.iter().flatten().all(|old| *old < epoch);
        assert!(older, "INV-AREA-5: what is current is the newest state");
        Ok(Published { epoch, superseded, manifest })
    }

    /// Of an anonymous state, which is reached by its file alone.
    pub(crate) fn into_file(self) -> (Epoch, KeptFile) {
        match self.file {
            ManifestFile::Kept(file) => (self.epoch, file),
            other => unreachable!("anonymous states are kept, not {other:?}"),
        }
    }
}

impl Core {
    /// What a publish made superfluous is given back.
    pub(crate) fn follow_up(&self, published: Published) -> Result<()> {
        drop(published.manifest);
        let retired = self.retire_superseded(published.superseded);
        self.end_settling();
        retired?;
        self.drop_lifted_later()
    }

    fn retire_superseded(&self, superseded: [Option<Epoch>; 2]) -> Result<()> {
        let mut state = self.lock_for_change()?;
        let committed = self.commit_shared(&mut state)?;
        for old in committed.into_iter().chain(superseded.into_iter().flatten()) {
            self.retire_if_possible(&mut state, old)?;
        }
        // What stores wait for is decided.
        self.end_settling();
        self.reclaim_some(&mut state)
    }

    /// Makes the newest shared state the committed one; which was that before.
    fn commit_shared(&self, state: &mut Tables) -> Result<Option<Epoch>> {
        let Some(shared) = state.manifests.shared.filter(|s| Some(*s) > state.manifests.committed)
        else {
            return Ok(None);
        };
        self.folder.relink(&manifest_name(shared), "t.committed", COMMITTED)?;
        Ok(state.manifests.committed.replace(shared))
    }
}
