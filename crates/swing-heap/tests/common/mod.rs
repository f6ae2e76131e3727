//! A directory whose disk fails when told, and whose files keep their names so that a test can
//! damage them.

#![allow(dead_code)]

pub mod in_area;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use swing_tier::storage::{
    Access, Completion, Direction, FileRef, IoResult, Locked, Queue, QueueOptions, Request,
    Storage, StorageFile,
};
use swing_tier::{Cause, Directory, DirectoryOptions, IoBuffer, IoError};

/// What fails: error numbers, zero for nothing.
#[derive(Debug, Default)]
pub struct Faults {
    pub write: AtomicI32,
    pub read: AtomicI32,
    pub reserve: AtomicI32,
    pub sync: AtomicI32,
    pub keep_names: AtomicBool,
}

#[derive(Debug)]
pub struct Faulty {
    inner: Directory,
    pub faults: Arc<Faults>,
}

#[derive(Debug)]
struct FaultyFile(FileRef, Arc<Faults>);

#[derive(Debug)]
struct FaultyQueue {
    inner: Box<dyn Queue>,
    faults: Arc<Faults>,
    failed: Vec<Completion>,
}

impl Faulty {
    pub fn open(path: &Path) -> Arc<Self> {
        let inner = Directory::open(path, DirectoryOptions::default()).unwrap();
        Arc::new(Faulty { inner, faults: Arc::default() })
    }
}

fn fault(number: &AtomicI32, action: &'static str) -> IoResult<()> {
    match number.load(Ordering::SeqCst) {
        0 => Ok(()),
        errno => Err(IoError::new(action, Path::new("faulty"), Cause::Os(errno))),
    }
}

impl Storage for Faulty {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn foreign_owner(&self) -> IoResult<Option<u32>> {
        self.inner.foreign_owner()
    }
    fn create(&self, name: &str) -> IoResult<FileRef> {
        let file = self.inner.create(name)?;
        Ok(Arc::new(FaultyFile(file, self.faults.clone())))
    }
    fn open(&self, name: &str, access: Access) -> IoResult<Option<FileRef>> {
        let file = self.inner.open(name, access)?;
        Ok(file.map(|file| Arc::new(FaultyFile(file, self.faults.clone())) as FileRef))
    }
    fn list(&self) -> IoResult<Vec<String>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> IoResult<()> {
        if self.faults.keep_names.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.inner.remove(name)
    }
    fn sync_directory(&self) -> IoResult<()> {
        self.inner.sync_directory()
    }
    fn lock(&self, name: &str, exclusive: bool) -> IoResult<Locked> {
        self.inner.lock(name, exclusive)
    }
    fn queue(&self, options: &QueueOptions) -> IoResult<Box<dyn Queue>> {
        let inner = self.inner.queue(options)?;
        Ok(Box::new(FaultyQueue { inner, faults: self.faults.clone(), failed: Vec::new() }))
    }
}

impl StorageFile for FaultyFile {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn len(&self) -> IoResult<u64> {
        self.0.len()
    }
    fn preallocate(&self, offset: u64, len: u64) -> IoResult<()> {
        fault(&self.1.reserve, "reserve room for")?;
        self.0.preallocate(offset, len)
    }
    fn truncate(&self, len: u64) -> IoResult<()> {
        self.0.truncate(len)
    }
    fn sync(&self) -> IoResult<()> {
        fault(&self.1.sync, "sync")?;
        self.0.sync()
    }
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}

impl Queue for FaultyQueue {
    fn depth(&self) -> u32 {
        self.inner.depth()
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight() + self.failed.len() as u32
    }
    fn longest_buffer(&self) -> usize {
        self.inner.longest_buffer()
    }
    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer> {
        self.inner.take_buffer(len)
    }
    fn submit(&mut self, request: Request) {
        let result = match request.direction {
            Direction::Read => fault(&self.faults.read, "read"),
            Direction::Write => fault(&self.faults.write, "write"),
        };
        match result {
            Ok(()) => self.inner.submit(request),
            Err(_) => {
                let Request { tag, buffer, .. } = request;
                self.failed.push(Completion { tag, buffer, result });
            }
        }
    }
    fn start(&mut self) {
        self.inner.start();
    }
    fn wait(&mut self) -> Option<Completion> {
        self.failed.pop().or_else(|| self.inner.wait())
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A directory on the disk that the build is on.
pub fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The seed of this run: `SWING_SEED`, else a new one.
pub fn seed() -> u64 {
    let given = std::env::var("SWING_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

/// Whether plain pointers work by mappings here, with SIGSEGV, and not by `userfaultfd`.
pub fn by_mappings() -> bool {
    std::env::var("SWING_HEAP_POINTERS").is_ok_and(|way| way == "mappings")
}

/// Runs all other tests of the caller's file with pages of mappings.
pub fn again_by_mappings(own_name: &str) {
    if by_mappings() {
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--skip", own_name])
        .env("SWING_HEAP_POINTERS", "mappings")
        .status();
    assert!(status.unwrap().success());
}
