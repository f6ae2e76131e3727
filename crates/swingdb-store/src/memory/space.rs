//! The memory of one open store: which blocks are in use, pinned, or to be freed.
//!
//! A block is *live* while the last committed catalog reaches it. It is *in limbo* when it is
//! allocated but not live: just made by the running transaction, or dropped by a commit but still
//! pinned by a reader of an older state. [`Blocks`] are what pins: readers hold them by `Arc`, and
//! when the last one goes and the blocks are not live, they go on the queue that the next writer
//! frees ([`Ground::drain`]). INV-DB-3: every allocated block of the heap is reached by the catalog
//! root of a publish or listed in its limbo, so that whoever continues from it (an adopter, a
//! derived area) can free what this process could not.
//!
//! **Cycle.** Blocks know how their bytes come from a store on a disk (`fetch`), and the memory
//! that they are in (`raw`), which lends bytes of blocks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use swing::{Area, AreaOffset, ByteLen, Mapping, Presence, Snapshot};
use swing_malloc::{FreeError, Heap};
use swingdb_common::error::{Error, Result};

use crate::errors::area::{alloc_error, corrupt, write_error};
use crate::memory::block_ref::BlockRef;
use crate::memory::fetch::Cold;
use crate::memory::raw::{self, Fresh, Loc, Memory, Reserved};

/// Blocks that belong together (one column chunk, one catalog record): pinned while any `Arc` of
/// this is held.
#[derive(Debug)]
pub(crate) struct Blocks {
    space: Arc<Space>,
    /// All of them, also those inside foreign ranges.
    listed: Box<[Loc]>,
    /// Those that are freed with this.
    own: Box<[Loc]>,
    /// Parts of other areas mapped into this one that the data lies in.
    foreign: Box<[Arc<Foreign>]>,
    state: AtomicU8,
    /// The records in the store on a disk, one a block.
    stored: Mutex<Option<Arc<[BlockRef]>>>,
    /// Of blocks that were opened from there: whether their bytes are in memory.
    cold: Option<Cold>,
}

/// Made by a transaction that has not committed.
const FRESH: u8 = 0;
/// Reached by the last committed catalog.
const LIVE: u8 = 1;
/// Not reached any more.
const DEAD: u8 = 2;

impl Blocks {
    /// Blocks that are not live yet: freed when dropped unless [`Blocks::promote`] comes first.
    pub fn fresh(space: &Arc<Space>, own: Vec<Loc>) -> Arc<Self> {
        Self::of_places(space, own, None)
    }

    /// As [`Blocks::fresh`]; the bytes come from a store when they are needed.
    pub fn in_store(space: &Arc<Space>, own: Vec<Loc>, cold: Cold) -> Arc<Self> {
        Self::of_places(space, own, Some(cold))
    }

    fn of_places(space: &Arc<Space>, own: Vec<Loc>, cold: Option<Cold>) -> Arc<Self> {
        space.add_limbo(&own);
        Self::with(space, own.clone(), own, Vec::new(), FRESH, cold)
    }

    /// As [`Blocks::fresh`], with further blocks `mapped` inside foreign ranges.
    pub fn fresh_with_foreign(
        space: &Arc<Space>,
        own: Vec<Loc>,
        mapped: Vec<Loc>,
    ) -> Result<Arc<Self>> {
        let mut foreign: Vec<Arc<Foreign>> = Vec::new();
        for loc in &mapped {
            let range = space.foreign_at(*loc);
            let range = range.ok_or_else(|| Error::internal("a mapped block in no range"))?;
            if !foreign.iter().any(|f| f.loc == range.loc) {
                foreign.push(range);
            }
        }
        space.add_limbo(&own);
        let listed = mapped.into_iter().chain(own.iter().copied()).collect();
        Ok(Self::with(space, listed, own, foreign, FRESH, None))
    }

    /// Blocks that the committed catalog reaches; checked against the area. Parts in a foreign
    /// range are found out. Where tables share chunks, those that are known already are returned:
    /// who holds what one table has keeps it also when another one drops it.
    pub fn committed(space: &Arc<Space>, listed: Vec<Loc>) -> Result<Arc<Self>> {
        let Some(shared) = &mut *space.shared.lock() else { return Self::checked(space, listed) };
        let key = listed.first().map_or(0, |loc| loc.offset);
        let known = shared.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| *known.listed == *listed) {
            return Ok(known);
        }
        let blocks = Self::checked(space, listed)?;
        if shared.len() == shared.capacity() {
            shared.retain(|_, blocks| blocks.strong_count() > 0);
        }
        shared.insert(key, Arc::downgrade(&blocks));
        Ok(blocks)
    }

    fn checked(space: &Arc<Space>, listed: Vec<Loc>) -> Result<Arc<Self>> {
        let mut own = Vec::with_capacity(listed.len());
        let mut foreign: Vec<Arc<Foreign>> = Vec::new();
        for &loc in &listed {
            space.check(loc)?;
            match space.foreign_at(loc) {
                Some(range) if foreign.iter().any(|f| f.loc == range.loc) => {}
                Some(range) => foreign.push(range),
                None => own.push(loc),
            }
        }
        Ok(Self::with(space, listed, own, foreign, LIVE, None))
    }

    fn with(
        space: &Arc<Space>,
        listed: Vec<Loc>,
        own: Vec<Loc>,
        foreign: Vec<Arc<Foreign>>,
        state: u8,
        cold: Option<Cold>,
    ) -> Arc<Self> {
        Arc::new(Self {
            space: space.clone(),
            listed: listed.into(),
            own: own.into(),
            foreign: foreign.into(),
            state: AtomicU8::new(state),
            stored: Mutex::default(),
            cold,
        })
    }

    /// The space they are in.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Whether the bytes are in memory; elsewhere they are read with the first use.
    pub fn in_memory(&self) -> bool {
        self.cold.as_ref().is_none_or(Cold::has_arrived)
    }

    /// How the bytes get from a store into memory.
    pub fn cold(&self) -> Option<&Cold> {
        self.cold.as_ref()
    }

    /// The memory they are in.
    pub fn memory(&self) -> &Memory {
        &self.space.memory
    }

    /// Fills in the name of the database in an error about these bytes.
    pub fn named(&self, error: Error) -> Error {
        self.space.named(error)
    }

    /// All blocks, also those inside foreign ranges.
    pub fn listed(&self) -> &[Loc] {
        &self.listed
    }

    /// The blocks that are freed with this.
    pub fn own(&self) -> &[Loc] {
        &self.own
    }

    /// The foreign ranges it uses.
    pub fn foreign(&self) -> &[Arc<Foreign>] {
        &self.foreign
    }

    /// Identifies it in the area: the offset of its first block; `None` when it has none.
    pub fn key(&self) -> Option<u64> {
        self.listed.first().map(|loc| loc.offset)
    }

    /// Their records in the store on a disk, when they are there.
    pub fn stored(&self) -> Option<Arc<[BlockRef]>> {
        self.stored.lock().clone()
    }

    /// Whether they are there.
    pub fn is_stored(&self) -> bool {
        self.stored.lock().is_some()
    }

    /// Notes their records in the store.
    pub fn set_stored(&self, records: Option<Arc<[BlockRef]>>) {
        *self.stored.lock() = records;
    }

    /// Whether `loc` lies in one of the blocks.
    pub fn covers(&self, loc: Loc) -> bool {
        self.listed.iter().any(|block| block.contains(loc))
    }

    /// Whether the last committed catalog reaches them.
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    /// Fresh blocks become live: the catalog that is about to be committed reaches them.
    pub fn promote(&self) {
        self.change(FRESH, LIVE);
    }

    /// Takes [`Blocks::promote`] back.
    pub fn demote(&self) {
        self.change(LIVE, FRESH);
    }

    /// The catalog that is about to be committed does not reach these blocks any more: they are
    /// freed when the last reader lets go. Records that wait for the next publish do so no longer.
    pub fn retire(&self) {
        self.change(LIVE, DEAD);
        self.change(FRESH, DEAD);
    }

    /// Takes [`Blocks::retire`] back.
    pub fn revive(&self) {
        self.change(DEAD, LIVE);
    }

    fn change(&self, from: u8, to: u8) {
        let mut limbo = self.space.limbo.lock();
        if self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        for loc in &self.own {
            if to == LIVE {
                limbo.remove(&loc.offset);
            } else {
                limbo.insert(loc.offset, loc.len);
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if *self.state.get_mut() != LIVE {
            self.space.queue.lock().extend_from_slice(&self.own);
        }
    }
}

/// A range of extents that shows memory of another area (CLONE). Freed when no column uses it any
/// more.
#[derive(Debug)]
pub(crate) struct Foreign {
    queue: Arc<Mutex<Vec<Loc>>>,
    pub loc: Loc,
    live: AtomicBool,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if !*self.live.get_mut() {
            self.queue.lock().push(self.loc);
        }
    }
}

/// Who knows which parts of the address range have memory.
#[derive(Debug)]
enum Reach {
    Snapshot(Snapshot),
    /// Can be asked after the area was closed: whoever reads goes on.
    Area(Presence),
}

/// The memory of one open store, shared by everything that reads it.
#[derive(Debug)]
pub(crate) struct Space {
    /// For messages.
    name: Box<str>,
    memory: Memory,
    /// Who knows which parts have memory.
    reach: RwLock<Reach>,
    /// Blocks to free with the next write.
    queue: Arc<Mutex<Vec<Loc>>>,
    /// Allocated, but not reached by the committed catalog: offset -> length.
    limbo: Mutex<BTreeMap<u64, u64>>,
    /// Mapped parts of other areas, by first offset.
    foreign: RwLock<BTreeMap<u64, Arc<Foreign>>>,
    /// Blocks of the catalog by their keys, when more than one table may use them.
    shared: Mutex<Option<HashMap<u64, Weak<Blocks>>>>,
    /// Blocks are in a store on a disk, and may not be in memory.
    cold: AtomicBool,
}

impl Space {
    /// The memory of a snapshot.
    pub fn of_snapshot(snapshot: &Snapshot) -> Arc<Self> {
        let name = snapshot.name().map_or("(unnamed)", |n| n.as_str());
        Self::with(name, snapshot.mapping().clone(), Reach::Snapshot(snapshot.clone()))
    }

    /// The memory of an area open for writing.
    pub fn of_area(area: &Arc<Area>) -> Arc<Self> {
        let name = area.name().map_or("(unnamed)", |n| n.as_str());
        Self::with(name, area.mapping().clone(), Reach::Area(area.presence()))
    }

    fn with(name: &str, mapping: Arc<Mapping>, reach: Reach) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            memory: Memory::new(mapping),
            reach: RwLock::new(reach),
            queue: Arc::default(),
            limbo: Mutex::default(),
            foreign: RwLock::default(),
            shared: Mutex::default(),
            cold: AtomicBool::new(false),
        })
    }

    /// Notes whether some blocks are in a store on a disk and may not be in memory.
    pub fn set_cold(&self, cold: bool) {
        self.cold.store(cold, Ordering::Release);
    }

    /// Whether some blocks may not be in memory.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Acquire)
    }

    /// Whether tables of the catalog that is read share chunks.
    pub fn set_sharing(&self, sharing: bool) {
        *self.shared.lock() = sharing.then(HashMap::new);
    }

    /// The snapshot that this is the memory of, unless an area was derived from it.
    pub fn snapshot(&self) -> Option<Snapshot> {
        match &*self.reach.read() {
            Reach::Snapshot(snapshot) => Some(snapshot.clone()),
            Reach::Area(_) => None,
        }
    }

    /// That a block named by the catalog can be read without a fault.
    pub fn check(&self, loc: Loc) -> Result<()> {
        let end = loc.offset.checked_add(loc.len).filter(|end| *end <= self.memory.len());
        let Some(end) = end.filter(|_| loc.len > 0) else {
            return Err(corrupt(format!("{loc:?} lies outside the area")));
        };
        if !loc.offset.is_multiple_of(raw::BUFFER_ALIGN) {
            return Err(corrupt(format!("{loc:?} is not aligned")));
        }
        let range = AreaOffset(loc.offset)..AreaOffset(end);
        let mapped = match &*self.reach.read() {
            Reach::Snapshot(snapshot) => snapshot.is_mapped(&range),
            Reach::Area(presence) => presence.covers(&range),
        };
        if mapped { Ok(()) } else { Err(corrupt(format!("{loc:?} has no memory"))) }
    }

    /// From now on `area`, derived from the snapshot this is the memory of, knows what has memory.
    pub fn derived(&self, area: &Arc<Area>) {
        *self.reach.write() = Reach::Area(area.presence());
    }

    /// That a range is inside the area (it may have no memory).
    pub fn check_range(&self, loc: Loc) -> Result<()> {
        let end = loc.offset.checked_add(loc.len).filter(|end| *end <= self.memory.len());
        match end {
            Some(_) if loc.len > 0 => Ok(()),
            _ => Err(corrupt(format!("{loc:?} lies outside the area"))),
        }
    }

    /// Fills in the name of the database in an error about its bytes.
    pub fn named(&self, error: Error) -> Error {
        match error {
            Error::Corrupt { name, message } if name.is_empty() => {
                Error::Corrupt { name: self.name.to_string(), message }
            }
            other => other,
        }
    }

    /// The foreign range `loc` lies in.
    fn foreign_at(&self, loc: Loc) -> Option<Arc<Foreign>> {
        let foreign = self.foreign.read();
        let (_, range) = foreign.range(..=loc.offset).next_back()?;
        range.loc.contains(loc).then(|| range.clone())
    }

    /// Registers a range; `live` when the committed catalog lists it.
    pub fn add_foreign(&self, loc: Loc, live: bool) -> Arc<Foreign> {
        if !live {
            self.limbo.lock().insert(loc.offset, loc.len);
        }
        let live = AtomicBool::new(live);
        let range = Arc::new(Foreign { queue: self.queue.clone(), loc, live });
        self.foreign.write().insert(loc.offset, range.clone());
        range
    }

    /// Whether the catalog that is about to be committed lists a range. One that is not listed is
    /// freed with its last user, and forgotten with [`Space::forget_foreign`].
    pub fn set_foreign(&self, range: &Foreign, live: bool) {
        let mut limbo = self.limbo.lock();
        range.live.store(live, Ordering::Release);
        if live {
            limbo.remove(&range.loc.offset);
        } else {
            limbo.insert(range.loc.offset, range.loc.len);
        }
    }

    /// Forgets a range that is not listed any more.
    pub fn forget_foreign(&self, offset: u64) {
        // Taken out under the lock, dropped outside of it: the drop takes another lock.
        let range = self.foreign.write().remove(&offset);
        drop(range);
    }

    /// Puts blocks on the queue that an earlier process left in limbo.
    pub fn inherit_limbo(&self, left: impl IntoIterator<Item = Loc>) {
        let mut limbo = self.limbo.lock();
        let mut queue = self.queue.lock();
        for loc in left {
            limbo.insert(loc.offset, loc.len);
            queue.push(loc);
        }
    }

    /// Bytes of the blocks that the next write frees.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.lock().iter().map(|loc| loc.len).sum()
    }

    /// Notes blocks that were just allocated.
    fn add_limbo(&self, made: &[Loc]) {
        self.limbo.lock().extend(made.iter().map(|loc| (loc.offset, loc.len)));
    }

    /// Everything that is allocated but not live.
    pub fn limbo(&self) -> Vec<Loc> {
        self.limbo.lock().iter().map(|(&offset, &len)| Loc { offset, len }).collect()
    }

    /// Bytes of that.
    pub fn limbo_bytes(&self) -> u64 {
        self.limbo.lock().values().sum()
    }
}

/// What a writer has besides the memory: the area and its heap.
pub(crate) struct Ground {
    pub space: Arc<Space>,
    pub heap: Heap,
    /// Counts allocations and frees: whether the heap differs from what was last published.
    changes: AtomicU64,
}

impl Ground {
    pub fn new(space: Arc<Space>, heap: Heap) -> Arc<Self> {
        Arc::new(Self { space, heap, changes: AtomicU64::new(0) })
    }

    /// Grows with every allocation and free.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The area.
    pub fn area(&self) -> &Arc<Area> {
        self.heap.area()
    }

    /// A new block of `len` > 0 bytes.
    pub fn allocate(&self, len: u64) -> Result<Fresh> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        Fresh::allocate(&self.heap, &self.space.memory, len)
    }

    /// A new block of `len` > 0 bytes, to be written later.
    pub fn reserve_block(&self, len: u64) -> Result<Reserved> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        Reserved::allocate(&self.heap, len)
    }

    /// Makes a block that was reserved writable.
    pub fn open(&self, place: Reserved) -> std::result::Result<Fresh, (Reserved, Error)> {
        place.open(&self.heap, &self.space.memory)
    }

    /// Frees a block that nobody reads.
    pub fn free(&self, loc: Loc) -> Result<()> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.heap.free_exact(AreaOffset(loc.offset), ByteLen(loc.len)).map_err(
            |error| match error {
                FreeError::Write(error) => write_error(error),
                other => corrupt(format!("freeing {loc:?}: {other}")),
            },
        )?;
        self.space.limbo.lock().remove(&loc.offset);
        Ok(())
    }

    /// Whole extents without memory, to map a part of another area there.
    pub fn reserve(&self, len: u64) -> Result<Loc> {
        self.changes.fetch_add(1, Ordering::AcqRel);
        let offset = self.heap.reserve_extents(ByteLen(len)).map_err(|e| alloc_error(e, len))?;
        Ok(Loc { offset: offset.0, len })
    }

    /// Frees what is on the queue; without the memory to do so it stays there. A block that the
    /// heap does not know stays out of use: leaked, not reused.
    pub fn drain(&self) -> Result<()> {
        self.drain_some(u64::MAX)
    }

    /// As [`Ground::drain`], until more than `most` bytes are free: the others stay in limbo.
    pub fn drain_some(&self, most: u64) -> Result<()> {
        let queue = std::mem::take(&mut *self.space.queue.lock());
        let (mut freed, mut done, mut result) = (0, 0, Ok(()));
        while done < queue.len() && freed <= most && result.is_ok() {
            result = self.free(queue[done]);
            freed += queue[done].len;
            done += usize::from(matches!(result, Ok(()) | Err(Error::Corrupt { .. })));
        }
        self.space.queue.lock().extend_from_slice(&queue[done..]);
        result
    }

    /// A block with these bytes.
    pub fn store(&self, contents: &[u8]) -> Result<Arc<Blocks>> {
        let mut fresh = self.allocate(contents.len() as u64)?;
        fresh.bytes_mut()?.copy_from_slice(contents);
        Ok(Blocks::fresh(&self.space, vec![fresh.loc()]))
    }
}
