//! The files of a log: which there are, where the next block goes, how many bytes are dead.
//!
//! Blocks go behind each other into the current data file, into room that was reserved before, and
//! never twice into the same place (INV-TIER-4). A file is full at its maximum length, or after a
//! failure: a file with a failed write or sync is *failed*, and nothing is appended to it any more,
//! because nobody can say what of it is on the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::error::{Cause, IoError};
use crate::log::format::Piece;
use crate::log::state::{FileFacts, FileKind};
use crate::process::random_u64;
use crate::storage::{FileRef, IoResult, Storage};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, is_poisoned};
use crate::units::{FileId, Generation, UNIT_BYTES, round_down};

/// The fewest dead bytes of a file for which a full disk is given holes.
const WORTH_DISCARDING: u64 = 64 << 10;

/// Locks a table that each holder leaves whole, or panics: then nothing is committed or removed any
/// more ([`Shared::check_whole`](crate::log::shared::Shared::check_whole)).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a file.
pub(crate) fn file_name(kind: FileKind, id: FileId) -> String {
    match kind {
        FileKind::Data => format!("data-{:010}", id.0),
        FileKind::Journal => format!("commits-{:010}", id.0),
    }
}

/// The number in a name that [`file_name`] made.
pub(crate) fn parse_name(name: &str) -> Option<(FileKind, FileId)> {
    let (kind, digits) = match name.split_once('-')? {
        ("data", digits) => (FileKind::Data, digits),
        ("commits", digits) => (FileKind::Journal, digits),
        _ => return None,
    };
    let id = FileId(digits.parse().ok()?);
    Some((kind, id)).filter(|_| file_name(kind, id) == name)
}

/// An open file of a log.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) id: FileId,
    pub(crate) facts: FileFacts,
    pub(crate) file: FileRef,
    /// Set when a write or a sync failed; see the module.
    failed: AtomicBool,
    /// Batches that have blocks here and are not committed.
    writers: AtomicU32,
    /// Whether the file's name is durable.
    named: AtomicBool,
    syncing: Mutex<()>,
    /// How often it was synced.
    syncs: AtomicU64,
    /// How many of its bytes were dead when these were given back to the file system.
    discarded: AtomicU64,
}

impl LogFile {
    pub(crate) fn new(id: FileId, facts: FileFacts, file: FileRef, named: bool) -> Arc<Self> {
        Arc::new(LogFile {
            id,
            facts,
            file,
            failed: AtomicBool::new(false),
            writers: AtomicU32::new(0),
            named: AtomicBool::new(named),
            syncing: Mutex::new(()),
            syncs: AtomicU64::new(0),
            discarded: AtomicU64::new(0),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn generation(&self) -> Generation {
        self.facts.generation
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Makes the file's writes durable. Tried once: the kernel reports a lost write once, so the
    /// next sync would succeed without them (INV-TIER-6). Everybody who needs the file then fails.
    pub(crate) fn sync(&self) -> IoResult<()> {
        let _one = lock(&self.syncing);
        if self.has_failed() {
            return Err(IoError::new("sync", self.path(), Cause::Os(libc::EIO)));
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync().inspect_err(|_| self.fail())
    }
}

/// A claim of a batch on a file: the file is not removed meanwhile.
#[derive(Debug)]
pub(crate) struct WriterClaim(pub(crate) Arc<LogFile>);

impl WriterClaim {
    fn new(file: &Arc<LogFile>) -> Self {
        file.writers.fetch_add(1, Ordering::AcqRel);
        WriterClaim(file.clone())
    }
}

impl Drop for WriterClaim {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How the room of one file is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes handed out to blocks.
    pub(crate) used: u64,
    /// Bytes that a record, or the manifest, still needs.
    pub(crate) live: u64,
}

/// A data file that nobody reads or writes at this moment, and of which much is dead.
#[derive(Debug)]
pub(crate) struct Quiet {
    pub(crate) id: FileId,
    /// Behind it blocks may come.
    pub(crate) end: u64,
    /// How many bytes are dead.
    pub(crate) dead: u64,
}

/// Sizes of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSizes {
    pub(crate) most: u64,
    pub(crate) step: u64,
    /// Blocks begin at multiples of it.
    pub(crate) align: u64,
}

/// All files of a log.
#[derive(Debug)]
pub(crate) struct Files {
    storage: Arc<dyn Storage>,
    sizes: FileSizes,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: BTreeMap<FileId, (Arc<LogFile>, Usage)>,
    next_file: u32,
    current: Option<Current>,
    /// Syncs of files that are not there any more.
    syncs_of_removed: u64,
}

/// The data file that blocks are appended to.
#[derive(Debug)]
struct Current {
    file: Arc<LogFile>,
    next: u64,
    reserved: u64,
    /// Whether the disk was full: then no room is reserved ahead any more.
    is_scarce: bool,
}

impl Files {
    pub(crate) fn new(storage: Arc<dyn Storage>, sizes: FileSizes, next_file: u32) -> Self {
        let table = Table { next_file, ..Table::default() };
        Files { storage, sizes, table: Mutex::new(table) }
    }

    /// Takes a file that recovery has opened into the table.
    pub(crate) fn adopt(&self, file: Arc<LogFile>, used: u64) {
        lock(&self.table).open.insert(file.id, (file, Usage { used, live: 0 }));
    }

    /// The directory, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Whether no thread has panicked while it changed the table.
    pub(crate) fn are_whole(&self) -> bool {
        !is_poisoned(&self.table)
    }

    pub(crate) fn next_file(&self) -> u32 {
        lock(&self.table).next_file
    }

    pub(crate) fn get(&self, id: FileId) -> Option<Arc<LogFile>> {
        lock(&self.table).open.get(&id).map(|(file, _)| file.clone())
    }

    /// Makes a new, empty file.
    pub(crate) fn create(&self, kind: FileKind) -> IoResult<Arc<LogFile>> {
        self.create_in(&mut lock(&self.table), kind)
    }

    fn create_in(&self, table: &mut Table, kind: FileKind) -> IoResult<Arc<LogFile>> {
        let id = FileId(table.next_file);
        let file = self.storage.create(&file_name(kind, id))?;
        table.next_file += 1;
        let facts = FileFacts { kind, generation: Generation(random_u64()) };
        let file = LogFile::new(id, facts, file, false);
        table.open.insert(id, (file.clone(), Usage::default()));
        Ok(file)
    }

    /// A place for a block of `len` bytes, in room that is reserved on the disk.
    pub(crate) fn allocate(&self, len: u64) -> IoResult<(WriterClaim, u64)> {
        debug_assert!(len.is_multiple_of(UNIT_BYTES) && len <= self.sizes.most);
        let mut table = lock(&self.table);
        let align = self.sizes.align;
        let fits = table.current.as_ref().is_some_and(|current| {
            let end = current.next.next_multiple_of(align) + len;
            end <= self.sizes.most && !current.file.has_failed()
        });
        if !fits {
            let file = self.create_in(&mut table, FileKind::Data)?;
            table.current = Some(Current { file, next: 0, reserved: 0, is_scarce: false });
        }
        // The line above has set it where it was not.
        let Some(current) = table.current.as_mut() else { unreachable!("a current file is set") };
        let offset = current.next.next_multiple_of(align);
        let taken = offset + len - current.next;
        current.reserve(taken, self.sizes)?;
        let file = current.file.clone();
        current.next += taken;
        let claim = WriterClaim::new(&file);
        if let Some((_, usage)) = table.open.get_mut(&file.id) {
            usage.used += taken;
        }
        Ok((claim, offset))
    }

    /// Counts bytes of the journal as handed out.
    pub(crate) fn add_used(&self, id: FileId, len: u64) {
        if let Some((_, usage)) = lock(&self.table).open.get_mut(&id) {
            usage.used += len;
        }
    }

    /// Counts pieces as needed.
    pub(crate) fn add_live<'a>(&self, pieces: impl IntoIterator<Item = &'a Piece>) {
        let mut table = lock(&self.table);
        for piece in pieces {
            if let Some((_, usage)) = table.open.get_mut(&piece.file) {
                usage.live += u64::from(piece.len);
            }
        }
    }

    /// Counts pieces as dead.
    pub(crate) fn add_dead<'a>(&self, pieces: impl IntoIterator<Item = &'a Piece>) {
        let mut table = lock(&self.table);
        for piece in pieces {
            if let Some((_, usage)) = table.open.get_mut(&piece.file) {
                assert!(usage.live >= u64::from(piece.len), "INV-TIER-7: counted dead twice");
                usage.live -= u64::from(piece.len);
            }
        }
    }

    /// Makes the names of all files durable.
    pub(crate) fn sync_names(&self) -> IoResult<()> {
        let unnamed: Vec<_> = {
            let table = lock(&self.table);
            let files = table.open.values().map(|(file, _)| file);
            files.filter(|file| !file.named.load(Ordering::Acquire)).cloned().collect()
        };
        if unnamed.is_empty() {
            return Ok(());
        }
        // As a file that failed to sync, one whose name did is not used any more.
        let synced = self.storage.sync_directory();
        synced.inspect_err(|_| unnamed.iter().for_each(|file| file.fail()))?;
        unnamed.iter().for_each(|file| file.named.store(true, Ordering::Release));
        Ok(())
    }

    /// How often files were synced since the log was opened.
    pub(crate) fn syncs(&self) -> u64 {
        let table = lock(&self.table);
        let here = table.open.values().map(|(file, _)| file.syncs.load(Ordering::Relaxed));
        table.syncs_of_removed + here.sum::<u64>()
    }

    /// Every file and how its room is used.
    pub(crate) fn usage(&self) -> Vec<(Arc<LogFile>, Usage)> {
        lock(&self.table).open.values().cloned().collect()
    }

    /// Whether a file may be removed or emptied: nobody appends to it.
    pub(crate) fn is_sealed(&self, id: FileId) -> bool {
        let table = lock(&self.table);
        let is_current = table.current.as_ref().is_some_and(|current| current.file.id == id);
        let written =
            table.open.get(&id).is_some_and(|(file, _)| file.writers.load(Ordering::Acquire) > 0);
        !is_current && !written
    }

    /// The data files that nobody else holds, in which so many bytes have died since the last time
    /// that it is worth giving them back. Whoever finds a piece takes its file under the lock of
    /// the state: while the caller has that, they stay as they are.
    pub(crate) fn quiet(&self) -> Vec<Quiet> {
        let table = lock(&self.table);
        let mut quiet = Vec::new();
        for (file, usage) in table.open.values() {
            let current = table.current.as_ref().filter(|current| current.file.id == file.id);
            let users = 1 + usize::from(current.is_some());
            let dead = usage.used.saturating_sub(usage.live);
            let known = file.discarded.load(Ordering::Relaxed);
            if file.facts.kind != FileKind::Data
                || Arc::strong_count(file) != users
                || file.has_failed()
                || dead < known + WORTH_DISCARDING
            {
                continue;
            }
            let end = match current {
                Some(current) => current.next,
                None => file.file.len().map_or(0, round_down),
            };
            quiet.push(Quiet { id: file.id, end, dead });
        }
        quiet
    }

    /// Gives back the room that is reserved ahead in the current file. Returns its bytes.
    pub(crate) fn trim(&self) -> u64 {
        let mut table = lock(&self.table);
        let Some(current) = table.current.as_mut() else { return 0 };
        let ahead = current.reserved - current.next;
        let file = &current.file;
        if ahead == 0 || file.has_failed() || file.file.truncate(current.next).is_err() {
            return 0;
        }
        current.reserved = current.next;
        current.is_scarce = true;
        ahead
    }

    /// Notes that the dead bytes of a file were given back.
    pub(crate) fn note_discarded(&self, id: FileId, dead: u64) {
        if let Some((file, _)) = lock(&self.table).open.get(&id) {
            file.discarded.store(dead, Ordering::Relaxed);
        }
    }

    /// Ends appending to the current data file, so that it can be emptied.
    pub(crate) fn seal_current(&self) {
        lock(&self.table).current = None;
    }

    /// Removes a file that no state needs. One that cannot be removed stays until the log is opened
    /// the next time.
    pub(crate) fn remove(&self, id: FileId) -> IoResult<()> {
        let found = {
            let mut table = lock(&self.table);
            let found = table.open.remove(&id);
            let syncs = found.as_ref().map(|(file, _)| file.syncs.load(Ordering::Relaxed));
            table.syncs_of_removed += syncs.unwrap_or(0);
            found
        };
        match found {
            Some((file, usage)) => {
                assert_eq!(usage.live, 0, "INV-TIER-5: a file with live bytes is removed");
                self.storage.remove(&file_name(file.facts.kind, id))
            }
            None => Ok(()),
        }
    }
}

impl Current {
    /// Sees to it that room for `len` more bytes is reserved: a step ahead, or, on a disk that is
    /// nearly full, exactly these.
    fn reserve(&mut self, len: u64, sizes: FileSizes) -> IoResult<()> {
        let end = self.next + len;
        if end <= self.reserved {
            return Ok(());
        }
        let exact = end - self.reserved;
        let step = if self.is_scarce { UNIT_BYTES } else { sizes.step };
        let ahead = exact.next_multiple_of(step).min(sizes.most - self.reserved);
        let mut outcome = self.try_reserve(ahead);
        if ahead > exact && outcome.as_ref().is_err_and(|error| error.cause.is_full()) {
            self.is_scarce = true;
            outcome = self.try_reserve(exact);
        }
        outcome
    }

    fn try_reserve(&mut self, len: u64) -> IoResult<()> {
        let reserved = self.file.file.preallocate(self.reserved, len);
        match &reserved {
            Ok(()) => self.reserved += len,
            // ext4 keeps what it has found until the disk was full. Others need it.
            Err(error) if error.cause.is_full() => _ = self.file.file.truncate(self.reserved),
            Err(_) => {}
        }
        reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_written() {
        for kind in [FileKind::Data, FileKind::Journal] {
            assert_eq!(parse_name(&file_name(kind, FileId(12))), Some((kind, FileId(12))));
        }
        for other in ["root", "data-1", "data-+000000001", "x-0000000001", "data-0000000001x"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
