//! The heap's file: blocks of 256 KiB, each written once as a whole, and the buffers that fill.
//!
//! A block is a header of 64 bytes, then for each object 8 bytes (id, length - 1, zeros) and its
//! bytes, filled up to a multiple of 8. A block of which no object is needed is *empty*, and is
//! written anew as a whole. What a block is to hold stands in the entries: place and checksum,
//! seeded with the place, so an old, damaged or misplaced block is noticed (INV-OBJ-4).
//!
//! The file of an ephemeral heap has no name: the kernel frees it when the process ends, however
//! that happens. That of a persistent heap does, and the newest commit and the one in the making
//! *keep* blocks: a kept block is not written anew (INV-OBJ-6). Nor is one that a shared state of a
//! heap in an area may show ([`crate::shares`]).

use swing::Epoch;
use swing_tier::storage::{FileRef, Storage};
use swing_tier::{IoError, UNIT_BYTES, random_u64};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::{DiskPlace, Handle};
use crate::error::HeapError;
use crate::memory::{BlockBytes, Memory};
use crate::shares::Shares;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Bytes before the first object of a block.
pub(crate) const BLOCK_HEADER: usize = 64;
const OBJECT_HEADER: usize = 8;
/// Buffers that fill or are being written.
pub(crate) const BUFFERS: usize = 4;
/// Blocks that only garbage collection may take.
const SPARE_BLOCKS: usize = 2;
/// Bytes of a block that objects of any size can fill, about.
const USED_OF_BLOCK: u64 = BLOCK_BYTES as u64 * 7 / 8;
pub(crate) const MAX_BLOCKS: usize = 1 << 28;
/// Blocks whose room is reserved at once.
const STEP_BLOCKS: usize = 64;
/// The newest commit refers to the block.
const COMMITTED: u8 = 1;
/// The commit in the making refers to the block.
const NEXT: u8 = 2;

/// The state of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferState {
    Idle,
    /// Objects are appended.
    Open,
    /// Waits for the keeper.
    Full,
    /// The keeper writes it.
    Writing,
}

/// A block in memory.
pub(crate) struct Buffer {
    pub(crate) state: BufferState,
    pub(crate) block: u32,
    pub(crate) bytes: BlockBytes,
    used: usize,
}

/// Blocks and buffers. Used under the heap's lock.
pub(crate) struct Disk {
    pub(crate) file: FileRef,
    pub(crate) buffers: Vec<Buffer>,
    /// Bytes of objects that each block must keep.
    live: Vec<u32>,
    /// [`COMMITTED`] and [`NEXT`] of each block.
    kept: Vec<u8>,
    /// Blocks with no needed byte that a commit keeps.
    kept_dead: usize,
    empty: Vec<u32>,
    reserved: usize,
    limit: usize,
    /// Why no more could be reserved last: until it can be, the file ends with what is.
    full: Option<IoError>,
    seed: u64,
    pub(crate) live_bytes: u64,
    /// Bytes that the next commit has to write though nobody changed them, and those of the commit
    /// in the making.
    owed: u64,
    owed_before: u64,
    /// The last write that failed, until one succeeds.
    pub(crate) failed: Option<IoError>,
    /// Of a heap in an area.
    shares: Option<Shares>,
}

/// Why there is no room for an object in a buffer.
pub(crate) enum NoRoom {
    /// The keeper has to write or collect first.
    Wait,
    Failed(HeapError),
}

/// Bytes that an object takes in a block.
pub(crate) fn stored_bytes(len: usize) -> usize {
    OBJECT_HEADER + len.next_multiple_of(8)
}

impl Disk {
    pub(crate) fn create(
        storage: &dyn Storage,
        limit_bytes: u64,
        memory: &Memory,
    ) -> Result<Self, HeapError> {
        let name = format!("heap-{:016x}", random_u64());
        let file = storage.create(&name)?;
        storage.remove(&name)?;
        let shares = matches!(memory, Memory::Area(_)).then(Shares::default);
        Ok(Disk { shares, ..Self::on(file, random_u64(), limit_bytes, memory) })
    }

    /// The empty blocks of a file.
    pub(crate) fn on(file: FileRef, seed: u64, limit_bytes: u64, memory: &Memory) -> Self {
        let buffer = |index| Buffer {
            state: BufferState::Idle,
            block: 0,
            bytes: memory.block(index),
            used: BLOCK_HEADER,
        };
        let limit = (limit_bytes / BLOCK_BYTES as u64).min(MAX_BLOCKS as u64) as usize;
        Disk {
            file,
            buffers: (0..BUFFERS).map(buffer).collect(),
            live: Vec::new(),
            kept: Vec::new(),
            kept_dead: 0,
            empty: Vec::new(),
            reserved: 0,
            limit,
            full: None,
            seed,
            live_bytes: 0,
            owed: 0,
            owed_before: 0,
            failed: None,
            shares: None,
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn metadata_bytes(&self) -> u64 {
        let shares = self.shares.as_ref().map_or(0, Shares::bytes);
        (4 * (self.live.capacity() + self.empty.capacity()) + self.kept.capacity()) as u64 + shares
    }

    pub(crate) fn checksum(&self, handle: Handle, block: u32, offset: u32, bytes: &[u8]) -> u32 {
        checksum(self.seed, handle, block, offset, bytes)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn open_buffer(&mut self) -> Option<&mut Buffer> {
        self.buffers.iter_mut().find(|buffer| buffer.state == BufferState::Open)
    }

    /// Whether an object of `len` bytes that leaves memory may go to the open buffer. While garbage
    /// collection works in its last blocks, all of them are for the objects that it moves.
    pub(crate) fn has_room(&mut self, len: usize) -> bool {
        self.fits(len) && !self.is_for_collection()
    }

    fn fits(&mut self, len: usize) -> bool {
        self.open_buffer().is_some_and(|buffer| buffer.used + stored_bytes(len) <= BLOCK_BYTES)
    }

    fn is_for_collection(&self) -> bool {
        self.room() < SPARE_BLOCKS && self.can_collect()
    }

    /// Closes the open buffer if an object of `len` bytes does not fit, and opens another.
    pub(crate) fn make_room(&mut self, len: usize, collects: bool) -> Result<(), NoRoom> {
        if !collects && self.is_for_collection() {
            return Err(NoRoom::Wait);
        }
        if self.fits(len) {
            return Ok(());
        }
        if let Some(buffer) = self.open_buffer() {
            buffer.state = BufferState::Full;
        }
        let Some(index) = self.buffers.iter().position(|b| b.state == BufferState::Idle) else {
            return Err(match &self.failed {
                Some(error) => NoRoom::Failed(write_error(error.clone())),
                None => NoRoom::Wait,
            });
        };
        let block = self.take_block(collects)?;
        let buffer = &mut self.buffers[index];
        (buffer.state, buffer.block, buffer.used) = (BufferState::Open, block, BLOCK_HEADER);
        buffer.bytes[..4].copy_from_slice(b"SwOb");
        buffer.bytes[4..8].copy_from_slice(&block.to_le_bytes());
        Ok(())
    }

    fn take_block(&mut self, collects: bool) -> Result<u32, NoRoom> {
        let block = self.find_block(collects)?;
        if let Some(shares) = &mut self.shares {
            shares.take(block);
        }
        Ok(block)
    }

    fn find_block(&mut self, collects: bool) -> Result<u32, NoRoom> {
        self.reserve_ahead().map_err(NoRoom::Failed)?;
        let room = self.room();
        if room == 0 || (!collects && room <= SPARE_BLOCKS) {
            if self.can_collect() {
                return Err(NoRoom::Wait);
            }
            let kept = if self.kept_dead > 0 { "; flush() frees some of it" } else { "" };
            let shown = self.kept_for_states() * BLOCK_BYTES;
            let shown = match shown {
                0 => String::new(),
                bytes => format!("; {bytes} bytes of it are kept for snapshots"),
            };
            let why = match &self.full {
                Some(error) => error.to_string(),
                None => {
                    let limit = self.limit as u64 * BLOCK_BYTES as u64;
                    format!("its limit of {limit} bytes is reached")
                }
            };
            return Err(NoRoom::Failed(HeapError::DiskFull(format!("{why}{kept}{shown}"))));
        }
        if let Some(block) = self.empty.pop() {
            return Ok(block);
        }
        self.live.push(0);
        self.kept.push(0);
        Ok(self.live.len() as u32 - 1)
    }

    /// Reserves room before the last blocks are taken, which are for garbage collection: on a full
    /// disk that needs some to give others back.
    fn reserve_ahead(&mut self) -> Result<(), HeapError> {
        let ready = self.empty.len() + self.reserved - self.live.len();
        if ready > SPARE_BLOCKS || self.reserved >= self.limit {
            return Ok(());
        }
        let (at, unit) = (self.reserved as u64 * BLOCK_BYTES as u64, BLOCK_BYTES as u64);
        for step in [STEP_BLOCKS.min(self.limit - self.reserved), 1] {
            match self.file.preallocate(at, step as u64 * unit) {
                Ok(()) => {
                    (self.reserved, self.full) = (self.reserved + step, None);
                    return Ok(());
                }
                Err(error) if error.cause.is_full() => self.full = Some(error),
                Err(error) => return Err(write_error(error)),
            }
        }
        Ok(())
    }

    /// The next commit has to write an object of `len` bytes that has not changed: collection has
    /// forgotten its copy.
    pub(crate) fn owe(&mut self, len: usize) {
        self.owed += stored_bytes(len) as u64;
    }

    /// Blocks that can be taken, less those that the next commit needs for what is owed to it.
    pub(crate) fn free_room(&self) -> usize {
        match (self.owed + self.owed_before).div_ceil(USED_OF_BLOCK) as usize {
            0 => self.room(),
            blocks => self.room().saturating_sub(blocks + SPARE_BLOCKS),
        }
    }

    /// Blocks that can be taken.
    pub(crate) fn room(&self) -> usize {
        let end = if self.full.is_some() { self.reserved } else { self.limit };
        self.empty.len() + end.saturating_sub(self.live.len())
    }

    /// Whether blocks run short.
    pub(crate) fn is_short(&self) -> bool {
        self.room() <= 2 * SPARE_BLOCKS
    }

    /// Whether a block that commits keep may be emptied in the background: that takes room until
    /// the next commit. The eighth of the limit that flushes leave free is for changes.
    pub(crate) fn may_empty_kept(&self) -> bool {
        self.free_room() > (self.limit / 4).max(4 * SPARE_BLOCKS)
    }

    /// Bytes of the blocks that are neither empty nor kept for a commit alone.
    fn held_bytes(&self) -> u64 {
        let unneeded = self.empty.len() + self.kept_dead + self.kept_for_states();
        let held = self.live.len().saturating_sub(unneeded);
        held as u64 * BLOCK_BYTES as u64
    }

    /// Bytes of written blocks that no object needs, and that collection can free.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.held_bytes().saturating_sub(self.live_bytes)
    }

    /// Whether a flush has to empty blocks that commits keep: the next one needs room for all that
    /// changes until then.
    pub(crate) fn wants_compaction(&self) -> bool {
        let scarce = self.room() < (self.limit / 8).max(2 * SPARE_BLOCKS);
        scarce && (self.kept_dead > 0 || self.garbage_bytes() > BLOCK_BYTES as u64)
    }

    /// Whether collection frees a block without a commit.
    fn can_collect(&self) -> bool {
        if self.garbage_bytes() <= BLOCK_BYTES as u64 {
            return false;
        }
        let blocks =
            self.live.iter().zip(&self.kept).filter(|&(&live, &kept)| live > 0 && kept == 0);
        let garbage: u64 = blocks.map(|(&live, _)| BLOCK_BYTES as u64 - u64::from(live)).sum();
        garbage > BLOCK_BYTES as u64
    }

    /// Whether garbage takes more than `fraction` of the blocks, or blocks run short.
    pub(crate) fn wants_collection(&self, fraction: f64) -> bool {
        let garbage = self.garbage_bytes();
        let short = self.is_short() && garbage > BLOCK_BYTES as u64;
        let many = garbage > 64 * BLOCK_BYTES as u64;
        short || (many && garbage as f64 > fraction * self.held_bytes() as f64)
    }

    /// The written block with the fewest bytes that must be kept; `skip`: blocks to leave alone.
    /// `kept`: also blocks that come free with the next commit only.
    pub(crate) fn emptiest(&self, skip: &[u32], kept: bool) -> Option<u32> {
        let in_memory = |block: u32| self.in_memory(block).is_some() || skip.contains(&block);
        let blocks = self.live.iter().enumerate().filter(|&(block, &live)| {
            live > 0
                && (live as usize) < BLOCK_BYTES * 15 / 16
                && (kept || self.kept[block] == 0)
                && !in_memory(block as u32)
        });
        blocks.min_by_key(|&(_, &live)| live).map(|(block, _)| block as u32)
    }

    /// Whether an object needs a block.
    pub(crate) fn is_needed(&self, block: u32) -> bool {
        self.live[block as usize] > 0
    }

    fn in_memory(&self, block: u32) -> Option<&Buffer> {
        self.buffers.iter().find(|b| b.state != BufferState::Idle && b.block == block)
    }

    /// Appends an object to the open buffer, which has room. Returns its place and checksum.
    pub(crate) fn append(&mut self, handle: Handle, bytes: &[u8]) -> (DiskPlace, u32) {
        let seed = self.seed;
        let Some(buffer) = self.open_buffer() else { unreachable!("room was made") };
        let (block, start) = (buffer.block, buffer.used);
        buffer.bytes[start..start + 4].copy_from_slice(&handle.id().to_le_bytes());
        let short = (bytes.len() - 1) as u16;
        buffer.bytes[start + 4..start + 6].copy_from_slice(&short.to_le_bytes());
        buffer.bytes[start + 6..start + 8].fill(0);
        let offset = start + OBJECT_HEADER;
        buffer.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        buffer.used = start + stored_bytes(bytes.len());
        if self.live[block as usize] == 0 && self.kept[block as usize] != 0 {
            self.kept_dead -= 1;
        }
        self.live[block as usize] += stored_bytes(bytes.len()) as u32;
        self.live_bytes += stored_bytes(bytes.len()) as u64;
        let place = DiskPlace { block, offset: offset as u32, len: bytes.len(), era: 0 };
        (place, checksum(seed, handle, block, offset as u32, bytes))
    }

    /// Says that an object's copy in a block is not needed any more.
    pub(crate) fn forget(&mut self, block: u32, len: usize) {
        let bytes = stored_bytes(len) as u32;
        let live = &mut self.live[block as usize];
        assert!(*live >= bytes, "INV-OBJ-5: a copy is forgotten twice");
        *live -= bytes;
        self.live_bytes -= u64::from(bytes);
        if *live > 0 {
            return;
        }
        if self.kept[block as usize] != 0 {
            self.kept_dead += 1;
        } else if self.in_memory(block).is_none() {
            self.give_up(block);
        }
    }

    /// A written block that no object needs can be taken, unless a state may show it.
    fn give_up(&mut self, block: u32) {
        if !self.shares.as_mut().is_some_and(|shares| shares.keeps(block)) {
            self.empty.push(block);
        }
    }

    /// Blocks that are kept for shared states alone.
    pub(crate) fn kept_for_states(&self) -> usize {
        self.shares.as_ref().map_or(0, Shares::kept)
    }

    /// The present state has been shared.
    pub(crate) fn add_state(&mut self, epoch: Epoch) {
        if let Some(shares) = &mut self.shares {
            shares.add(epoch);
        }
    }

    /// Only these states can be seen still. Whether that frees blocks.
    pub(crate) fn retain_states(&mut self, live: &[Epoch]) -> bool {
        let free = self.shares.as_mut().map(|shares| shares.retain(live)).unwrap_or_default();
        self.empty.extend(&free);
        !free.is_empty()
    }

    /// The blocks in the buffers.
    pub(crate) fn blocks_in_memory(&self) -> [Option<u32>; BUFFERS] {
        std::array::from_fn(|index| {
            let buffer = &self.buffers[index];
            (buffer.state != BufferState::Idle).then_some(buffer.block)
        })
    }

    /// Begins a commit: it keeps all blocks that objects need now, and those of [`Disk::keep`].
    pub(crate) fn begin_commit(&mut self) {
        self.owed_before += std::mem::take(&mut self.owed);
        for (kept, &live) in self.kept.iter_mut().zip(&self.live) {
            if live > 0 {
                *kept |= NEXT;
            }
        }
    }

    /// The commit in the making refers to a block that an object needs.
    pub(crate) fn keep(&mut self, block: u32) {
        assert!(self.live[block as usize] > 0, "INV-OBJ-6: a commit refers to an empty block");
        self.kept[block as usize] |= NEXT;
    }

    /// Ends a commit. Unless it surely happened, the blocks of both states are kept.
    pub(crate) fn end_commit(&mut self, happened: bool) {
        self.kept_dead = 0;
        let before = std::mem::take(&mut self.owed_before);
        self.owed += if happened { 0 } else { before };
        for block in 0..self.kept.len() {
            let old = self.kept[block];
            let next = if happened { old & NEXT } else { old };
            self.kept[block] = if next != 0 { COMMITTED } else { 0 };
            if self.live[block] > 0 {
                continue;
            }
            if next != 0 {
                self.kept_dead += 1;
            } else if old != 0 && self.in_memory(block as u32).is_none() {
                self.empty.push(block as u32);
            }
        }
    }

    /// Closes the open buffer if it has objects. Returns the blocks that are to be written.
    pub(crate) fn close_buffers(&mut self) -> Vec<u32> {
        if let Some(buffer) = self.open_buffer().filter(|buffer| buffer.used > BLOCK_HEADER) {
            buffer.state = BufferState::Full;
        }
        let waiting = |b: &&Buffer| matches!(b.state, BufferState::Full | BufferState::Writing);
        self.buffers.iter().filter(waiting).map(|buffer| buffer.block).collect()
    }

    /// Whether one of the blocks still has to be written.
    pub(crate) fn is_waiting(&self, blocks: &[u32]) -> bool {
        let waiting = |b: &Buffer| matches!(b.state, BufferState::Full | BufferState::Writing);
        self.buffers.iter().any(|buffer| waiting(buffer) && blocks.contains(&buffer.block))
    }

    /// Takes in what a commit says: so many blocks.
    pub(crate) fn recover_blocks(&mut self, blocks: usize) {
        self.live = vec![0; blocks];
        self.kept = vec![0; blocks];
        self.reserved = blocks;
    }

    /// Takes in an object of the commit. False if the place is none.
    #[must_use]
    pub(crate) fn recover_object(&mut self, place: DiskPlace) -> bool {
        let inside = place.offset as usize >= BLOCK_HEADER + OBJECT_HEADER
            && place.offset as usize + place.len <= BLOCK_BYTES;
        let Some(live) = self.live.get_mut(place.block as usize).filter(|_| inside) else {
            return false;
        };
        let bytes = stored_bytes(place.len) as u32;
        if *live as usize + bytes as usize > BLOCK_BYTES - BLOCK_HEADER {
            return false;
        }
        *live += bytes;
        self.live_bytes += u64::from(bytes);
        self.kept[place.block as usize] = COMMITTED;
        true
    }

    /// After the last [`Disk::recover_object`]: blocks without objects are empty.
    pub(crate) fn recovered(&mut self) {
        let empty = |&block: &u32| self.live[block as usize] == 0;
        self.empty = (0..self.live.len() as u32).rev().filter(empty).collect();
    }

    /// An object's bytes, if its block is still in memory.
    pub(crate) fn buffered(&self, place: DiskPlace) -> Option<&[u8]> {
        let buffer = self.in_memory(place.block)?;
        Some(&buffer.bytes[place.offset as usize..place.offset as usize + place.len])
    }

    /// How many bytes of a buffer have to be written: whole units.
    pub(crate) fn bytes_to_write(&self, index: usize) -> usize {
        self.buffers[index].used.next_multiple_of(UNIT_BYTES as usize)
    }

    /// The next buffer to write.
    pub(crate) fn next_full(&self) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.state == BufferState::Full)
    }

    /// Notes that a buffer was written.
    pub(crate) fn written(&mut self, index: usize) {
        let block = self.buffers[index].block;
        self.buffers[index].state = BufferState::Idle;
        self.failed = None;
        if self.live[block as usize] == 0 && self.kept[block as usize] == 0 {
            self.give_up(block);
        }
    }
}

/// The checksum of an object at a place; another for each object, generation and place.
pub(crate) fn checksum(seed: u64, handle: Handle, block: u32, offset: u32, bytes: &[u8]) -> u32 {
    let place = (u64::from(block) << 32 | u64::from(offset)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    xxh3_64_with_seed(bytes, seed ^ place ^ handle.to_bits().rotate_left(17)) as u32
}

/// The objects that the bytes of a block name: id, offset and length.
pub(crate) fn objects_in(bytes: &[u8]) -> impl Iterator<Item = (u32, u32, usize)> + '_ {
    let mut at = BLOCK_HEADER;
    std::iter::from_fn(move || {
        let header = bytes.get(at..at + OBJECT_HEADER)?;
        let id = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let len = usize::from(u16::from_le_bytes([header[4], header[5]])) + 1;
        let offset = at + OBJECT_HEADER;
        at += stored_bytes(len);
        (at <= bytes.len()).then_some((id, offset as u32, len))
    })
}

pub(crate) fn write_error(error: IoError) -> HeapError {
    if error.cause.is_full() {
        HeapError::DiskFull(error.to_string())
    } else {
        HeapError::Io(error)
    }
}
