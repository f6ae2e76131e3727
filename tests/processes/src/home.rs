//! A namespace of a test's own, and a look at the memory it takes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long what was dropped may be held by somebody who is about to let go.
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace directory in memory, removed with everything in it when dropped.
pub struct Home(TempDir);

impl Home {
    /// An empty one.
    pub fn new() -> Self {
        let made = tempfile::Builder::new().prefix("swingdb-test-").tempdir_in("/dev/shm");
        Self(made.expect("/dev/shm is writable"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Bytes of memory that its files take.
    pub fn bytes(&self) -> u64 {
        usage(self.path()).expect("the namespace can be listed").0
    }

    /// Collects until less than `limit` bytes are left. A query's threads let go of what they read
    /// a moment after its last row, and a process that is just being started still has its parent's
    /// descriptors.
    ///
    /// # Panics
    /// When more than that stays.
    pub fn assert_is_emptied(&self, limit: u64) {
        let begun = Instant::now();
        while self.bytes() >= limit {
            let left = || format!("{} bytes are left in {:?}", self.bytes(), self.files());
            assert!(begun.elapsed() < PATIENCE, "{}", left());
            std::thread::sleep(Duration::from_millis(10));
            swingdb::gc_in(self.path()).expect("collecting garbage");
        }
    }

    /// The files in it.
    pub fn files(&self) -> Vec<PathBuf> {
        usage(self.path()).expect("the namespace can be listed").1
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory and files below a directory; files that vanish meanwhile are left out.
fn usage(directory: &Path) -> io::Result<(u64, Vec<PathBuf>)> {
    let (mut bytes, mut files, mut seen) = (0, Vec::new(), std::collections::HashSet::new());
    let mut todo = vec![directory.to_path_buf()];
    while let Some(next) = todo.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.path().symlink_metadata() else { continue };
            if metadata.is_dir() {
                todo.push(entry.path());
                continue;
            }
            // A second name of the same file takes no second memory.
            if seen.insert(metadata.ino()) {
                bytes += metadata.blocks() * 512;
            }
            files.push(entry.path());
        }
    }
    Ok((bytes, files))
}
