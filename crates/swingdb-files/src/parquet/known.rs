//! What is known of a Parquet file that a query reads in place.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parquet::file::metadata::ParquetMetaData;
use swingdb_common::error::{Error, Result};

use crate::input::InputFile;
use crate::parquet::bounds::without_upper_bounds;
use crate::parquet::scan::ParquetScan;

/// A file's footer, and which file it is that of.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) input: InputFile,
    pub(super) identity: Identity,
    pub(super) metadata: Arc<ParquetMetaData>,
}

/// Tells files apart, and versions of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    pub(super) bytes: u64,
    modified: (i64, i64),
}

impl Identity {
    /// That of an input as it is now.
    pub(super) fn now(input: &InputFile) -> Result<Self> {
        let found = match input.is_copy() {
            // Its path is the name of something else.
            true => input
                .file_with(&[])
                .and_then(|file| file.metadata().map_err(|error| Error::io(&input.path, error))),
            false => std::fs::metadata(&input.path).map_err(|error| Error::io(&input.path, error)),
        };
        Ok(Self::of(input, &found?))
    }

    /// That of the file which an input was found to be.
    pub(super) fn of(input: &InputFile, metadata: &Metadata) -> Self {
        // What fills holes of a copy does not make it another one.
        let modified = match input.is_copy() {
            true => (0, 0),
            false => (metadata.mtime(), metadata.mtime_nsec()),
        };
        let (device, inode) = (metadata.dev(), metadata.ino());
        Self { device, inode, bytes: metadata.len(), modified }
    }
}

impl Known {
    pub(super) fn load(input: &InputFile) -> Result<(Self, SchemaRef)> {
        let before = Identity::now(input)?;
        let mut input = input.clone();
        input.bytes = before.bytes;
        let loaded = ParquetScan::load(&input)?;
        let identity = Identity::now(&input)?;
        if identity != before {
            return Err(changed(&input.path));
        }
        let metadata =
            Arc::new(ParquetScan::of_file(&input, || without_upper_bounds(loaded.metadata()))?);
        Ok((Self { input, identity, metadata }, Arc::clone(loaded.schema())))
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.input.path
    }
}

pub(super) fn changed(path: &Path) -> Error {
    let message = "was changed while it was read".to_string();
    Error::Import { path: path.to_path_buf(), line: None, message }
}
