//! Manifests as files: reading and checking one.

use std::os::fd::AsFd;
use std::path::Path;

use crate::model::error::{Fault, Result};
use crate::model::manifest::{MAX_MANIFEST_BYTES, Manifest};
use crate::sys::file::{self, Folder};

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
