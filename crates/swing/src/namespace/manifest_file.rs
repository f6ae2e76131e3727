//! Manifests as files: reading and checking one, and filling one that is new or was made ahead.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::model::error::{Fault, Result};
use crate::model::manifest::{AHEAD_BYTES, COMING, FILLING, MAGIC, MAX_MANIFEST_BYTES, Manifest};
use crate::model::units::Epoch;
use crate::sys::descriptors;
use crate::sys::file::{self, Folder};
use crate::sys::first_page::{LAST_WORD, PAGE_BYTES, Page, WORD_BYTES};
use crate::sys::kept_file::KeptFile;
use crate::sys::notifier::Stamp;

/// Reads and checks a manifest by one of its names.
pub(crate) fn read_manifest(folder: &Folder, name: &str) -> Result<Manifest> {
    read_manifest_from(&folder.open_read(name)?, &folder.join(name))
}

/// Reads and checks an open manifest.
pub(crate) fn read_manifest_from(file: impl AsFd, path: &Path) -> Result<Manifest> {
    match file::read_all(file, MAX_MANIFEST_BYTES, path)? {
        Some(bytes) => Manifest::decode(&bytes, path),
        None => Err(Fault::corrupt(path, "longer than any manifest")),
    }
}

const _: () = assert!(AHEAD_BYTES == PAGE_BYTES && MAGIC.len() == WORD_BYTES);

/// An empty manifest with its own name and [`crate::namespace::files::SHARING`].
#[derive(Debug)]
pub(crate) struct MadeAhead {
    pub epoch: Epoch,
    pub file: KeptFile,
    pub page: Page,
}

/// The file for a manifest.
#[derive(Debug)]
pub(crate) enum ManifestFile {
    /// It is made when it is written, and open for no longer.
    New,
    /// It is kept open, for it will have no name.
    Kept(KeptFile),
    /// Made ahead, with its first page; it has the name [`crate::namespace::files::SHARING`]
    /// already.
    Ahead(KeptFile, Page),
}

impl ManifestFile {
    /// Whether it has the name [`crate::namespace::files::SHARING`].
    pub(crate) fn is_linked(&self) -> bool {
        self.page().is_some()
    }

    fn page(&self) -> Option<&Page> {
        match self {
            Self::Ahead(_, page) => Some(page),
            Self::New | Self::Kept(_) => None,
        }
    }

    /// Stores the stamp of the notification that the state answers behind the manifest, if there is
    /// room; before the manifest itself.
    pub(crate) fn sign(&self, stamp: Stamp, bytes: &[u8]) {
        if let Some(page) = self.page().filter(|_| bytes.len() <= LAST_WORD) {
            page.store_last(stamp.bytes());
        }
    }

    /// Shows those who watch what the state will be, if it can be shown: one page, which tells all
    /// that it takes to map it. In any case it is not empty any more: whoever asks from now on is
    /// not to take it for the answer.
    pub(crate) fn announce(&self, manifest: &Manifest, bytes: &[u8]) -> bool {
        let Some(page) = self.page() else { return false };
        let simple = manifest.sources.len() == 1 && bytes.len() <= AHEAD_BYTES;
        if simple {
            page.store_rest(bytes);
        }
        page.store_word(if simple { COMING } else { FILLING });
        simple
    }

    /// Makes it complete, under its name in the folder.
    pub(crate) fn complete(
        &self,
        bytes: &[u8],
        announced: bool,
        (folder, name): (&Folder, &str),
    ) -> Result<()> {
        debug_assert!(bytes.starts_with(&MAGIC) && bytes.len() > WORD_BYTES, "a manifest");
        let path = folder.join(name);
        let (file, page) = match self {
            Self::New => {
                let file = OwnedFd::from(folder.create_new(name)?);
                let written = file::write_all(&file, bytes, &path);
                descriptors::close(file);
                if written.is_err() {
                    let _ = folder.unlink(name);
                }
                return written;
            }
            Self::Kept(file) => return file::write_all(file.here_for(&path)?, bytes, &path),
            Self::Ahead(file, page) => (file, page),
        };
        if let Some(rest) = bytes.get(AHEAD_BYTES..).filter(|rest| !rest.is_empty()) {
            file::write_at(file.here_for(&path)?, rest, AHEAD_BYTES as u64, &path)?;
        }
        if !announced {
            page.store_rest(bytes);
        }
        page.store_word(MAGIC);
        Ok(())
    }

    /// What was announced does not come.
    pub(crate) fn withdraw(&self) {
        if let Some(page) = self.page() {
            page.store_word([0; WORD_BYTES]);
        }
    }
}
