//! What the heap's lock protects: chunks, lists, blocks, free ids; and how room is made.
//!
//! Nothing here waits. Where the keeper has to write first, or guards have to be dropped, the
//! caller is told so, waits without the lock, and asks again.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::chunk::{CHUNK_BYTES, Cell, CellList, CellRef, Chunks, NONE};
use crate::classes::{CLASSES, cell_bytes, class_of};
use crate::disk::{BLOCK_BYTES, BUFFERS, Disk, NoRoom, objects_in};
use crate::entry::{
    BUSY, Changes, DIRTY, DiskPlace, EVICTED, Entry, FREE, Handle, MAX_GENERATION, PART_BYTES,
    RESIDENT, STATE, TOUCH, TOUCHES, Table, USERS, address_and_len, checksum, evicted, generation,
    resident_place, settled, touches, with_generation,
};
use crate::error::HeapError;
use crate::memory::Memory;
use crate::policy::{Policy, PolicyKind, Touches};

impl Touches for Table {
    fn get(&self, id: u32) -> Option<u64> {
        let state = self.get(id)?.state.load(Relaxed);
        (state & STATE == RESIDENT && state & USERS == 0).then(|| touches(state))
    }

    fn set(&self, id: u32, touches: u64) {
        let Some(entry) = self.get(id) else { return };
        let change = |state: u64| {
            (state & STATE == RESIDENT).then_some(state & !TOUCHES | (touches * TOUCH))
        };
        // An entry that is busy has its touches set by whoever has it.
        let _ = entry.state.fetch_update(Relaxed, Relaxed, change);
    }
}

/// One size class.
struct Class {
    chunks: Vec<usize>,
    /// Chunks that may have free cells.
    partial: Vec<usize>,
    policy: Policy,
    /// Bytes evicted, halved now and then.
    pressure: u64,
    /// Evictions since chunks were last compared.
    since: u32,
}

/// The outcome of asking for a cell.
pub(crate) enum Take {
    Cell(CellRef),
    /// The keeper has to write or collect first.
    WaitForDisk,
    /// Everything that could leave is in use.
    WaitForUsers,
}

enum Evict {
    Done,
    InUse,
    NeedsRoom(usize),
}

/// Totals for `stats`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) objects: u64,
    pub(crate) object_bytes: u64,
    pub(crate) resident_objects: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) evicted_objects: u64,
    pub(crate) dropped_objects: u64,
    pub(crate) evicted_bytes: u64,
    pub(crate) flushed_bytes: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) written_bytes: u64,
}

/// The generations that handles of this opening of a heap may have. Those of an earlier opening,
/// also of one that was killed, are not given out again (INV-OBJ-7).
#[derive(Debug)]
pub(crate) struct Generations {
    first: u32,
    /// The newest commit reserves the generations up to this one.
    pub(crate) last: u32,
    pub(crate) highest: u32,
    /// Freed ids that wait for a commit that reserves more.
    pub(crate) parked: Vec<u32>,
    wraps: bool,
}

impl Default for Generations {
    /// All of them, again and again: an ephemeral heap.
    fn default() -> Self {
        Generations { first: 1, last: MAX_GENERATION, highest: 0, parked: Vec::new(), wraps: true }
    }
}

impl Generations {
    /// Those of a persistent heap from `first` on. A commit reserves them before they are used.
    pub(crate) fn from(first: u32) -> Self {
        let highest = first - 1;
        Generations { first, last: highest, highest, parked: Vec::new(), wraps: false }
    }

    /// The generation of a handle whose id was last used with the one before `next`.
    fn of_next(&mut self, next: u32) -> u32 {
        let generation = next.max(self.first);
        self.highest = self.highest.max(generation);
        generation
    }

    /// Zero: the id's generations are used up.
    fn after(&self, generation: u32) -> u32 {
        if generation < MAX_GENERATION { generation + 1 } else { u32::from(self.wraps) }
    }

    fn may_use(&self, generation: u32) -> bool {
        (1..=self.last).contains(&generation)
    }
}

pub(crate) struct Core {
    pub(crate) chunks: Chunks,
    classes: Vec<Class>,
    pub(crate) disk: Disk,
    pub(crate) budget: u64,
    /// Memory of the keeper.
    pub(crate) outside_bytes: u64,
    /// Chunks that the heap has in any case: a load through an address cannot fail. So whatever
    /// takes more metadata checks before that there is room ([`Core::check_metadata`]).
    pub(crate) min_chunks: usize,
    queue_bytes: u64,
    parts: u64,
    pub(crate) next_id: u32,
    free_id: u32,
    pub(crate) generations: Generations,
    pub(crate) most_objects: u32,
    pub(crate) changes: Arc<Changes>,
    /// The object that the program finds first.
    pub(crate) root: Option<Handle>,
    /// Blocks are to be emptied although a commit keeps them.
    pub(crate) compacting: bool,
    /// A chunk that is being emptied.
    draining: Option<usize>,
    pub(crate) totals: Totals,
    pub(crate) closed: bool,
    /// The last flush has begun.
    pub(crate) flushed: bool,
    /// Blocks that could not be emptied lately.
    pub(crate) skip: Vec<u32>,
}

impl Core {
    pub(crate) fn new(
        disk: Disk,
        (budget, policy): (u64, PolicyKind),
        outside_bytes: u64,
        changes: Arc<Changes>,
        memory: Memory,
    ) -> Self {
        let class = || Class {
            chunks: Vec::new(),
            partial: Vec::new(),
            policy: Policy::new(policy),
            pressure: 0,
            since: 0,
        };
        Core {
            chunks: Chunks::new(memory),
            classes: (0..CLASSES).map(|_| class()).collect(),
            disk,
            budget,
            outside_bytes,
            min_chunks: 0,
            queue_bytes: 0,
            parts: 0,
            next_id: 0,
            free_id: NONE,
            generations: Generations::default(),
            most_objects: NONE,
            changes,
            root: None,
            compacting: false,
            draining: None,
            totals: Totals::default(),
            closed: false,
            flushed: false,
            skip: Vec::new(),
        }
    }

    /// Memory that is neither a chunk nor in one.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        let buffers = (BUFFERS * BLOCK_BYTES) as u64;
        self.parts * PART_BYTES
            + buffers
            + self.disk.metadata_bytes()
            + self.outside_bytes
            + self.queue_bytes
    }

    /// Counts the memory of the threads' queues: the most that were in use at one time.
    pub(crate) fn count_queues(&mut self, bytes: u64) {
        self.queue_bytes = self.queue_bytes.max(bytes);
    }

    /// Chunks that the budget has room for.
    fn affordable_chunks(&self) -> usize {
        (self.budget.saturating_sub(self.metadata_bytes()) / CHUNK_BYTES as u64) as usize
    }

    fn allowed_chunks(&self) -> usize {
        self.affordable_chunks().max(self.min_chunks)
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        self.chunks.count > self.allowed_chunks()
    }

    /// Takes a cell for an object of `len` bytes; evicts others if need be.
    pub(crate) fn take_cell(&mut self, table: &Table, len: usize) -> Result<Take, HeapError> {
        let class = class_of(len);
        loop {
            if self.is_over_budget() && self.chunks.count > 0 {
                match self.shrink(table)? {
                    Take::Cell(_) => {
                        self.chunks.memory().give_spare_back();
                        continue;
                    }
                    wait => return Ok(wait),
                }
            }
            if let Some(cell) = self.pop_free(class) {
                return Ok(Take::Cell(cell));
            }
            if self.chunks.count < self.allowed_chunks() {
                let Some(number) = self.chunks.add(class) else {
                    return Err(HeapError::NoMemory { budget: self.budget, len });
                };
                self.classes[class].chunks.push(number);
                self.classes[class].partial.push(number);
                continue;
            }
            if self.allowed_chunks() == 0 {
                return Err(HeapError::NoMemory { budget: self.budget, len });
            }
            match self.make_space(table, class)? {
                Take::Cell(_) => {}
                wait => return Ok(wait),
            }
        }
    }

    /// Evicts an object of a class, or empties a chunk of another one. What is in use in one place
    /// does not keep the heap from looking in all others.
    fn make_space(&mut self, table: &Table, class: usize) -> Result<Take, HeapError> {
        if let Some(other) = self.source_of_chunk(class) {
            match self.steal(table, other)? {
                Take::WaitForUsers => {}
                done => return Ok(done),
            }
        }
        if self.classes[class].policy.len() > 0 {
            match self.evict_one(table, class)? {
                Take::WaitForUsers => {}
                done => return Ok(done),
            }
        }
        self.shrink(table)
    }

    fn pop_free(&mut self, class: usize) -> Option<CellRef> {
        while let Some(&number) = self.classes[class].partial.last() {
            if let Some(cell) = self.chunks.take(number) {
                return Some(cell);
            }
            self.classes[class].partial.pop();
        }
        None
    }

    /// Gives a cell back that is in no list.
    pub(crate) fn give_back(&mut self, cell: CellRef) {
        let number = (cell >> 16) as usize;
        let (class, was_full) = {
            let chunk = self.chunks.get(number);
            (chunk.class, chunk.used == chunk.cells)
        };
        self.chunks.give_back(cell);
        if was_full && self.draining != Some(number) {
            self.classes[class].partial.push(number);
        }
    }

    /// The class to take a chunk from for `class`, if that is better than evicting in `class`.
    fn source_of_chunk(&mut self, class: usize) -> Option<usize> {
        if self.draining.is_some() {
            return Some(class);
        }
        let rate = |c: &Class| c.pressure / (c.chunks.len() as u64).max(1);
        let own = &self.classes[class];
        let starved = own.chunks.is_empty();
        let turn = own.since as usize * cell_bytes(class) >= CHUNK_BYTES;
        if !starved && !turn {
            return None;
        }
        self.classes[class].since = 0;
        let own_rate = rate(&self.classes[class]);
        let others = self.classes.iter().enumerate().filter(|&(index, other)| {
            let enough = if starved { 1 } else { 2 };
            index != class
                && (other.chunks.len() >= enough || other.policy.len() == 0)
                && !other.chunks.is_empty()
        });
        let (index, other) = others
            .min_by_key(|&(_, other)| (rate(other), std::cmp::Reverse(other.chunks.len())))?;
        (starved || own_rate > 2 * rate(other)).then_some(index)
    }

    /// Empties one chunk, wherever that is cheapest, and gives it back to the system.
    fn shrink(&mut self, table: &Table) -> Result<Take, HeapError> {
        let mut classes: Vec<usize> = (0..CLASSES).collect();
        classes.retain(|&class| !self.classes[class].chunks.is_empty());
        classes.sort_by_key(|&class| {
            let class = &self.classes[class];
            let count = class.chunks.len();
            (class.pressure / count as u64, std::cmp::Reverse(count))
        });
        if self.draining.is_some() && classes.is_empty() {
            classes.push(0);
        }
        for class in classes {
            match self.steal(table, class)? {
                Take::WaitForUsers => {}
                other => return Ok(other),
            }
        }
        Ok(Take::WaitForUsers)
    }

    /// Empties a chunk of a class, or goes on with the one that is being emptied.
    fn steal(&mut self, table: &Table, class: usize) -> Result<Take, HeapError> {
        let mut tried = Vec::new();
        loop {
            let number = match self.draining {
                Some(number) => number,
                None => {
                    let chunks = self.classes[class].chunks.iter().copied();
                    let left = chunks.filter(|number| !tried.contains(number));
                    let Some(number) = left.min_by_key(|&n| self.chunks.get(n).used) else {
                        return Ok(Take::WaitForUsers);
                    };
                    self.classes[class].chunks.retain(|&n| n != number);
                    self.classes[class].partial.retain(|&n| n != number);
                    self.draining = Some(number);
                    number
                }
            };
            match self.drain(table, number) {
                Evict::Done => {
                    self.draining = None;
                    self.chunks.remove(number);
                    return Ok(Take::Cell(NONE));
                }
                Evict::NeedsRoom(len) => match self.disk.make_room(len, false) {
                    Ok(()) => {}
                    Err(NoRoom::Wait) => return Ok(Take::WaitForDisk),
                    Err(NoRoom::Failed(error)) => {
                        self.undrain(number);
                        return Err(error);
                    }
                },
                Evict::InUse => {
                    self.undrain(number);
                    tried.push(number);
                }
            }
        }
    }

    fn undrain(&mut self, number: usize) {
        let class = self.chunks.get(number).class;
        self.draining = None;
        self.classes[class].chunks.push(number);
        self.classes[class].partial.push(number);
    }

    fn drain(&mut self, table: &Table, number: usize) -> Evict {
        let cells = self.chunks.get(number).cells;
        for index in 0..cells {
            let cell = (number as u32) << 16 | index;
            match self.chunks.cell(cell).list {
                CellList::Free => {}
                CellList::Detached => return Evict::InUse,
                CellList::First | CellList::Second => match self.evict(table, cell) {
                    Evict::Done => {}
                    other => return other,
                },
            }
        }
        Evict::Done
    }

    fn evict_one(&mut self, table: &Table, class: usize) -> Result<Take, HeapError> {
        // An object that somebody takes between choice and eviction is no victim any more.
        for _ in 0..64 {
            let lists = &mut self.classes[class].policy;
            let Some(cell) = lists.victim(&mut self.chunks, table) else {
                return Ok(Take::WaitForUsers);
            };
            match self.evict(table, cell) {
                Evict::Done => {
                    self.press(class);
                    return Ok(Take::Cell(NONE));
                }
                Evict::InUse => {}
                Evict::NeedsRoom(len) => match self.disk.make_room(len, false) {
                    Ok(()) => {}
                    Err(NoRoom::Wait) => return Ok(Take::WaitForDisk),
                    Err(NoRoom::Failed(error)) => return self.drop_clean(table, class, error),
                },
            }
        }
        Ok(Take::WaitForUsers)
    }

    /// Where nothing can be written, an object that the disk has already may still go.
    fn drop_clean(
        &mut self,
        table: &Table,
        class: usize,
        error: HeapError,
    ) -> Result<Take, HeapError> {
        for number in self.classes[class].chunks.clone() {
            for index in 0..self.chunks.get(number).cells {
                let cell = (number as u32) << 16 | index;
                let facts = *self.chunks.cell(cell);
                let listed = matches!(facts.list, CellList::First | CellList::Second);
                if listed
                    && facts.block != NONE
                    && !self.is_dirty(table, facts.id)
                    && matches!(self.evict(table, cell), Evict::Done)
                {
                    return Ok(Take::Cell(NONE));
                }
            }
        }
        Err(error)
    }

    fn is_dirty(&self, table: &Table, id: u32) -> bool {
        table.get(id).is_none_or(|entry| entry.state.load(Relaxed) & DIRTY != 0)
    }

    fn press(&mut self, class: usize) {
        let size = cell_bytes(class) as u64;
        self.classes[class].since += 1;
        self.classes[class].pressure += size;
        if self.classes[class].pressure > 64 * CHUNK_BYTES as u64 {
            self.classes.iter_mut().for_each(|class| class.pressure /= 2);
        }
    }

    /// Moves one object out of memory, if nobody uses it.
    fn evict(&mut self, table: &Table, cell: CellRef) -> Evict {
        let facts = *self.chunks.cell(cell);
        let Some(entry) = table.get(facts.id) else { unreachable!("a listed cell has an entry") };
        let (state, writes, address, len) = loop {
            let state = entry.state.load(Acquire);
            if state & STATE != RESIDENT || state & USERS != 0 {
                return Evict::InUse;
            }
            let (address, len) = address_and_len(entry.place.load(Relaxed));
            let writes = state & DIRTY != 0 || facts.block == NONE;
            if writes && !self.disk.has_room(len) {
                return Evict::NeedsRoom(len);
            }
            if entry.claim(state) {
                break (state, writes, address, len);
            }
        };
        let handle = Handle::new(facts.id, generation(state));
        let (mut place, sum) = if writes {
            if facts.block != NONE {
                self.disk.forget(facts.block, len);
            }
            // SAFETY: the entry is busy by our doing (INV-OBJ-1), so nobody else has the bytes.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len) };
            self.totals.evicted_bytes += len as u64;
            self.changes.mark(facts.id);
            self.disk.append(handle, bytes)
        } else {
            self.totals.dropped_objects += 1;
            let offset = u32::from(facts.offset8) * 8;
            (DiskPlace { block: facts.block, offset, len, era: 0 }, facts.checksum)
        };
        let class = self.chunks.get((cell >> 16) as usize).class;
        let lists = &mut self.classes[class].policy;
        place.era = lists.era_of(&mut self.chunks, cell);
        lists.remove(&mut self.chunks, cell);
        self.give_back(cell);
        self.totals.evicted_objects += 1;
        self.totals.resident_objects -= 1;
        self.totals.resident_bytes -= len as u64;
        entry.leave(place.encode(), evicted(handle.generation(), sum));
        Evict::Done
    }

    /// Puts an object into a cell whose bytes are set, and makes its entry resident. `users` are
    /// counted in from the begin; `from`: where the disk has a copy, and its checksum.
    pub(crate) fn install(
        &mut self,
        entry: &Entry,
        handle: Handle,
        (cell, len): (CellRef, usize),
        from: Option<(DiskPlace, u32)>,
        users: u64,
    ) {
        let facts = self.chunks.cell(cell);
        facts.id = handle.id();
        facts.block = NONE;
        match from {
            Some((place, sum)) => {
                (facts.block, facts.checksum) = (place.block, sum);
                facts.offset8 = (place.offset / 8) as u16;
            }
            None => self.changes.mark(handle.id()),
        }
        let era = from.map_or(0, |(place, _)| place.era);
        let class = self.chunks.get((cell >> 16) as usize).class;
        let first = self.classes[class].policy.insert(&mut self.chunks, cell, era);
        self.totals.resident_objects += 1;
        self.totals.resident_bytes += len as u64;
        let address = self.chunks.address(cell);
        let state = with_generation(handle.generation(), RESIDENT | (first * TOUCH) | users);
        entry.leave(resident_place(address, len), state);
    }

    /// Takes a resident object out of its list and forgets its copy. Its entry belongs to the
    /// caller. Returns the cell.
    pub(crate) fn uninstall(&mut self, address: usize, len: usize) -> CellRef {
        let cell = self.chunks.cell_at(address);
        let Cell { id, block, .. } = *self.chunks.cell(cell);
        self.changes.mark(id);
        if block != NONE {
            self.disk.forget(block, len);
            self.chunks.cell(cell).block = NONE;
        }
        let class = self.chunks.get((cell >> 16) as usize).class;
        self.classes[class].policy.remove(&mut self.chunks, cell);
        self.totals.resident_objects -= 1;
        self.totals.resident_bytes -= len as u64;
        cell
    }

    /// An unused id with its entry's next generation.
    pub(crate) fn take_id(&mut self, table: &Table) -> Result<Handle, HeapError> {
        if self.free_id != NONE {
            let id = self.free_id;
            let Some(entry) = table.get(id) else { unreachable!("a used id has an entry") };
            self.free_id = entry.place.load(Relaxed) as u32;
            let generation = self.generations.of_next(generation(entry.state.load(Relaxed)));
            return Ok(Handle::new(id, generation));
        }
        let id = self.next_id;
        if id >= self.most_objects {
            return Err(HeapError::TooManyObjects);
        }
        self.add_entry(table, id);
        Ok(Handle::new(id, self.generations.of_next(1)))
    }

    /// Ends an id's use. The caller has the entry.
    pub(crate) fn free_id(&mut self, entry: &Entry, handle: Handle) {
        let next = self.generations.after(handle.generation());
        self.changes.mark(handle.id());
        if self.generations.may_use(next) {
            entry.place.store(u64::from(self.free_id), Relaxed);
            self.free_id = handle.id();
        } else {
            self.generations.parked.push(handle.id());
        }
        entry.state.store(with_generation(next, FREE), Release);
    }

    /// Makes the next id known.
    pub(crate) fn add_entry(&mut self, table: &Table, id: u32) {
        if table.is_missing(id) {
            table.add_part(id);
            self.parts += 1;
        }
        self.next_id = id + 1;
    }

    /// An id may be used again: a commit has reserved more generations.
    pub(crate) fn unpark(&mut self, table: &Table, id: u32) {
        let next = table.get(id).map_or(0, |entry| generation(entry.state.load(Relaxed)));
        if self.generations.may_use(next) {
            self.link_free_id(table, id);
        } else if next != 0 {
            self.generations.parked.push(id);
        }
    }

    /// Whether the metadata leaves room for a chunk.
    pub(crate) fn check_metadata(&self) -> Result<(), HeapError> {
        if self.affordable_chunks() == 0 {
            return Err(HeapError::NoMemory { budget: self.budget, len: CHUNK_BYTES });
        }
        Ok(())
    }

    /// Puts an id into the list of free ones.
    pub(crate) fn link_free_id(&mut self, table: &Table, id: u32) {
        let Some(entry) = table.get(id) else { unreachable!("a used id has an entry") };
        entry.place.store(u64::from(self.free_id), Relaxed);
        self.free_id = id;
    }

    /// Moves what is still needed of a block elsewhere. `bytes` were read without the lock, so
    /// each object is checked. Returns false if the keeper has to write first.
    pub(crate) fn collect(&mut self, table: &Table, block: u32, bytes: &[u8]) -> bool {
        // Moving a part of a block takes room, and gives none back.
        if objects_in(bytes).any(|(id, offset, _)| self.is_in_use(table, id, (block, offset))) {
            return true;
        }
        for (id, offset, len) in objects_in(bytes) {
            let Some(entry) = table.get(id) else { continue };
            let state = entry.state.load(Acquire);
            // The place is a guess until the entry is busy; without it dead objects cost room.
            let place = DiskPlace::decode(entry.place.load(Relaxed));
            let here = (place.block, place.offset, place.len) == (block, offset, len);
            let moves = state & STATE == EVICTED && here;
            match if moves { self.disk.make_room(len, true) } else { Ok(()) } {
                Ok(()) => {}
                Err(NoRoom::Wait) => return false,
                // Nowhere to write to: the block stays as it is.
                Err(NoRoom::Failed(_)) => return true,
            }
            let drops = state & STATE == RESIDENT && state & USERS == 0;
            if !(moves || drops) || !entry.claim(state) {
                continue;
            }
            let new = if state & STATE == RESIDENT {
                self.forget_copy(entry, block, offset);
                state
            } else {
                let data = &bytes[offset as usize..offset as usize + len];
                self.move_copy(entry, state, (id, block, offset), data)
            };
            entry.state.store(new, Release);
        }
        true
    }

    /// Whether an object is being moved or used, so that its copy at a place has to stay for now.
    fn is_in_use(&mut self, table: &Table, id: u32, (block, offset): (u32, u32)) -> bool {
        let Some(entry) = table.get(id) else { return false };
        let (state, place) = (entry.state.load(Acquire), entry.place.load(Relaxed));
        let state = match state & STATE {
            BUSY => settled(state),
            RESIDENT if state & USERS != 0 => state,
            _ => return false,
        };
        if state & STATE == EVICTED {
            let place = DiskPlace::decode(place);
            return (place.block, place.offset) == (block, offset);
        }
        let cell = self.chunks.cell_at(address_and_len(place).0);
        let facts = self.chunks.cell(cell);
        facts.block == block && u32::from(facts.offset8) * 8 == offset
    }

    /// The copy of a resident object goes; the object is written when it is evicted.
    fn forget_copy(&mut self, entry: &Entry, block: u32, offset: u32) {
        let (address, len) = address_and_len(entry.place.load(Relaxed));
        let cell = self.chunks.cell_at(address);
        let facts = self.chunks.cell(cell);
        if facts.block == block && u32::from(facts.offset8) * 8 == offset {
            self.changes.mark(facts.id);
            facts.block = NONE;
            self.disk.forget(block, len);
            if self.changes.are_committed() {
                self.disk.owe(len);
            }
        }
    }

    /// Writes an evicted object to another block. Returns its new state.
    fn move_copy(
        &mut self,
        entry: &Entry,
        state: u64,
        (id, block, offset): (u32, u32, u32),
        data: &[u8],
    ) -> u64 {
        let place = DiskPlace::decode(entry.place.load(Relaxed));
        let same = place.block == block && place.offset == offset && place.len == data.len();
        let handle = Handle::new(id, generation(state));
        if !same || self.disk.checksum(handle, block, offset, data) != checksum(state) {
            return state;
        }
        let (moved, sum) = self.disk.append(handle, data);
        self.disk.forget(block, data.len());
        self.totals.moved_bytes += data.len() as u64;
        self.changes.mark(id);
        entry.place.store(DiskPlace { era: place.era, ..moved }.encode(), Relaxed);
        evicted(generation(state), sum)
    }

    /// Checks INV-OBJ-2, 3 and 5 against the table: each object in one place, all counts right.
    pub(crate) fn check(&mut self, table: &Table) -> Result<(), String> {
        let mut live = 0;
        let (mut resident, mut objects) = (0, 0);
        for id in 0..self.next_id {
            let Some(entry) = table.get(id) else { return Err(format!("no entry {id}")) };
            let state = entry.state.load(Acquire);
            let place = entry.place.load(Relaxed);
            objects += u64::from(state & STATE != FREE);
            match state & STATE {
                RESIDENT => {
                    let (address, len) = address_and_len(place);
                    let cell = self.chunks.cell_at(address);
                    let facts = *self.chunks.cell(cell);
                    let listed = matches!(facts.list, CellList::First | CellList::Second);
                    if !listed || facts.id != id || self.chunks.address(cell) != address {
                        return Err(format!("object {id} and its cell disagree: {facts:?}"));
                    }
                    resident += 1;
                    live += if facts.block == NONE { 0 } else { crate::disk::stored_bytes(len) };
                }
                EVICTED => live += crate::disk::stored_bytes(DiskPlace::decode(place).len),
                _ => {}
            }
        }
        let listed: usize = self.classes.iter().map(|class| class.policy.len()).sum();
        if listed != resident || resident as u64 != self.totals.resident_objects {
            return Err(format!("{resident} objects in memory, {listed} cells in lists"));
        }
        if live as u64 != self.disk.live_bytes || objects != self.totals.objects {
            return Err(format!("{live} bytes needed, {} counted", self.disk.live_bytes));
        }
        Ok(())
    }
}
