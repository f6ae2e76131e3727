//! A storage in memory that records every write and sync, so that a test can rebuild what a power
//! cut at any moment could leave; that fails when told; and whose bytes can be damaged.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use swing_tier::storage::{
    Access, Completion, Direction, FileRef, IoResult, Locked, Queue, QueueOptions, Request,
    Storage, StorageFile,
};
use swing_tier::{Arena, Cause, IoBuffer, IoError};

const SECTOR: usize = 512;

/// Something that was done to the storage.
#[derive(Clone, Debug)]
pub enum Event {
    Create {
        name: String,
        inode: u64,
    },
    Resize {
        inode: u64,
        len: usize,
    },
    Write {
        inode: u64,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// Zeros in place of the bytes of a range, or the bytes that were there.
    Discard {
        inode: u64,
        offset: usize,
        len: usize,
    },
    Sync {
        inode: u64,
    },
    SyncDirectory,
    Rename {
        from: String,
        to: String,
        inode: u64,
    },
    Remove {
        name: String,
    },
    /// A note of the test's.
    Mark(u64),
}

/// Which of the unsynced operations a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All: the process was killed, the machine went on.
    Nothing,
    /// None.
    Everything,
    /// A random part: of each write random sectors, of the names a random part.
    Random,
}

/// When an operation fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The number of the operation, counted from now.
    pub after: u64,
    /// How many operations fail from there on.
    pub times: u64,
    /// The operating system's reason, or [`PANIC`].
    pub errno: i32,
}

/// In place of an error number: the operation panics, as a check does that fails.
pub const PANIC: i32 = -1;

#[derive(Debug, Default)]
struct Inner {
    contents: BTreeMap<u64, Vec<u8>>,
    names: BTreeMap<String, u64>,
    next_inode: u64,
    events: Vec<Event>,
    failure: Option<Failure>,
    failed: u64,
    capacity: Option<usize>,
    /// Units of files that were given back.
    holes: BTreeSet<(u64, usize)>,
    cannot_discard: bool,
    locked: bool,
    random: fastrand::Rng,
}

/// The storage. A clone is the same storage.
#[derive(Clone, Debug)]
pub struct Recorder {
    inner: Arc<Mutex<Inner>>,
    path: PathBuf,
}

#[derive(Debug)]
struct RecordedFile {
    storage: Recorder,
    inode: u64,
    path: PathBuf,
}

impl Recorder {
    pub fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let inner = Inner { random, next_inode: 1, ..Inner::default() };
        Recorder { inner: Arc::new(Mutex::new(inner)), path: PathBuf::from("/recorded") }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Lets operations fail from now on.
    pub fn fail(&self, failure: Failure) {
        let mut inner = self.lock();
        (inner.failure, inner.failed) = (Some(failure), 0);
    }

    /// No operation fails any more; returns how many did.
    pub fn heal(&self) -> u64 {
        let mut inner = self.lock();
        inner.failure = None;
        inner.failed
    }

    /// Takes the failure off for a while; [`Recorder::resume`] puts it back.
    pub fn pause(&self) -> Option<Failure> {
        self.lock().failure.take()
    }

    pub fn resume(&self, failure: Option<Failure>) {
        self.lock().failure = failure;
    }

    /// The disk has room for so many bytes.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.lock().capacity = bytes;
    }

    pub fn capacity(&self) -> Option<usize> {
        self.lock().capacity
    }

    /// How often room was given back.
    pub fn discards(&self) -> usize {
        let inner = self.lock();
        inner.events.iter().filter(|event| matches!(event, Event::Discard { .. })).count()
    }

    pub fn used(&self) -> usize {
        self.lock().used()
    }

    /// As a file system that makes no holes.
    pub fn forbid_discarding(&self) {
        self.lock().cannot_discard = true;
    }

    pub fn mark(&self, number: u64) {
        self.lock().events.push(Event::Mark(number));
    }

    /// The last mark before event `at`, and the first from there on.
    pub fn marks_around(&self, at: usize) -> (Option<u64>, Option<u64>) {
        let number = |event: &Event| match event {
            Event::Mark(number) => Some(*number),
            _ => None,
        };
        let inner = self.lock();
        let (before, behind) = inner.events.split_at(at);
        (before.iter().rev().find_map(number), behind.iter().find_map(number))
    }

    pub fn event_count(&self) -> usize {
        self.lock().events.len()
    }

    /// The names of the events before `at`, for the message of a failed test.
    pub fn story(&self, at: usize) -> String {
        let short = |event: &Event| match event {
            Event::Write { inode, offset, bytes } => {
                format!("write {inode} {offset}+{}", bytes.len())
            }
            other => format!("{other:?}"),
        };
        self.lock().events[..at].iter().map(short).collect::<Vec<_>>().join("\n")
    }

    /// A storage with the same bytes, all durable.
    pub fn copy(&self) -> Self {
        let new = Recorder::new(1);
        let inner = self.lock();
        for (name, inode) in &inner.names {
            new.install(name, inner.contents[inode].clone());
        }
        new
    }

    /// Puts a file there, durable, unrecorded.
    pub fn install(&self, name: &str, bytes: Vec<u8>) {
        let mut inner = self.lock();
        let inode = inner.next_inode;
        inner.next_inode += 1;
        inner.contents.insert(inode, bytes);
        inner.names.insert(name.to_owned(), inode);
    }

    pub fn file_names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let inner = self.lock();
        inner.contents[&inner.names[name]].clone()
    }

    /// Changes the bytes of a file behind everybody's back.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.lock();
        let inode = inner.names[name];
        change(inner.contents.get_mut(&inode).unwrap());
    }

    /// What is there after a power cut before event `at`.
    pub fn after_power_cut(&self, at: usize, loss: Loss, seed: u64) -> Self {
        let mut disk = Disk::new(loss, seed);
        self.lock().events[..at].iter().for_each(|event| disk.happen(event));
        disk.crash()
    }
}

impl Inner {
    /// A file without a name takes no room: its bytes stay for whoever has it open.
    fn used(&self) -> usize {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        let sizes = named.iter().filter_map(|inode| self.contents.get(inode)).map(Vec::len);
        let holes = self.holes.iter().filter(|(inode, _)| named.contains(inode));
        sizes.sum::<usize>() + 4096 * self.names.len() - 4096 * holes.count()
    }

    /// Counts an operation; an error if it is one that fails.
    fn operation(&mut self, action: &'static str, path: &Path) -> IoResult<()> {
        if let Some(failure) = &mut self.failure {
            if failure.after > 0 {
                failure.after -= 1;
            } else if failure.times > 0 {
                failure.times -= 1;
                self.failed += 1;
                assert!(failure.errno != PANIC, "what a broken invariant does: {action}");
                return Err(IoError::new(action, path, Cause::Os(failure.errno)));
            }
        }
        Ok(())
    }

    fn room(&self, more: usize, path: &Path) -> IoResult<()> {
        match self.capacity {
            Some(capacity) if more > 0 && self.used() + more > capacity => {
                Err(IoError::new("write", path, Cause::Os(libc::ENOSPC)))
            }
            _ => Ok(()),
        }
    }
}

/// The durable state of a disk while events happen.
struct Disk {
    contents: BTreeMap<u64, Vec<u8>>,
    waiting: BTreeMap<u64, Vec<Event>>,
    names: BTreeMap<String, u64>,
    waiting_names: Vec<Event>,
    loss: Loss,
    random: fastrand::Rng,
}

impl Disk {
    fn new(loss: Loss, seed: u64) -> Self {
        Disk {
            contents: BTreeMap::new(),
            waiting: BTreeMap::new(),
            names: BTreeMap::new(),
            waiting_names: Vec::new(),
            loss,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Create { inode, .. } => {
                self.contents.insert(*inode, Vec::new());
                self.waiting_names.push(event.clone());
            }
            Event::Rename { .. } | Event::Remove { .. } => self.waiting_names.push(event.clone()),
            Event::Resize { inode, .. }
            | Event::Write { inode, .. }
            | Event::Discard { inode, .. } => {
                self.waiting.entry(*inode).or_default().push(event.clone());
            }
            Event::Sync { inode } => {
                for event in self.waiting.remove(inode).unwrap_or_default() {
                    self.write(&event, |_| true);
                }
            }
            Event::SyncDirectory => {
                for event in std::mem::take(&mut self.waiting_names) {
                    self.rename(&event);
                }
            }
            Event::Mark(_) => {}
        }
    }

    fn write(&mut self, event: &Event, mut survives: impl FnMut(usize) -> bool) {
        match event {
            Event::Resize { inode, len } if survives(0) => {
                self.contents.get_mut(inode).unwrap().resize(*len, 0);
            }
            Event::Discard { inode, offset, len } => {
                let content = self.contents.get_mut(inode).unwrap();
                // The file may have lost its length.
                let (from, to) = ((*offset).min(content.len()), (offset + len).min(content.len()));
                for (sector, part) in content[from..to].chunks_mut(SECTOR).enumerate() {
                    if survives(sector) {
                        part.fill(0);
                    }
                }
            }
            Event::Write { inode, offset, bytes } => {
                let content = self.contents.get_mut(inode).unwrap();
                for (sector, part) in bytes.chunks(SECTOR).enumerate() {
                    let at = offset + sector * SECTOR;
                    if survives(sector) {
                        if content.len() < at + part.len() {
                            content.resize(at + part.len(), 0);
                        }
                        content[at..at + part.len()].copy_from_slice(part);
                    }
                }
            }
            _ => {}
        }
    }

    fn rename(&mut self, event: &Event) {
        match event {
            Event::Create { name, inode } => {
                self.names.insert(name.clone(), *inode);
            }
            Event::Rename { from, to, inode } => {
                self.names.remove(from);
                self.names.insert(to.clone(), *inode);
            }
            Event::Remove { name } => {
                self.names.remove(name);
            }
            _ => {}
        }
    }

    fn crash(mut self) -> Recorder {
        let loss = self.loss;
        let mut random = self.random.clone();
        for event in std::mem::take(&mut self.waiting).into_values().flatten() {
            let likely = random.f64();
            self.write(&event, |_| match loss {
                Loss::Nothing => true,
                Loss::Everything => false,
                Loss::Random => random.f64() < likely,
            });
        }
        let in_order = random.bool();
        let keep = random.usize(0..=self.waiting_names.len());
        for (index, event) in std::mem::take(&mut self.waiting_names).iter().enumerate() {
            let survives = match loss {
                Loss::Nothing => true,
                Loss::Everything => false,
                Loss::Random if in_order => index < keep,
                Loss::Random => random.bool(),
            };
            if survives {
                self.rename(event);
            }
        }
        let found = Recorder::new(random.u64(..));
        for (name, inode) in &self.names {
            // A file's length is whole units on the systems that matter.
            let mut bytes = self.contents[inode].clone();
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            found.install(name, bytes);
        }
        // What survived is durable: the new recording starts with it.
        let mut inner = found.lock();
        let mut events = Vec::new();
        for (name, &inode) in &inner.names {
            let bytes = inner.contents[&inode].clone();
            events.push(Event::Create { name: name.clone(), inode });
            events.push(Event::Resize { inode, len: bytes.len() });
            events.push(Event::Write { inode, offset: 0, bytes });
            events.push(Event::Sync { inode });
        }
        events.push(Event::SyncDirectory);
        inner.events = events;
        drop(inner);
        found
    }
}

impl Storage for Recorder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn foreign_owner(&self) -> IoResult<Option<u32>> {
        Ok(None)
    }

    fn create(&self, name: &str) -> IoResult<FileRef> {
        let path = self.path.join(name);
        let mut inner = self.lock();
        inner.operation("create", &path)?;
        inner.room(4096, &path)?;
        if inner.names.contains_key(name) {
            return Err(IoError::new("create", &path, Cause::Os(libc::EEXIST)));
        }
        let inode = inner.next_inode;
        inner.next_inode += 1;
        inner.names.insert(name.to_owned(), inode);
        inner.contents.insert(inode, Vec::new());
        inner.events.push(Event::Create { name: name.to_owned(), inode });
        Ok(Arc::new(RecordedFile { storage: self.clone(), inode, path }))
    }

    fn open(&self, name: &str, _access: Access) -> IoResult<Option<FileRef>> {
        let path = self.path.join(name);
        let mut inner = self.lock();
        inner.operation("open", &path)?;
        let inode = inner.names.get(name).copied();
        drop(inner);
        Ok(inode.map(|inode| Arc::new(RecordedFile { storage: self.clone(), inode, path }) as _))
    }

    fn list(&self) -> IoResult<Vec<String>> {
        self.lock().operation("list", &self.path)?;
        Ok(self.file_names())
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        let mut inner = self.lock();
        inner.operation("rename", &self.path.join(from))?;
        let inode = inner.names.remove(from).expect("a file to rename");
        inner.names.insert(to.to_owned(), inode);
        let (from, to) = (from.to_owned(), to.to_owned());
        inner.events.push(Event::Rename { from, to, inode });
        Ok(())
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let path = self.path.join(name);
        let mut inner = self.lock();
        inner.operation("remove", &path)?;
        match inner.names.remove(name) {
            Some(_) => {
                inner.events.push(Event::Remove { name: name.to_owned() });
                Ok(())
            }
            None => Err(IoError::new("remove", &path, Cause::Os(libc::ENOENT))),
        }
    }

    fn sync_directory(&self) -> IoResult<()> {
        let mut inner = self.lock();
        inner.operation("sync", &self.path)?;
        inner.events.push(Event::SyncDirectory);
        Ok(())
    }

    fn lock(&self, _name: &str, exclusive: bool) -> IoResult<Locked> {
        let mut inner = self.lock();
        if !exclusive {
            return Ok(Locked::Held(Box::new(())));
        }
        if std::mem::replace(&mut inner.locked, true) {
            return Ok(Locked::Busy { pid: 0 });
        }
        drop(inner);
        Ok(Locked::Held(Box::new(Unlock(self.clone()))))
    }

    fn queue(&self, options: &QueueOptions) -> IoResult<Box<dyn Queue>> {
        let arena = Arena::new(&options.buffers).unwrap();
        let depth = options.depth;
        Ok(Box::new(RecordedQueue { storage: self.clone(), arena, depth, done: Vec::new() }))
    }
}

struct Unlock(Recorder);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.lock().locked = false;
    }
}

impl StorageFile for RecordedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> IoResult<u64> {
        Ok(self.storage.lock().contents.get(&self.inode).map_or(0, |c| c.len() as u64))
    }

    fn preallocate(&self, offset: u64, len: u64) -> IoResult<()> {
        let mut inner = self.storage.lock();
        inner.operation("reserve room for", &self.path)?;
        let now = inner.contents[&self.inode].len();
        let end = ((offset + len) as usize).max(now);
        inner.room(end - now, &self.path)?;
        inner.contents.get_mut(&self.inode).unwrap().resize(end, 0);
        inner.events.push(Event::Resize { inode: self.inode, len: end });
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> IoResult<bool> {
        let mut inner = self.storage.lock();
        inner.operation("give back room of", &self.path)?;
        if inner.cannot_discard {
            return Ok(false);
        }
        let (inode, offset, len) = (self.inode, offset as usize, len as usize);
        let content = inner.contents.get_mut(&inode).unwrap();
        assert!(offset + len <= content.len(), "holes lie within their file");
        content[offset..offset + len].fill(0);
        let units = offset / 4096..(offset + len) / 4096;
        inner.holes.extend(units.map(|unit| (inode, unit)));
        inner.events.push(Event::Discard { inode, offset, len });
        Ok(true)
    }

    fn truncate(&self, len: u64) -> IoResult<()> {
        let mut inner = self.storage.lock();
        inner.operation("shorten", &self.path)?;
        inner.contents.get_mut(&self.inode).unwrap().truncate(len as usize);
        inner.events.push(Event::Resize { inode: self.inode, len: len as usize });
        Ok(())
    }

    fn sync(&self) -> IoResult<()> {
        let mut inner = self.storage.lock();
        let failed = inner.operation("sync", &self.path);
        if failed.is_err() {
            // As a kernel does: what could not be written is forgotten, and the next sync succeeds
            // without it. It can still be read.
            let inode = self.inode;
            let synced = |event: &Event| matches!(event, Event::Sync { inode: i } if *i == inode);
            let from = inner.events.iter().rposition(synced).map_or(0, |at| at + 1);
            let mut at = 0;
            inner.events.retain(|event| {
                at += 1;
                let lost = matches!(event, Event::Write { inode: i, .. } if *i == inode);
                at <= from || !lost
            });
            return failed;
        }
        inner.events.push(Event::Sync { inode: self.inode });
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct RecordedQueue {
    storage: Recorder,
    arena: Arc<Arena>,
    depth: u32,
    done: Vec<Completion>,
}

impl RecordedQueue {
    fn move_bytes(&self, request: &mut Request) -> IoResult<()> {
        let file = request.file.as_any().downcast_ref::<RecordedFile>().expect("a recorded file");
        let mut inner = self.storage.lock();
        let place = (request.offset, u64::from(request.len));
        let (offset, len) = (request.offset as usize, request.len as usize);
        assert!(offset % 4096 == 0 && len % 4096 == 0 && len <= request.buffer.len());
        match request.direction {
            Direction::Read => {
                inner.operation("read", &file.path).map_err(|e| e.at(place.0, place.1))?;
                let empty = Vec::new();
                let content = inner.contents.get(&file.inode).unwrap_or(&empty);
                let Some(bytes) = content.get(offset..offset + len) else {
                    let moved = content.len().saturating_sub(offset) as u64;
                    let error = IoError::new("read", &file.path, Cause::Short { moved });
                    return Err(error.at(place.0, place.1));
                };
                request.buffer[..len].copy_from_slice(bytes);
            }
            Direction::Write => {
                let bytes = request.buffer[..len].to_vec();
                let failed =
                    inner.operation("write", &file.path).map_err(|e| e.at(place.0, place.1));
                // A write that fails may have done anything with a part of its bytes.
                let kept =
                    if failed.is_err() { inner.random.usize(0..=len / 512) * 512 } else { len };
                let content = inner.contents.get_mut(&file.inode).unwrap();
                assert!(content.len() >= offset + len, "writes go into reserved room");
                let units = offset / 4096..(offset + len) / 4096;
                assert!(
                    !units.into_iter().any(|unit| inner.holes.contains(&(file.inode, unit))),
                    "nothing is written into room that was given back"
                );
                let content = inner.contents.get_mut(&file.inode).unwrap();
                content[offset..offset + kept].copy_from_slice(&bytes[..kept]);
                let bytes = bytes[..kept].into();
                inner.events.push(Event::Write { inode: file.inode, offset, bytes });
                failed?;
            }
        }
        Ok(())
    }
}

impl Queue for RecordedQueue {
    fn depth(&self) -> u32 {
        self.depth
    }

    fn in_flight(&self) -> u32 {
        self.done.len() as u32
    }

    fn longest_buffer(&self) -> usize {
        self.arena.longest()
    }

    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer> {
        self.arena.take(len)
    }

    fn submit(&mut self, mut request: Request) {
        assert!(self.in_flight() < self.depth);
        let result = self.move_bytes(&mut request);
        let Request { tag, buffer, .. } = request;
        self.done.push(Completion { tag, buffer, result });
    }

    fn start(&mut self) {}

    fn wait(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            return None;
        }
        let next = self.storage.lock().random.usize(0..self.done.len());
        Some(self.done.swap_remove(next))
    }

    fn describe(&self) -> String {
        "recorded".to_owned()
    }
}
