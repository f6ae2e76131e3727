//! The object table: 16 bytes for each object, in memory or not.
//!
//! An entry is two words. All changes of state go through a compare-and-swap of the first:
//!
//! | bits of `state` | free | resident | evicted | busy |
//! |---|---|---|---|---|
//! | 0-1 | 0 | 1 | 2 | 3 |
//! | 2-3 | | touches since the policy looked, at most 3 | zero | 1: it was resident |
//! | 4-15 | | readers | checksum, 32 bits from bit 4 | that of an evicted one |
//! | 16 | | a writer | | |
//! | 17-28 | | pins | | |
//! | 29 | | dirty: the disk has not these bytes | | |
//! | 30 | | the page of the object's address is filled | | |
//! | 31 | | that page stays filled for system calls | | |
//! | 36-63 | generation of the handle, 1 to 2^28 - 1 | same | same | same |
//!
//! | state | bits of `place` |
//! |---|---|
//! | resident | address (0-47), length - 1 (48-63) |
//! | evicted | block (0-27), offset / 8 (28-42), length - 1 (43-58), ghost era (59-63) |
//! | free | the next free id |
//!
//! **INV-OBJ-1.** Whoever moves an entry to busy owns both words until it leaves busy. An entry
//! with readers, a writer or pins is resident and does not become busy.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::atomics::AtomicU64;
use crate::memory::Memory;

/// Names one object of a heap. A freed object's handle is never valid again, until its number
/// has been used 2^28 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(u64);

impl Handle {
    pub(crate) fn new(id: u32, generation: u32) -> Self {
        Handle(u64::from(generation) << 32 | u64::from(id))
    }

    pub(crate) fn id(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The handle as a number that is not zero, to store it or hand it to another language.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The handle that [`Handle::to_bits`] gave. A number that it did not give names no object.
    pub fn from_bits(bits: u64) -> Self {
        Handle(bits)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}.{}", self.id(), self.generation())
    }
}

pub(crate) const FREE: u64 = 0;
pub(crate) const RESIDENT: u64 = 1;
pub(crate) const EVICTED: u64 = 2;
pub(crate) const BUSY: u64 = 3;
pub(crate) const STATE: u64 = 3;
/// Of a busy entry.
const WAS_RESIDENT: u64 = 1 << 2;
pub(crate) const TOUCH: u64 = 1 << 2;
pub(crate) const TOUCHES: u64 = 3 << 2;
pub(crate) const READER: u64 = 1 << 4;
pub(crate) const READERS: u64 = 0xfff << 4;
pub(crate) const WRITER: u64 = 1 << 16;
pub(crate) const PIN: u64 = 1 << 17;
pub(crate) const PINS: u64 = 0xfff << 17;
pub(crate) const DIRTY: u64 = 1 << 29;
pub(crate) const WINDOW: u64 = 1 << 30;
/// With [`WINDOW`] only.
pub(crate) const HELD: u64 = 1 << 31;
pub(crate) const USERS: u64 = READERS | WRITER | PINS | WINDOW;
const CHECKSUM_SHIFT: u32 = 4;
const GENERATION_SHIFT: u32 = 36;
pub(crate) const MAX_GENERATION: u32 = (1 << 28) - 1;

pub(crate) fn with_generation(generation: u32, rest: u64) -> u64 {
    u64::from(generation) << GENERATION_SHIFT | rest
}

pub(crate) fn generation(state: u64) -> u32 {
    (state >> GENERATION_SHIFT) as u32
}

/// The word of an entry that its changer owns. It says where the object is still: an evicted one
/// keeps its checksum.
pub(crate) fn busy(state: u64) -> u64 {
    match state & STATE {
        EVICTED => state | BUSY,
        _ => with_generation(generation(state), BUSY | WAS_RESIDENT),
    }
}

/// What an entry was before it became busy. Its place is that of then, whenever the heap's lock is
/// free.
pub(crate) fn settled(state: u64) -> u64 {
    match state & STATE {
        BUSY if state & WAS_RESIDENT != 0 => with_generation(generation(state), RESIDENT),
        BUSY => state & !STATE | EVICTED,
        _ => state,
    }
}

pub(crate) fn evicted(generation: u32, checksum: u32) -> u64 {
    with_generation(generation, u64::from(checksum) << CHECKSUM_SHIFT | EVICTED)
}

pub(crate) fn checksum(state: u64) -> u32 {
    (state >> CHECKSUM_SHIFT) as u32
}

pub(crate) fn touches(state: u64) -> u64 {
    (state & TOUCHES) / TOUCH
}

/// Where an object's bytes lie on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskPlace {
    pub(crate) block: u32,
    pub(crate) offset: u32,
    pub(crate) len: usize,
    pub(crate) era: u8,
}

impl DiskPlace {
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.block)
            | u64::from(self.offset / 8) << 28
            | (self.len as u64 - 1) << 43
            | u64::from(self.era) << 59
    }

    pub(crate) fn decode(word: u64) -> Self {
        DiskPlace {
            block: (word & ((1 << 28) - 1)) as u32,
            offset: ((word >> 28) & 0x7fff) as u32 * 8,
            len: ((word >> 43) & 0xffff) as usize + 1,
            era: (word >> 59) as u8,
        }
    }
}

pub(crate) fn resident_place(address: usize, len: usize) -> u64 {
    address as u64 | (len as u64 - 1) << 48
}

pub(crate) fn address_and_len(place: u64) -> (usize, usize) {
    ((place & ((1 << 48) - 1)) as usize, (place >> 48) as usize + 1)
}

/// One object. All zeros: free, never used.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) state: AtomicU64,
    pub(crate) place: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 16);

/// A way to use a resident object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) adds: u64,
    pub(crate) excludes: u64,
    /// A count that must have room for one more.
    pub(crate) counts: u64,
}

impl Mode {
    /// Whether the users that a resident entry has admit this one.
    #[inline]
    pub(crate) fn fits(self, state: u64) -> bool {
        state & self.excludes == 0 && (self.counts == 0 || state & self.counts != self.counts)
    }
}

pub(crate) const READ: Mode = Mode { adds: READER, excludes: WRITER | WINDOW, counts: READERS };
pub(crate) const WRITE: Mode =
    Mode { adds: WRITER | DIRTY, excludes: WRITER | READERS | WINDOW, counts: 0 };
pub(crate) const KEEP: Mode = Mode { adds: PIN, excludes: WRITER | WINDOW, counts: PINS };
pub(crate) const FILL: Mode = Mode { adds: READER, excludes: WRITER | PINS, counts: READERS };
pub(crate) const ALONE: Mode = Mode { adds: WRITER | DIRTY, excludes: USERS, counts: 0 };

impl Entry {
    /// Counts a user into a resident entry that [`Mode::fits`], unless the entry has changed.
    #[inline]
    pub(crate) fn take(&self, state: u64, mode: Mode) -> bool {
        let touched = if state & TOUCHES == TOUCHES { state } else { state + TOUCH };
        // A writer's bits are not set yet; a count has room. So adding and setting are the same,
        // but for the dirty mark.
        let new = (touched & !(mode.adds & DIRTY)) + mode.adds;
        self.state.compare_exchange(state, new, AcqRel, Relaxed).is_ok()
    }

    /// Moves an entry that nobody uses to busy, unless it has changed. Both words are the caller's
    /// then (INV-OBJ-1).
    #[inline]
    pub(crate) fn claim(&self, state: u64) -> bool {
        debug_assert!(state & STATE != BUSY && (state & STATE != RESIDENT || state & USERS == 0));
        self.state.compare_exchange(state, busy(state), AcqRel, Relaxed).is_ok()
    }

    /// Ends a claim: whoever finds the state finds the place.
    #[inline]
    pub(crate) fn leave(&self, place: u64, state: u64) {
        debug_assert!(state & STATE != BUSY, "INV-OBJ-1: a claim ends");
        self.place.store(place, Relaxed);
        self.state.store(state, Release);
    }
}

/// Entries that a commit writes together.
pub(crate) const GROUP_ENTRIES: usize = 1024;
const GROUPS: usize = 1 << 22;

/// Groups of entries whose objects, or their places, have changed since the last commit.
#[derive(Debug)]
pub(crate) struct Changes {
    /// A bit each; no words in an ephemeral heap.
    words: Box<[AtomicU64]>,
}

impl Changes {
    pub(crate) fn new(persistent: bool) -> Self {
        let words = if persistent { GROUPS / 64 } else { 0 };
        // SAFETY: an atomic word of zeros is a valid one.
        Changes { words: unsafe { Box::new_zeroed_slice(words).assume_init() } }
    }

    /// Whether commits take them.
    pub(crate) fn are_committed(&self) -> bool {
        !self.words.is_empty()
    }

    pub(crate) fn mark(&self, id: u32) {
        self.mark_group(id / GROUP_ENTRIES as u32);
    }

    pub(crate) fn mark_group(&self, group: u32) {
        if let Some(word) = self.words.get(group as usize / 64) {
            word.fetch_or(1 << (group % 64), Ordering::AcqRel);
        }
    }

    /// Takes out the marks of the first groups.
    pub(crate) fn take(&self, groups: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let first = index as u32 * 64;
            if first >= groups {
                break;
            }
            let beyond = if groups - first < 64 { u64::MAX << (groups - first) } else { 0 };
            let bits = word.fetch_and(beyond, Ordering::AcqRel) & !beyond;
            found.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
        }
        found
    }
}

const PART_ENTRIES: usize = 4096;
/// Bytes of one part of the table.
pub(crate) const PART_BYTES: u64 = (PART_ENTRIES * size_of::<Entry>()) as u64;
const PARTS: usize = 1 << 20;

/// The entries of all objects, in parts that never move.
pub(crate) struct Table {
    memory: Memory,
    parts: Box<[AtomicUsize]>,
}

impl Table {
    pub(crate) fn new(memory: Memory) -> Self {
        // SAFETY: an atomic word of zeros is a valid one.
        let parts = unsafe { Box::new_zeroed_slice(PARTS).assume_init() };
        Table { memory, parts }
    }

    /// The entry of an id; `None` if the table has never been that long.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Entry> {
        let address = self.parts[id as usize / PART_ENTRIES].load(Ordering::Acquire);
        if address == 0 {
            return None;
        }
        let part = address as *const Entry;
        // SAFETY: the address is a part of `PART_ENTRIES` entries that lives as long as the table.
        Some(unsafe { &*part.add(id as usize % PART_ENTRIES) })
    }

    /// Whether an entry for `id` needs another part.
    pub(crate) fn is_missing(&self, id: u32) -> bool {
        self.parts[id as usize / PART_ENTRIES].load(Ordering::Acquire) == 0
    }

    /// Adds the part that `id` lies in. One caller at a time.
    pub(crate) fn add_part(&self, id: u32) {
        assert!(self.is_missing(id), "a part of the table is added once");
        let index = id as usize / PART_ENTRIES;
        let address = self.memory.part(index).map_or_else(
            || {
                // SAFETY: an entry of zeros is a valid one.
                let part: Box<[Entry]> =
                    unsafe { Box::new_zeroed_slice(PART_ENTRIES).assume_init() };
                Box::into_raw(part).cast::<Entry>() as usize
            },
            // What has no memory in an area reads as zeros.
            |part| part.as_ptr() as usize,
        );
        self.parts[index].store(address, Ordering::Release);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if matches!(self.memory, Memory::Area(_)) {
            return;
        }
        for part in &self.parts {
            let address = part.load(Ordering::Relaxed);
            if address == 0 {
                break;
            }
            let slice = std::ptr::slice_from_raw_parts_mut(address as *mut Entry, PART_ENTRIES);
            // SAFETY: the part came from a box of this length, and nobody has the table any more.
            drop(unsafe { Box::from_raw(slice) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_as_written() {
        for (block, offset, len, era) in [(0, 64, 1, 0), ((1 << 28) - 1, 262_136, 65_536, 31)] {
            let place = DiskPlace { block, offset, len, era };
            assert_eq!(DiskPlace::decode(place.encode()), place);
        }
        let state = evicted(MAX_GENERATION, u32::MAX);
        assert_eq!((generation(state), checksum(state)), (MAX_GENERATION, u32::MAX));
        assert_eq!(state & (STATE | TOUCHES), EVICTED);
        let place = resident_place(0x7fff_ffff_fff0, 65_536);
        assert_eq!(address_and_len(place), (0x7fff_ffff_fff0, 65_536));
        let sum = evicted(9, 0x8765_4321);
        assert_eq!((busy(sum) & STATE, settled(busy(sum))), (BUSY, sum));
        let used = with_generation(9, RESIDENT | TOUCHES | DIRTY);
        assert_eq!(settled(busy(used)), with_generation(9, RESIDENT));
        assert_eq!(settled(used), used);
        let handle = Handle::new(7, 9);
        assert_eq!(Handle::from_bits(handle.to_bits()), handle);
    }
}
