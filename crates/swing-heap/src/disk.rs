//! The heap's file: blocks of 256 KiB, each written once as a whole, and the buffers that fill.
//!
//! A block is a header of 64 bytes, then for each object 8 bytes (id, length - 1, zeros) and its
//! bytes, filled up to a multiple of 8. A block of which no object is needed is *empty*, and is
//! written anew as a whole. What a block is to hold stands in the entries: place and checksum,
//! seeded with the place, so an old, damaged or misplaced block is noticed (INV-OBJ-4).
//!
//! The file has no name: the kernel frees it when the process ends, however that happens.

use swing_tier::storage::{FileRef, Storage};
use swing_tier::{IoError, random_u64};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::{DiskPlace, Handle};
use crate::error::HeapError;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Bytes before the first object of a block.
pub(crate) const BLOCK_HEADER: usize = 64;
const OBJECT_HEADER: usize = 8;
/// Buffers that fill or are being written.
pub(crate) const BUFFERS: usize = 4;
/// Blocks that only garbage collection may take.
const SPARE_BLOCKS: usize = 2;
const MAX_BLOCKS: usize = 1 << 28;
/// Blocks whose room is reserved at once.
const STEP_BLOCKS: usize = 64;

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
    pub(crate) bytes: Box<[u8]>,
    used: usize,
}

/// Blocks and buffers. Used under the heap's lock.
pub(crate) struct Disk {
    pub(crate) file: FileRef,
    pub(crate) buffers: Vec<Buffer>,
    /// Bytes of objects that each block must keep.
    live: Vec<u32>,
    empty: Vec<u32>,
    reserved: usize,
    limit: usize,
    seed: u64,
    pub(crate) live_bytes: u64,
    /// The last write that failed, until one succeeds.
    pub(crate) failed: Option<IoError>,
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
    pub(crate) fn create(storage: &dyn Storage, limit_bytes: u64) -> Result<Self, HeapError> {
        let name = format!("heap-{:016x}", random_u64());
        let file = storage.create(&name)?;
        storage.remove(&name)?;
        let buffer = || Buffer {
            state: BufferState::Idle,
            block: 0,
            bytes: vec![0; BLOCK_BYTES].into_boxed_slice(),
            used: BLOCK_HEADER,
        };
        let limit = (limit_bytes / BLOCK_BYTES as u64).min(MAX_BLOCKS as u64) as usize;
        Ok(Disk {
            file,
            buffers: (0..BUFFERS).map(|_| buffer()).collect(),
            live: Vec::new(),
            empty: Vec::new(),
            reserved: 0,
            limit,
            seed: random_u64(),
            live_bytes: 0,
            failed: None,
        })
    }

    pub(crate) fn blocks(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn metadata_bytes(&self) -> u64 {
        4 * (self.live.capacity() + self.empty.capacity()) as u64
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

    /// Whether an object of `len` bytes fits into the open buffer.
    pub(crate) fn has_room(&mut self, len: usize) -> bool {
        self.open_buffer().is_some_and(|buffer| buffer.used + stored_bytes(len) <= BLOCK_BYTES)
    }

    /// Closes the open buffer if an object of `len` bytes does not fit, and opens another.
    pub(crate) fn make_room(&mut self, len: usize, collects: bool) -> Result<(), NoRoom> {
        if self.has_room(len) {
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
        let room = self.empty.len() + self.limit.saturating_sub(self.live.len());
        if room == 0 || (!collects && room <= SPARE_BLOCKS) {
            if self.garbage_bytes() > BLOCK_BYTES as u64 {
                return Err(NoRoom::Wait);
            }
            let limit = self.limit as u64 * BLOCK_BYTES as u64;
            let text = format!("its limit of {limit} bytes is reached");
            return Err(NoRoom::Failed(HeapError::DiskFull(text)));
        }
        if let Some(block) = self.empty.pop() {
            return Ok(block);
        }
        if self.live.len() == self.reserved {
            let step = STEP_BLOCKS.min(self.limit - self.live.len());
            let (at, unit) = (self.reserved as u64 * BLOCK_BYTES as u64, BLOCK_BYTES as u64);
            let made = self.file.preallocate(at, step as u64 * unit);
            match made {
                Ok(()) => self.reserved += step,
                Err(error) if error.cause.is_full() => {
                    let one = self.file.preallocate(at, unit);
                    one.map_err(|e| NoRoom::Failed(write_error(e)))?;
                    self.reserved += 1;
                }
                Err(error) => return Err(NoRoom::Failed(write_error(error))),
            }
        }
        self.live.push(0);
        Ok(self.live.len() as u32 - 1)
    }

    /// Bytes of written blocks that no object needs.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        let held = (self.live.len() - self.empty.len()) as u64 * BLOCK_BYTES as u64;
        held.saturating_sub(self.live_bytes)
    }

    /// Whether garbage takes more than `fraction` of the blocks, or blocks run short.
    pub(crate) fn wants_collection(&self, fraction: f64) -> bool {
        let held = (self.live.len() - self.empty.len()) as f64 * BLOCK_BYTES as f64;
        let garbage = self.garbage_bytes();
        let room = self.empty.len() + self.limit.saturating_sub(self.live.len());
        let short = room <= 2 * SPARE_BLOCKS && garbage > BLOCK_BYTES as u64;
        short || (garbage > 64 * BLOCK_BYTES as u64 && garbage as f64 > fraction * held)
    }

    /// The written block with the fewest bytes that must be kept; `skip`: blocks to leave alone.
    pub(crate) fn emptiest(&self, skip: &[u32]) -> Option<u32> {
        let in_memory = |block: u32| self.in_memory(block).is_some() || skip.contains(&block);
        let blocks = self.live.iter().enumerate().filter(|&(block, &live)| {
            live > 0 && (live as usize) < BLOCK_BYTES * 15 / 16 && !in_memory(block as u32)
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
        if *live == 0 && self.in_memory(block).is_none() {
            self.empty.push(block);
        }
    }

    /// An object's bytes, if its block is still in memory.
    pub(crate) fn buffered(&self, place: DiskPlace) -> Option<&[u8]> {
        let buffer = self.in_memory(place.block)?;
        Some(&buffer.bytes[place.offset as usize..place.offset as usize + place.len])
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
        if self.live[block as usize] == 0 {
            self.empty.push(block);
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

fn write_error(error: IoError) -> HeapError {
    if error.cause.is_full() {
        HeapError::DiskFull(error.to_string())
    } else {
        HeapError::Io(error)
    }
}
