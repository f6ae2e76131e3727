//! Watching a manifest that an owner has made ahead: the hooker's side of [`crate::prepared`].
//!
//! Whoever has asked for a state opens that manifest while the owner is at work, and takes its
//! lease. If it is empty then, the state in it is not older than the question: the owner fills it
//! while no store gets into memory that is protected, and protects the rest afterwards. What has
//! been filled before may be the answer to somebody else's question.
//!
//! What is in the file is as hostile as any manifest.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::error::{Fault, Result};
use crate::inventory::read_manifest_from;
use crate::lease::Lease;
use crate::manifest::{AHEAD_BYTES, COMING, Header, Kind, MAGIC, Manifest};
use crate::publish::SHARING;
use crate::sys::file::{self, Folder};

/// A leased manifest that was empty when the owner had been asked already.
#[derive(Debug)]
pub(crate) struct Watch {
    file: Arc<File>,
    path: PathBuf,
}

/// What a manifest says of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing; also if it has said something before.
    Empty,
    /// It is known what lies where, but may still be stored to.
    Coming,
    /// It is current, and does not change any more.
    Current,
}

impl Watch {
    /// `None`: there is no manifest made ahead, or it is not empty.
    pub(crate) fn begin(folder: &Folder) -> Option<Self> {
        let path = folder.join(SHARING);
        let file = Arc::new(folder.open_read(SHARING).ok()?);
        // An owner whose state comes to be in it has not retired it.
        let locked = file::try_lock(&file, false, &path).unwrap_or(false);
        let watch = Self { file, path };
        (locked && watch.stage() == Stage::Empty).then_some(watch)
    }

    pub(crate) fn stage(&self) -> Stage {
        let mut word = [0; MAGIC.len()];
        let read = self.file.read_exact_at(&mut word, 0);
        // What is read after the word was stored after it, or before.
        fence(Ordering::Acquire);
        match (read, word) {
            (Ok(()), MAGIC) => Stage::Current,
            (Ok(()), COMING) => Stage::Coming,
            _ => Stage::Empty,
        }
    }

    /// The manifest of a state that is coming or current.
    pub(crate) fn manifest(&self) -> Result<Manifest> {
        let mut bytes = [0; AHEAD_BYTES];
        let read = self.file.read_exact_at(&mut bytes, 0);
        read.map_err(|e| Fault::io("read", &self.path, e))?;
        if bytes.starts_with(&COMING) {
            bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        }
        let total = Header::decode(&bytes, &self.path)?.total as usize;
        let manifest = match bytes.get(..total) {
            Some(whole) => Manifest::decode(whole, &self.path)?,
            None => read_manifest_from(&self.file, &self.path)?,
        };
        if manifest.kind != Kind::Shared {
            return Err(Fault::corrupt(&self.path, "not a shared state"));
        }
        Ok(manifest)
    }

    /// The lease, taken when the watch began.
    pub(crate) fn lease(&self, manifest: &Manifest) -> Lease {
        Lease::from_locked(self.file.clone(), manifest.id, manifest.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::write_at;

    #[test]
    fn what_was_there_already_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_path(dir.path()).unwrap();
        assert!(Watch::begin(&folder).is_none(), "nothing there");
        let file = folder.create_new(SHARING).unwrap();
        file.set_len(AHEAD_BYTES as u64).unwrap();
        let say = |word: [u8; 8]| write_at(&file, &word, 0, dir.path()).unwrap();
        let watch = Watch::begin(&folder).unwrap();
        for (word, stage) in [
            (COMING, Stage::Coming),
            (MAGIC, Stage::Current),
            (*b"SWINGMX\0", Stage::Empty),
            ([0; 8], Stage::Empty),
        ] {
            say(word);
            assert_eq!(watch.stage(), stage);
            assert_eq!(Watch::begin(&folder).is_some(), stage == Stage::Empty);
            assert!(watch.manifest().is_err(), "no manifest");
        }
        drop(watch);
        // Its owner is just looking whether anybody has it.
        assert!(file::try_lock(&file, true, dir.path()).unwrap());
        assert!(Watch::begin(&folder).is_none());
    }
}
