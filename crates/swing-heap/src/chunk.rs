//! Memory for objects: chunks of 1 MiB, each cut into cells of one size class.
//!
//! A chunk is a header, 24 bytes of facts for each cell ([`Cell`]), then the cells, aligned to 64
//! bytes. All facts are used under the lock of the heap only; the bytes of a cell belong to
//! whoever holds the entry of its object (INV-OBJ-1).

use std::ptr::NonNull;

use crate::classes::cell_bytes;
use crate::memory::Memory;

/// Length and alignment of a chunk.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// The most chunks of a heap.
pub(crate) const MAX_CHUNKS: usize = 1 << 16;
const HEADER_BYTES: usize = 64;

/// Names a cell: chunk number << 16 | index.
pub(crate) type CellRef = u32;
/// No cell.
pub(crate) const NONE: u32 = u32::MAX;

/// Which list a cell is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CellList {
    /// The chunk's free cells.
    Free = 0,
    /// Active list, or S3-FIFO's small one.
    First = 1,
    /// Inactive list, or S3-FIFO's main one.
    Second = 2,
    /// Taken, and in no list yet.
    Detached = 3,
}

/// What the heap knows of one cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Cell {
    pub(crate) id: u32,
    pub(crate) prev: CellRef,
    pub(crate) next: CellRef,
    /// The block that has a copy of the object; [`NONE`]: there is none.
    pub(crate) block: u32,
    pub(crate) checksum: u32,
    pub(crate) offset8: u16,
    pub(crate) list: CellList,
    spare: u8,
}

const _: () = assert!(size_of::<Cell>() == 24);

/// One chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    base: NonNull<u8>,
    pub(crate) class: usize,
    pub(crate) cells: u32,
    cells_start: usize,
    free: CellRef,
    pub(crate) used: u32,
}

/// All chunks of a heap, by number.
#[derive(Debug)]
pub(crate) struct Chunks {
    memory: Memory,
    table: Vec<Option<Chunk>>,
    pub(crate) count: usize,
}

// SAFETY: the mappings belong to the table, not to a thread.
unsafe impl Send for Chunks {}

/// How many cells of a class a chunk holds, and where the first one begins.
fn shape(class: usize) -> (usize, usize) {
    let size = cell_bytes(class);
    let mut cells = (CHUNK_BYTES - HEADER_BYTES) / (size + size_of::<Cell>());
    loop {
        let start = (HEADER_BYTES + cells * size_of::<Cell>()).next_multiple_of(64);
        if start + cells * size <= CHUNK_BYTES {
            return (cells, start);
        }
        cells -= 1;
    }
}

impl Chunks {
    pub(crate) fn new(memory: Memory) -> Self {
        Chunks { memory, table: Vec::new(), count: 0 }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Maps a chunk for a class. `None` if the system has no memory, or no number is left.
    pub(crate) fn add(&mut self, class: usize) -> Option<usize> {
        let number = self.table.iter().position(Option::is_none).unwrap_or(self.table.len());
        if number >= MAX_CHUNKS - 1 {
            return None;
        }
        let (cells, cells_start) = shape(class);
        let base = self.memory.chunk(number)?;
        // SAFETY: the chunk has just been mapped, is aligned, and begins with its header.
        unsafe { base.cast::<u64>().write(number as u64) };
        let chunk = Chunk { base, class, cells: cells as u32, cells_start, free: NONE, used: 0 };
        if number == self.table.len() {
            self.table.push(None);
        }
        self.table[number] = Some(chunk);
        self.count += 1;
        for index in (0..cells as u32).rev() {
            self.link_free((number as u32) << 16 | index);
        }
        Some(number)
    }

    /// Gives an empty chunk's memory back.
    pub(crate) fn remove(&mut self, number: usize) {
        let Some(chunk) = self.table[number].take() else { unreachable!("the chunk exists") };
        assert_eq!(chunk.used, 0, "INV-OBJ-2: a chunk with objects is given back");
        self.count -= 1;
        self.memory.give_chunk_back(number, chunk.base);
    }

    pub(crate) fn get(&self, number: usize) -> &Chunk {
        match &self.table[number] {
            Some(chunk) => chunk,
            None => unreachable!("a cell lies in a chunk that exists"),
        }
    }

    fn get_mut(&mut self, number: usize) -> &mut Chunk {
        match &mut self.table[number] {
            Some(chunk) => chunk,
            None => unreachable!("a cell lies in a chunk that exists"),
        }
    }

    pub(crate) fn cell(&mut self, cell: CellRef) -> &mut Cell {
        let chunk = self.get((cell >> 16) as usize);
        let index = (cell & 0xffff) as usize;
        assert!(index < chunk.cells as usize, "INV-OBJ-2: a cell outside of its chunk");
        // SAFETY: the index is in range, facts are valid in any bytes that `link_free` has
        // written, and the exclusive borrow of the table is the only way to them.
        unsafe { &mut *chunk.base.as_ptr().add(HEADER_BYTES).cast::<Cell>().add(index) }
    }

    /// The address of a cell's bytes.
    pub(crate) fn address(&self, cell: CellRef) -> usize {
        let chunk = self.get((cell >> 16) as usize);
        let index = (cell & 0xffff) as usize;
        chunk.base.as_ptr() as usize + chunk.cells_start + index * cell_bytes(chunk.class)
    }

    /// The cell whose bytes begin at an address.
    pub(crate) fn cell_at(&self, address: usize) -> CellRef {
        let base = address & !(CHUNK_BYTES - 1);
        // SAFETY: resident objects lie in chunks, which begin with their number.
        let number = unsafe { *(base as *const u64) } as usize;
        let chunk = self.get(number);
        let index = (address - base - chunk.cells_start) / cell_bytes(chunk.class);
        (number as u32) << 16 | index as u32
    }

    fn link_free(&mut self, cell: CellRef) {
        let chunk = self.get_mut((cell >> 16) as usize);
        let next = std::mem::replace(&mut chunk.free, cell);
        let fresh = Cell {
            id: NONE,
            prev: NONE,
            next,
            block: NONE,
            checksum: 0,
            offset8: 0,
            list: CellList::Free,
            spare: 0,
        };
        let index = (cell & 0xffff) as usize;
        assert!(index < chunk.cells as usize, "INV-OBJ-2: a cell outside of its chunk");
        // SAFETY: the index is in range; the write makes the facts valid.
        unsafe { chunk.base.as_ptr().add(HEADER_BYTES).cast::<Cell>().add(index).write(fresh) };
    }

    /// Takes a free cell of a chunk.
    pub(crate) fn take(&mut self, number: usize) -> Option<CellRef> {
        let cell = self.get(number).free;
        if cell == NONE {
            return None;
        }
        let facts = self.cell(cell);
        assert_eq!(facts.list, CellList::Free, "INV-OBJ-2: a used cell is handed out");
        facts.list = CellList::Detached;
        let next = facts.next;
        let chunk = self.get_mut(number);
        chunk.free = next;
        chunk.used += 1;
        Some(cell)
    }

    /// Gives a cell back that is in no list.
    pub(crate) fn give_back(&mut self, cell: CellRef) {
        assert_eq!(self.cell(cell).list, CellList::Detached, "INV-OBJ-2: a listed cell is freed");
        self.link_free(cell);
        self.get_mut((cell >> 16) as usize).used -= 1;
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if matches!(self.memory, Memory::Area(_)) {
            // It goes with its area.
            return;
        }
        for (number, chunk) in self.table.iter().enumerate() {
            if let Some(chunk) = chunk {
                self.memory.give_chunk_back(number, chunk.base);
            }
        }
    }
}
