//! Where the heap's objects, its table and its buffers lie: in memory of the process, or in an area
//! that other processes see states of.
//!
//! | in the area | what |
//! |---|---|
//! | from 0 | the object table, 16 bytes an id, extents of 64 KiB |
//! | from 4 GiB | the buffers of blocks that are not written yet, 1 MiB |
//! | behind them | chunks of 1 MiB, by number |
//!
//! The area is tracked: a store into what a state shows is trapped, and copied by the handler of
//! `swing`, whoever stores. So all code of the heap stores as it does into other memory.
//!
//! Chunks consist of whole extents. So a chunk that is given back gives its memory back, except for
//! what states show.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};
use swing::{Area, AreaName, AreaOffset, AreaOptions, ByteLen, Namespace};

use crate::chunk::{CHUNK_BYTES, MAX_CHUNKS};
use crate::disk::{BLOCK_BYTES, BUFFERS};
use crate::entry::PART_BYTES;

/// Ids of a heap in an area.
pub(crate) const MAX_AREA_IDS: u32 = 1 << 28;
/// Where the buffers begin.
pub(crate) const DATA_START: u64 = MAX_AREA_IDS as u64 * 16;
/// Where the chunks begin.
pub(crate) const CHUNKS_START: u64 = DATA_START + CHUNK_BYTES as u64;
const RESERVE: u64 = (CHUNKS_START + (MAX_CHUNKS * CHUNK_BYTES) as u64).next_multiple_of(2 << 20);
/// The smallest extents, the unit of copying.
const MIN_EXTENT: u64 = 64 << 10;
/// Extents that a budget is cut into, about. Each may become a mapping of its own, of which a
/// process has 65530.
const EXTENTS_OF_BUDGET: u64 = 8192;

const _: () = assert!(BUFFERS * BLOCK_BYTES <= CHUNK_BYTES);
const _: () = assert!(DATA_START.is_multiple_of(CHUNK_BYTES as u64));

/// An area that a heap lies in, and its name. When dropped the name is removed; whoever sees a
/// state of it goes on seeing it.
#[derive(Debug)]
pub(crate) struct AreaMemory {
    area: Option<Area>,
    namespace: Namespace,
    name: AreaName,
}

impl AreaMemory {
    pub(crate) fn new(area: Area, namespace: Namespace, name: AreaName) -> Self {
        AreaMemory { area: Some(area), namespace, name }
    }

    pub(crate) fn area(&self) -> &Area {
        match &self.area {
            Some(area) => area,
            None => unreachable!("the area goes with its last user"),
        }
    }

    fn address(&self, offset: u64) -> NonNull<u8> {
        assert!(offset < RESERVE, "an offset of the area");
        // SAFETY: the offset lies in the area's range of addresses.
        unsafe { self.area().base().add(offset as usize) }
    }
}

impl Drop for AreaMemory {
    fn drop(&mut self) {
        // The owner's lock goes first.
        drop(self.area.take());
        // What cannot be removed now is removed by who opens a heap of the same name.
        let _ = self.namespace.remove(&self.name);
    }
}

/// The options of an area for a heap of this budget.
pub(crate) fn area_options(budget: u64) -> AreaOptions {
    let extent = (budget / EXTENTS_OF_BUDGET).max(1).next_power_of_two();
    AreaOptions {
        small_zone: ByteLen(DATA_START),
        extent: ByteLen(extent.clamp(MIN_EXTENT, CHUNK_BYTES as u64)),
        ..AreaOptions::with_reserve(ByteLen(RESERVE))
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) enum Memory {
    #[default]
    Process,
    Area(Arc<AreaMemory>),
}

impl Memory {
    /// Memory of zeros for the chunk of a number, or of old bytes where there was one.
    pub(crate) fn chunk(&self, number: usize) -> Option<NonNull<u8>> {
        match self {
            Memory::Process => map_aligned(),
            Memory::Area(memory) => Some(memory.address(chunk_start(number))),
        }
    }

    /// Gives a chunk's memory back.
    pub(crate) fn give_chunk_back(&self, number: usize, base: NonNull<u8>) {
        match self {
            Memory::Process => {
                // SAFETY: the mapping is the chunk's own, and no object lies in it any more.
                let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), CHUNK_BYTES) };
            }
            Memory::Area(memory) => {
                let start = chunk_start(number);
                let range = AreaOffset(start)..AreaOffset(start + CHUNK_BYTES as u64);
                // What stays is used by the next chunk of that number.
                let _ = memory.area().discard(range);
            }
        }
    }

    /// Gives back what an area keeps of given-back chunks for the next ones, when there will be
    /// fewer.
    pub(crate) fn give_spare_back(&self) {
        if let Memory::Area(memory) = self {
            // What stays is given back by a later call.
            let _ = memory.area().reclaim();
        }
    }

    /// Where a part of the object table lies, if that is in the area.
    pub(crate) fn part(&self, part: usize) -> Option<NonNull<u8>> {
        match self {
            Memory::Process => None,
            Memory::Area(memory) => Some(memory.address(part as u64 * PART_BYTES)),
        }
    }

    /// The bytes of a buffer.
    pub(crate) fn block(&self, buffer: usize) -> BlockBytes {
        assert!(buffer < BUFFERS, "one of the buffers");
        match self {
            Memory::Process => BlockBytes::Process(vec![0; BLOCK_BYTES].into_boxed_slice()),
            Memory::Area(memory) => {
                let at = memory.address(DATA_START + (buffer * BLOCK_BYTES) as u64);
                BlockBytes::Area { at, _memory: memory.clone() }
            }
        }
    }
}

fn chunk_start(number: usize) -> u64 {
    assert!(number < MAX_CHUNKS, "the number of a chunk");
    CHUNKS_START + (number * CHUNK_BYTES) as u64
}

/// The memory of a buffer, [`BLOCK_BYTES`] long.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    Process(Box<[u8]>),
    Area { at: NonNull<u8>, _memory: Arc<AreaMemory> },
}

// SAFETY: memory of the process or of an area, which no thread has for itself.
unsafe impl Send for BlockBytes {}

impl std::ops::Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BlockBytes::Process(bytes) => bytes,
            // SAFETY: the buffer's part of the area, which lives as long as the buffer.
            BlockBytes::Area { at, .. } => unsafe {
                std::slice::from_raw_parts(at.as_ptr(), BLOCK_BYTES)
            },
        }
    }
}

impl std::ops::DerefMut for BlockBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            BlockBytes::Process(bytes) => bytes,
            // SAFETY: as for reading, and the borrow is exclusive: no other code has the address.
            BlockBytes::Area { at, .. } => unsafe {
                std::slice::from_raw_parts_mut(at.as_ptr(), BLOCK_BYTES)
            },
        }
    }
}

/// 1 MiB of zeros, aligned to 1 MiB.
fn map_aligned() -> Option<NonNull<u8>> {
    let flags = MapFlags::PRIVATE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice disturbs nothing.
    let raw =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), 2 * CHUNK_BYTES, access, flags) };
    let start = raw.ok()? as usize;
    let base = start.next_multiple_of(CHUNK_BYTES);
    for (from, to) in [(start, base), (base + CHUNK_BYTES, start + 2 * CHUNK_BYTES)] {
        if from < to {
            // SAFETY: both ends are parts of the mapping that has just been made.
            let _ = unsafe { rustix::mm::munmap(from as *mut _, to - from) };
        }
    }
    NonNull::new(base as *mut u8)
}
