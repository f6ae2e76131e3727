//! What a persistent heap keeps beside its blocks: the object table and the root, in a log.
//!
//! The log is that of `swing-tier`: its commits are atomic, checksummed and survive torn writes.
//! The directory holds the log's files, one file of blocks, `objects-<random>`, and `spare`: room
//! that a commit gets when the disk is full. So a heap on a full disk can be opened, and what was
//! freed can be flushed.
//!
//! | record | contents |
//! |---|---|
//! | group | 1024 entries of the object table, 16 bytes each: as an evicted or a free entry |
//! | page | the numbers of 1024 groups' records, 8 bytes each; all ones: there is none |
//! | root payload | 64 bytes, then the numbers of the pages' records |
//!
//! | bytes of the root payload | |
//! |---|---|
//! | 0-7 | `SwObHeap` |
//! | 8-11, 12-15 | version 1; the first generation of the next opening |
//! | 16-23, 24-31 | seed of the checksums; the root object's handle, or 0 |
//! | 32-35, 36-39 | ids in use; blocks of the file |
//! | 40-47, 48-55 | the random number in the file's name; pages |
//! | 56-63 | zeros |
//!
//! All numbers are little-endian. Nothing is believed before it is checked.
//!
//! **Cycle.** Only by names: `commit`, `replace` and `set_root` are methods of the heap, too.

use std::path::Path;
use std::sync::Arc;

use swing_tier::storage::{Access, FileRef, QueueOptions, Storage};
use swing_tier::{
    BufferClass, CommitError, Damage, Lease, Log, LogOptions, OpenError, RecordId, Spare,
    random_u64,
};

use crate::core::{Core, Generations};
use crate::disk::{BLOCK_BYTES, Disk, MAX_BLOCKS};
use crate::entry::{
    DiskPlace, EVICTED, FREE, GROUP_ENTRIES, Handle, MAX_GENERATION, STATE, Table, generation,
};
use crate::error::HeapError;
use crate::memory::Memory;

const MAGIC: &[u8; 8] = b"SwObHeap";
const VERSION: u32 = 1;
const ROOT_HEADER: usize = 64;
/// Bytes of a group's record.
pub(crate) const GROUP_BYTES: usize = GROUP_ENTRIES * 16;
/// Groups of a page.
const PAGE_GROUPS: usize = 1024;
const MAX_PAGES: usize = 900;
/// The most ids of a persistent heap: the log bears about a million records.
pub(crate) const MAX_IDS: u32 = (MAX_PAGES * PAGE_GROUPS * GROUP_ENTRIES) as u32;
/// Groups that recovery reads at a time.
const GROUPS_TOGETHER: usize = 32;
/// Memory of the log: a queue for the thread that flushes, and a batch.
pub(crate) const STORE_BYTES: u64 = 2 << 20;
const FILE_PREFIX: &str = "objects-";
/// Room for a journal and a manifest, and for the table's records of some hundred changed groups.
const SPARE_BYTES: u64 = 6 << 20;

/// How far recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Entries of the object table that have been read.
    pub done: u64,
    /// How many there are.
    pub all: u64,
}

/// The log, and where the newest commit has what.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) log: Arc<Log>,
    groups: Vec<Option<RecordId>>,
    pages: Vec<Option<RecordId>>,
    seed: u64,
    name: u64,
    /// Room for commits. Any flush may take it: what it adds replaces what the one before had.
    spare: Spare,
    /// Why there can be no more commits.
    pub(crate) broken: Option<HeapError>,
}

/// What the root payload of a commit says beside the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) first_generation: u32,
    pub(crate) root: Option<Handle>,
    pub(crate) ids: u32,
    pub(crate) blocks: u32,
}

/// The root payload of a commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    facts: Facts,
    seed: u64,
    /// The random number in the name of the file of blocks.
    name: u64,
    pages: Vec<Option<RecordId>>,
}

impl Payload {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let facts = &self.facts;
        let words = [
            u64::from_le_bytes(*MAGIC),
            pair(VERSION, facts.first_generation),
            self.seed,
            facts.root.map_or(0, Handle::to_bits),
            pair(facts.ids, facts.blocks),
            self.name,
            self.pages.len() as u64,
            0,
        ];
        let pages = self.pages.iter().map(|page| page.map_or(u64::MAX, |id| id.0));
        words.into_iter().chain(pages).flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn decode(root: &[u8], path: &Path) -> Result<Self, HeapError> {
        if root.len() < ROOT_HEADER || root[..8] != *MAGIC {
            return Err(HeapError::NotAHeap { path: path.to_owned() });
        }
        let version = word(root, 8) as u32;
        if version != VERSION {
            let path = path.to_owned();
            return Err(OpenError::Version { path, found: version, known: VERSION }.into());
        }
        let facts = Facts {
            first_generation: (word(root, 8) >> 32) as u32,
            root: Some(word(root, 24)).filter(|&bits| bits != 0).map(Handle::from_bits),
            ids: word(root, 32) as u32,
            blocks: (word(root, 32) >> 32) as u32,
        };
        let pages = word(root, 48);
        let fits = pages <= MAX_PAGES as u64
            && root.len() == ROOT_HEADER + 8 * pages as usize
            && facts.ids <= MAX_IDS
            && facts.blocks as usize <= MAX_BLOCKS
            && (1..=MAX_GENERATION).contains(&facts.first_generation);
        if !fits {
            return Err(damage(path, "the root of the object heap contradicts itself"));
        }
        let pages = (0..pages as usize).map(|i| record(word(root, ROOT_HEADER + 8 * i))).collect();
        Ok(Payload { facts, seed: word(root, 16), name: word(root, 40), pages })
    }
}

fn log_options() -> LogOptions {
    let small = BufferClass { len: 16 << 10, count: 8 };
    let large = BufferClass { len: 512 << 10, count: 2 };
    LogOptions {
        file_bytes: 32 << 20,
        reserve_bytes: 1 << 20,
        journal_bytes: 2 << 20,
        background: false,
        queue: QueueOptions { depth: 8, buffers: vec![small, large] },
        ..LogOptions::default()
    }
}

fn file_name(number: u64) -> String {
    format!("{FILE_PREFIX}{number:016x}")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn damage(path: &Path, detail: &str) -> HeapError {
    let detail = detail.to_owned();
    OpenError::Damaged(Damage { path: path.to_owned(), offset: 0, len: 0, detail }).into()
}

/// A store that was opened, with its blocks.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) disk: Disk,
    /// What the newest commit says; `None` before the first one.
    pub(crate) facts: Option<Facts>,
}

impl Store {
    /// Opens the store of a directory, or makes one.
    pub(crate) fn open(storage: &Arc<dyn Storage>, disk_limit: u64) -> Result<Opened, HeapError> {
        let log = match Log::open(storage.clone(), log_options()) {
            Err(OpenError::NotALog { .. }) => Log::create(storage.clone(), log_options()),
            other => other,
        }?;
        let root = log.lease().root().to_vec();
        if root.is_empty() {
            return Self::begin(log, storage, disk_limit);
        }
        let path = storage.path();
        let Payload { facts, seed, name, pages } = Payload::decode(&root, path)?;
        let log = Arc::new(log);
        let mut store = Store {
            log,
            groups: Vec::new(),
            pages,
            seed,
            name,
            spare: Spare::default(),
            broken: None,
        };
        store.read_pages(facts.ids, path)?;
        let file = store.open_file(&**storage, facts.blocks)?;
        let disk = Disk::on(file, seed, disk_limit, &Memory::Process);
        Ok(Opened { store, disk, facts: Some(facts) })
    }

    /// A store without a commit: what an opening left that ended before its first one goes.
    fn begin(log: Log, storage: &Arc<dyn Storage>, limit: u64) -> Result<Opened, HeapError> {
        let (seed, name) = (random_u64(), random_u64());
        remove_others(&**storage, name)?;
        let file = storage.create(&file_name(name))?;
        storage.sync_directory()?;
        let log = Arc::new(log);
        let store = Store {
            log,
            groups: Vec::new(),
            pages: Vec::new(),
            seed,
            name,
            spare: Spare::default(),
            broken: None,
        };
        Ok(Opened { store, disk: Disk::on(file, seed, limit, &Memory::Process), facts: None })
    }

    fn read_pages(&mut self, ids: u32, path: &Path) -> Result<(), HeapError> {
        let groups = (ids as usize).div_ceil(GROUP_ENTRIES);
        if groups.div_ceil(PAGE_GROUPS) > self.pages.len() {
            return Err(damage(path, "the object heap lacks pages"));
        }
        let lease = self.log.lease();
        for page in self.pages.iter().flatten() {
            let bytes = lease.read(*page)?;
            if bytes.len() != 8 * PAGE_GROUPS {
                return Err(damage(path, "a page of the object heap has a wrong length"));
            }
            self.groups.extend((0..PAGE_GROUPS).map(|i| record(word(&bytes, 8 * i))));
        }
        if self.groups.len() < groups {
            return Err(damage(path, "the object heap lacks groups"));
        }
        self.groups.truncate(groups);
        Ok(())
    }

    /// Opens the file of blocks. Writes that a killed process left on their way are over when it
    /// is open: reserving room waits for them, so they cannot hit blocks that are used again.
    fn open_file(&self, storage: &dyn Storage, blocks: u32) -> Result<FileRef, HeapError> {
        let name = file_name(self.name);
        let path = storage.path().join(&name);
        let Some(file) = storage.open(&name, Access::Write)? else {
            return Err(OpenError::Missing { path }.into());
        };
        let needed = u64::from(blocks) * BLOCK_BYTES as u64;
        if file.len()? < needed {
            let text = format!("the file has {} bytes, the objects need {needed}", file.len()?);
            return Err(damage(&path, &text));
        }
        remove_others(storage, self.name)?;
        file.preallocate(0, needed.max(BLOCK_BYTES as u64))?;
        Ok(file)
    }

    /// Reads the object table of the newest commit.
    pub(crate) fn recover(
        &self,
        facts: &Facts,
        core: &mut Core,
        table: &Table,
        progress: &mut dyn FnMut(Recovery),
    ) -> Result<(), HeapError> {
        core.disk.recover_blocks(facts.blocks as usize);
        core.generations = Generations::from(facts.first_generation);
        core.root = facts.root;
        let lease = self.log.lease();
        let all = u64::from(facts.ids);
        progress(Recovery { done: 0, all });
        for (index, part) in self.groups.chunks(GROUPS_TOGETHER).enumerate() {
            let first = index * GROUPS_TOGETHER;
            self.recover_groups(&lease, (first, part), facts, core, table)?;
            let done = ((first + part.len()) * GROUP_ENTRIES) as u64;
            progress(Recovery { done: done.min(all), all });
        }
        core.disk.recovered();
        Ok(())
    }

    fn recover_groups(
        &self,
        lease: &Lease,
        (first, part): (usize, &[Option<RecordId>]),
        facts: &Facts,
        core: &mut Core,
        table: &Table,
    ) -> Result<(), HeapError> {
        let path = self.log.storage().path();
        let records: Vec<_> = part.iter().flatten().copied().collect();
        let mut read = lease.read_many(&records)?.into_iter();
        for (index, group) in part.iter().enumerate() {
            let bytes = match group {
                Some(_) => read.next().unwrap_or_default(),
                None => vec![0; GROUP_BYTES],
            };
            if bytes.len() != GROUP_BYTES {
                return Err(damage(path, "a group of the object heap has a wrong length"));
            }
            let start = ((first + index) * GROUP_ENTRIES) as u32;
            for id in start..facts.ids.min(start + GROUP_ENTRIES as u32) {
                let at = (id - start) as usize * 16;
                let words = (word(&bytes, at), word(&bytes, at + 8));
                if !core.recover_entry(table, id, words) {
                    return Err(damage(path, "an entry of the object heap is none"));
                }
            }
        }
        Ok(())
    }

    /// Keeps room for the log on a disk that may become full. A failure is made good later.
    pub(crate) fn keep_spare(&mut self) {
        self.spare.keep(&**self.log.storage(), SPARE_BYTES);
    }

    /// Gives the log's spare room to a commit that has found none. False: there is none.
    pub(crate) fn give_spare(&mut self) -> bool {
        self.spare.give(&**self.log.storage())
    }

    /// How many groups the newest commit has.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Commits groups' records that are in the batch, with the pages that name them.
    pub(crate) fn commit(
        &mut self,
        mut batch: swing_tier::Batch<'_>,
        written: &[(u32, RecordId)],
        facts: &Facts,
    ) -> Result<(), CommitError> {
        let mut groups = self.groups.clone();
        let count = (facts.ids as usize).div_ceil(GROUP_ENTRIES);
        groups.resize(count.max(groups.len()), None);
        let mut pages = self.pages.clone();
        pages.resize(groups.len().div_ceil(PAGE_GROUPS), None);
        let mut changed = std::collections::BTreeSet::new();
        for &(group, id) in written {
            if let Some(old) = groups[group as usize].replace(id) {
                batch.free(old)?;
            }
            changed.insert(group as usize / PAGE_GROUPS);
        }
        changed.extend((0..pages.len()).filter(|&page| pages[page].is_none()));
        for page in changed {
            let mut bytes = vec![0xff; 8 * PAGE_GROUPS];
            let these = groups.iter().skip(page * PAGE_GROUPS).take(PAGE_GROUPS);
            for (index, id) in these.enumerate() {
                let bits = id.map_or(u64::MAX, |id| id.0);
                bytes[8 * index..8 * index + 8].copy_from_slice(&bits.to_le_bytes());
            }
            if let Some(old) = pages[page].replace(batch.put(&bytes)?) {
                batch.free(old)?;
            }
        }
        let payload = Payload { facts: *facts, seed: self.seed, name: self.name, pages };
        batch.set_root(&payload.encode())?;
        batch.commit()?;
        (self.groups, self.pages) = (groups, payload.pages);
        Ok(())
    }
}

fn record(bits: u64) -> Option<RecordId> {
    (bits != u64::MAX).then_some(RecordId(bits))
}

/// Removes files of blocks that no commit names.
fn remove_others(storage: &dyn Storage, name: u64) -> Result<(), HeapError> {
    let ours = file_name(name);
    for other in storage.list()? {
        let is_one = other.len() == ours.len() && other.starts_with(FILE_PREFIX);
        if is_one && other != ours {
            storage.remove(&other)?;
        }
    }
    Ok(())
}

impl Core {
    /// Takes in an entry of a commit; false if it is none.
    pub(crate) fn recover_entry(
        &mut self,
        table: &Table,
        id: u32,
        (state, place): (u64, u64),
    ) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        self.add_entry(table, id);
        let Some(entry) = table.get(id) else { return false };
        entry.state.store(state, Relaxed);
        entry.place.store(place, Relaxed);
        match state & STATE {
            FREE => {
                self.link_free_id(table, id);
                true
            }
            EVICTED => {
                let place = DiskPlace::decode(place);
                self.totals.objects += 1;
                self.totals.object_bytes += place.len as u64;
                generation(state) > 0 && self.disk.recover_object(place)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn payload() -> Payload {
        let root = Some(Handle::from_bits(5 << 32));
        let facts = Facts { first_generation: 9, root, ids: 2000, blocks: 3 };
        Payload { facts, seed: 7, name: u64::MAX - 1, pages: vec![Some(RecordId(4)), None] }
    }

    #[test]
    fn a_root_payload_reads_as_written_and_others_are_refused() {
        let path = Path::new("test");
        let bytes = payload().encode();
        assert_eq!(Payload::decode(&bytes, path), Ok(payload()));
        assert!((0..bytes.len()).all(|len| Payload::decode(&bytes[..len], path).is_err()));
        for at in [0, 7, 8, 15, 35, 39, 48, 55] {
            let mut other = bytes.clone();
            other[at] ^= 0x80;
            assert!(Payload::decode(&other, path).is_err(), "{at}");
        }
    }
}
