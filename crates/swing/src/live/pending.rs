//! Watching a manifest that an owner has made ahead: the hooker's side of
//! [`crate::publish::made_ahead`].
//!
//! A hooker that has asked for a state opens that manifest while the owner works, and takes its
//! lease. If the manifest is empty then, its state is not older than the question: the owner stores
//! the first word while no store gets into protected memory, and protects the rest afterwards. If
//! the manifest is not empty, it is the answer if it has the stamp of the question; else it may
//! answer another hooker.
//!
//! The file is as hostile as any manifest.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::io::Errno;

use crate::model::error::{Fault, Result};
use crate::model::manifest::{AHEAD_BYTES, COMING, Header, Kind, MAGIC, Manifest};
use crate::namespace::files::{SHARED, SHARING, manifest_name};
use crate::namespace::lease::Lease;
use crate::namespace::manifest_file::read_manifest_from;
use crate::sys::file::{self, Folder};
use crate::sys::first_page::LAST_WORD;
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::Stamp;

/// A leased manifest that was empty when the owner had been asked already, or answers that.
#[derive(Debug)]
pub(crate) struct Watch {
    file: KeptFile,
    path: PathBuf,
    /// It was seen to be current.
    current: AtomicBool,
}

/// What a manifest says of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing that can be used yet; also if it has said something before.
    Empty,
    /// It is known what lies where, but may still be stored to.
    Coming,
    /// It is current, and does not change any more.
    Current,
}

impl Watch {
    /// `None`: there is no manifest made ahead, or it is not the answer to this question.
    pub(crate) fn begin(folder: &Folder, stamp: Option<Stamp>) -> Option<Self> {
        let (name, file) = match folder.open_read(SHARING) {
            // By now it may have the other name.
            Err(Fault::NotFound) if stamp.is_some() => (SHARED, folder.open_read(SHARED).ok()?),
            opened => (SHARING, opened.ok()?),
        };
        let path = folder.join(name);
        if !file::try_lock(&file, false, &path).unwrap_or(false) {
            return None;
        }
        let file = KeptFile::new(file, Access::Read).ok()?;
        let watch = Self { file, path, current: AtomicBool::new(false) };
        let word = watch.word();
        let is_it = match stage_of(word) {
            // An owner whose state comes to be in it has not retired it.
            Stage::Empty => name == SHARING && word == Some([0; MAGIC.len()]),
            _ => stamp.is_some_and(|stamp| watch.answers(stamp)) && !watch.is_retired(),
        };
        is_it.then_some(watch)
    }

    /// Whether a state that is coming or current has the stamp of this notification.
    fn answers(&self, stamp: Stamp) -> bool {
        let mut bytes = [0; AHEAD_BYTES];
        self.read(&mut bytes).is_ok()
            && bytes[LAST_WORD..] == stamp.bytes()
            && self.header_of(&mut bytes).is_ok_and(|header| header.total <= LAST_WORD as u64)
    }

    /// Its owner has taken its last name away before the lease was taken.
    fn is_retired(&self) -> bool {
        let facts = self.file.here_for(&self.path).and_then(|f| file::facts(f, &self.path));
        facts.map_or(true, |facts| facts.links == 0)
    }

    pub(crate) fn stage(&self) -> Stage {
        // Then it does not change any more, and is not read again.
        if self.current.load(Ordering::Acquire) {
            return Stage::Current;
        }
        let stage = stage_of(self.word());
        self.current.fetch_or(stage == Stage::Current, Ordering::Release);
        stage
    }

    /// The first word. Whether it was the manifest's is asked when it says that the state is
    /// current. The file has no name to be opened by again, so what was read before was the
    /// manifest's as well.
    fn word(&self) -> Option<[u8; MAGIC.len()]> {
        let mut word = [0; MAGIC.len()];
        let read = file::read_exact(self.file.unchecked()?, &mut word, 0);
        // What is read after the word was stored after it, or before.
        fence(Ordering::Acquire);
        let is_ours = word != MAGIC || self.file.is_here();
        (read == Ok(true) && is_ours).then_some(word)
    }

    /// Reads the begin of the manifest. [`Watch::leased`] asks afterwards whether it was that.
    fn read(&self, bytes: &mut [u8]) -> Result<()> {
        let lost = || Fault::io("use", &self.path, Errno::BADF);
        match file::read_exact(self.file.unchecked().ok_or_else(lost)?, bytes, 0) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::corrupt(&self.path, "shorter than it was made")),
            Err(e) => Err(Fault::io("read", &self.path, e)),
        }
    }

    /// The manifest of a state that is coming or current, and the lease, which was taken when the
    /// watch began.
    pub(crate) fn leased(&self, folder: &Folder) -> Result<(Manifest, Lease)> {
        let manifest = self.manifest();
        // So it was not closed when it was read: it has no name to be opened again by.
        let file = self.file.here_for(&self.path)?;
        let manifest = manifest?;
        let found = folder.join(&manifest_name(manifest.epoch));
        let (id, epoch) = (manifest.id, manifest.epoch);
        let lease = Lease::from_locked(file, self.file.identity(), found, id, epoch)?;
        Ok((manifest, lease))
    }

    /// The manifest, if what is read is one.
    pub(crate) fn manifest(&self) -> Result<Manifest> {
        let mut bytes = [0; AHEAD_BYTES];
        self.read(&mut bytes)?;
        let total = self.header_of(&mut bytes)?.total as usize;
        let manifest = match bytes.get(..total) {
            Some(whole) => Manifest::decode(whole, &self.path)?,
            None => read_manifest_from(self.file.here_for(&self.path)?, &self.path)?,
        };
        if manifest.kind != Kind::Shared {
            return Err(Fault::corrupt(&self.path, "not a shared state"));
        }
        Ok(manifest)
    }

    /// Of the first page, which says afterwards that the manifest is complete.
    fn header_of(&self, bytes: &mut [u8; AHEAD_BYTES]) -> Result<Header> {
        if bytes.starts_with(&COMING) {
            bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        }
        Header::decode(bytes.as_slice(), &self.path)
    }
}

/// What the first word of a manifest says.
fn stage_of(word: Option<[u8; MAGIC.len()]>) -> Stage {
    match word {
        Some(MAGIC) => Stage::Current,
        Some(COMING) => Stage::Coming,
        _ => Stage::Empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::manifest::FILLING;
    use crate::sys::file::write_at;

    #[test]
    fn what_was_there_already_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_path(dir.path()).unwrap();
        assert!(Watch::begin(&folder, None).is_none(), "nothing there");
        let file = folder.create_new(SHARING).unwrap();
        file.set_len(AHEAD_BYTES as u64).unwrap();
        let say = |word: [u8; 8]| write_at(&file, &word, 0, dir.path()).unwrap();
        let watch = Watch::begin(&folder, None).unwrap();
        for (word, stage) in [
            (COMING, Stage::Coming),
            (FILLING, Stage::Empty),
            (*b"SWINGMX\0", Stage::Empty),
            ([0; 8], Stage::Empty),
            (MAGIC, Stage::Current),
            // What is current does not change any more.
            ([0; 8], Stage::Current),
        ] {
            say(word);
            assert_eq!(watch.stage(), stage);
            for stamp in [None, Some(Stamp::of(1))] {
                assert_eq!(Watch::begin(&folder, stamp).is_some(), word == [0; 8]);
            }
            assert!(watch.manifest().is_err(), "no manifest");
        }
        drop(watch);
        // Its owner is just looking whether anybody has it.
        assert!(file::try_lock(&file, true, dir.path()).unwrap());
        assert!(Watch::begin(&folder, None).is_none());
    }
}
