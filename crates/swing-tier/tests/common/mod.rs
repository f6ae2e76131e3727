//! What several tests of this crate need.

#![allow(dead_code)]

pub mod filter;
pub mod model;
pub mod mount;
pub mod recorder;
pub mod simulated;
pub mod taken;
pub mod window;

use std::path::{Path, PathBuf};

use swing_tier::{Directory, DirectoryOptions, Engine};

/// A directory on the disk that the build is on: the one with direct I/O, if any is.
pub fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A directory in memory, where there is such a file system.
pub fn in_memory() -> Option<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

/// Opens a directory with this engine.
pub fn open(path: &Path, engine: Engine) -> Directory {
    Directory::open(path, DirectoryOptions { engine, create: true }).unwrap()
}

/// Every back end that works here, each with a directory of its own, and its name.
pub fn back_ends() -> Vec<(String, tempfile::TempDir, Directory)> {
    let mut found = Vec::new();
    let mut add = |name: &str, folder: tempfile::TempDir, engine| {
        let options = DirectoryOptions { engine, create: false };
        match Directory::open(folder.path(), options) {
            Ok(directory) => {
                found.push((format!("{name}: {}", directory.choice()), folder, directory))
            }
            Err(error) => println!("skipped: {name}: {error}"),
        }
    };
    add("ring on disk", on_disk(), Engine::Ring);
    add("threads on disk", on_disk(), Engine::Threads);
    add("chosen by itself on disk", on_disk(), Engine::Auto);
    match in_memory() {
        Some(folder) => {
            add("ring in memory", in_memory().unwrap(), Engine::Ring);
            add("chosen by itself in memory", folder, Engine::Auto);
        }
        None => println!("skipped: no file system in memory here"),
    }
    found
}

/// The seed of this run: `SWING_SEED`, else a new one. Print it in every assertion.
pub fn seed() -> u64 {
    std::env::var("SWING_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..))
}

/// How many rounds a random test runs: `SWING_ROUNDS`, else `usual`.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("SWING_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(usual)
}

/// Where the fixtures lie.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}
