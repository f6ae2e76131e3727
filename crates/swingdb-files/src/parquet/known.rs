//! What is known of a Parquet file that a query reads in place.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
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
    pub(super) path: PathBuf,
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
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Known {
    pub(super) fn load(input: &InputFile) -> Result<(Self, SchemaRef)> {
        let look = || std::fs::metadata(&input.path).map_err(|e| Error::io(&input.path, e));
        let before = Identity::of(&look()?);
        let mut file = input.clone();
        file.bytes = before.bytes;
        let loaded = ParquetScan::load(&file)?;
        let identity = Identity::of(&look()?);
        if identity != before {
            return Err(changed(&input.path));
        }
        let metadata =
            Arc::new(ParquetScan::of_file(input, || without_upper_bounds(loaded.metadata()))?);
        Ok((Self { path: input.path.clone(), identity, metadata }, Arc::clone(loaded.schema())))
    }
}

pub(super) fn changed(path: &std::path::Path) -> Error {
    let message = "was changed while it was read".to_string();
    Error::Import { path: path.to_path_buf(), line: None, message }
}
