//! A memory that checks the rules: a vector with extent states, a barrier that can be made to fail,
//! and a copy of everything that was published, to see that nobody writes to it.
#![allow(dead_code, reason = "each test uses its part")]

pub mod world;

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use swing::{ByteLen, ExtentState, WriteError};
use swing_malloc::{Heap, HeapOptions, Memory, Space};

const ABSENT: u8 = 0;
const PRIVATE: u8 = 1;
const FROZEN: u8 = 2;

/// Address space without backing until touched, like an area. Absent extents of the small zone can
/// not be accessed at all.
#[derive(Debug)]
pub struct TestMemory {
    base: NonNull<u8>,
    space: Space,
    states: Vec<AtomicU8>,
    /// The extents of the small zone as they were published last.
    published: Mutex<HashMap<usize, Vec<u8>>>,
    /// Barriers that succeed before they begin to fail; negative: never.
    fuel: AtomicI64,
    /// The next barrier panics.
    panics: AtomicBool,
    broken: AtomicBool,
    /// Frozen extents that a barrier has copied, in both zones.
    pub copies: AtomicU64,
    pub discards: AtomicU64,
}

// SAFETY: the memory is owned, and its users (the heap) synchronise their accesses.
unsafe impl Send for TestMemory {}
// SAFETY: as above.
unsafe impl Sync for TestMemory {}

impl TestMemory {
    pub fn new(reserve: u64) -> Arc<Self> {
        let small_zone = (reserve / 64).next_multiple_of(2 << 20);
        Self::with(Space { reserve, small_zone, small_extent: 64 << 10, data_extent: 2 << 20 })
    }

    pub fn with(space: Space) -> Arc<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let len = space.reserve as usize;
        // SAFETY: a new mapping at any address; its pages stay untouched until they are used.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let base = NonNull::new(base.cast()).unwrap();
        let extents = space.small_zone / space.small_extent
            + (space.reserve - space.small_zone) / space.data_extent;
        let memory = TestMemory {
            base,
            space,
            states: (0..extents).map(|_| AtomicU8::new(ABSENT)).collect(),
            published: Mutex::new(HashMap::new()),
            fuel: AtomicI64::new(-1),
            panics: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            copies: AtomicU64::new(0),
            discards: AtomicU64::new(0),
        };
        memory.allow(0..memory.small_extents(), libc::PROT_NONE);
        Arc::new(memory)
    }

    /// Access to extents of the small zone.
    fn allow(&self, extents: Range<usize>, access: libc::c_int) {
        let len = self.space.small_extent as usize;
        // SAFETY: whole extents of the test's own memory.
        let done = unsafe {
            let at = self.base.as_ptr().add(extents.start * len);
            libc::mprotect(at.cast(), extents.len() * len, access)
        };
        assert_eq!(done, 0);
    }

    fn is_absent(&self, index: usize) -> bool {
        self.states[index].load(SeqCst) == ABSENT
    }

    fn extent_of(&self, offset: u64) -> usize {
        assert!(offset < self.space.reserve, "offset {offset} is outside");
        let Space { small_zone, small_extent, data_extent, .. } = self.space;
        let index = match offset.checked_sub(small_zone) {
            None => offset / small_extent,
            Some(data) => small_zone / small_extent + data / data_extent,
        };
        index as usize
    }

    fn small(&self) -> &[u8] {
        // SAFETY: inside the allocation; tests look while nobody writes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.space.small_zone as usize) }
    }

    /// Overwrites a byte behind the heap's back, if there is memory.
    pub fn poke(&self, at: u64, value: u8) {
        assert!(at < self.space.small_zone);
        if self.is_absent(self.extent_of(at)) {
            return;
        }
        // SAFETY: inside the allocation, no other thread runs.
        unsafe { self.base.as_ptr().add(at as usize).write(value) }
    }

    pub fn peek(&self, at: u64) -> u8 {
        if self.is_absent(self.extent_of(at)) { 0 } else { self.small()[at as usize] }
    }

    /// The next `barriers` calls succeed, those after them fail.
    pub fn fail_after(&self, barriers: Option<u64>) {
        self.fuel.store(barriers.map_or(-1, |n| n as i64), SeqCst);
    }

    /// The next call panics, as a check inside of it does that fails.
    pub fn panic_next(&self) {
        self.panics.store(true, SeqCst);
    }

    fn small_extent(&self, index: usize) -> &[u8] {
        let extent = self.space.small_extent as usize;
        &self.small()[index * extent..(index + 1) * extent]
    }

    fn small_extents(&self) -> usize {
        (self.space.small_zone / self.space.small_extent) as usize
    }

    /// Everything private becomes frozen.
    pub fn publish(&self) {
        let mut published = self.published.lock().unwrap();
        for (i, state) in self.states.iter().enumerate() {
            let was = state.compare_exchange(PRIVATE, FROZEN, SeqCst, SeqCst);
            if was.is_ok() && i < self.small_extents() {
                published.insert(i, self.small_extent(i).to_vec());
            }
        }
    }

    /// Nothing frozen was written since.
    pub fn assert_frozen_is_intact(&self) {
        for (i, bytes) in self.published.lock().unwrap().iter() {
            if self.states[*i].load(SeqCst) == FROZEN {
                assert!(self.small_extent(*i) == bytes, "INV-HEAP-2: extent {i}");
            }
        }
    }

    /// A writable version of the present state, as after a hook.
    pub fn derive(&self) -> Arc<Self> {
        let child = Self::with(self.space);
        let mut published = child.published.lock().unwrap();
        for (i, state) in self.states.iter().enumerate() {
            if state.load(SeqCst) == ABSENT {
                continue;
            }
            child.states[i].store(FROZEN, SeqCst);
            if i < self.small_extents() {
                child.allow(i..i + 1, libc::PROT_READ | libc::PROT_WRITE);
                let bytes = self.small_extent(i);
                let at = i * bytes.len();
                // SAFETY: both have the same size, and the child is not shared yet.
                unsafe {
                    child
                        .base
                        .as_ptr()
                        .add(at)
                        .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
                };
                published.insert(i, bytes.to_vec());
            }
        }
        drop(published);
        child
    }

    /// Extents with memory.
    pub fn present(&self) -> usize {
        self.states.iter().filter(|s| s.load(SeqCst) != ABSENT).count()
    }

    pub fn take_copies(&self) -> u64 {
        self.copies.swap(0, SeqCst)
    }
}

impl Drop for TestMemory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nobody uses it any more.
        let done = unsafe { libc::munmap(self.base.as_ptr().cast(), self.space.reserve as usize) };
        assert_eq!(done, 0);
    }
}

// SAFETY: the allocation lives as long as the value and is readable and writable throughout; absent
// extents of the small zone are zeroed when they are discarded.
unsafe impl Memory for TestMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn space(&self) -> Space {
        self.space
    }

    fn state(&self, offset: u64) -> ExtentState {
        match self.states[self.extent_of(offset)].load(SeqCst) {
            ABSENT => ExtentState::Absent,
            PRIVATE => ExtentState::Private,
            _ => ExtentState::Frozen,
        }
    }

    fn make_writable(&self, range: Range<u64>) -> Result<(), WriteError> {
        assert!(range.start < range.end && range.end <= self.space.reserve);
        assert!(!self.panics.swap(false, SeqCst), "what the test has asked for");
        let fuel = self.fuel.load(SeqCst);
        if fuel == 0 {
            let (needed, free) = (ByteLen(range.end - range.start), ByteLen(0));
            return Err(WriteError::OutOfMemory { needed, file_system: "/test".into(), free });
        }
        if fuel > 0 {
            self.fuel.store(fuel - 1, SeqCst);
        }
        for i in self.extent_of(range.start)..=self.extent_of(range.end - 1) {
            if self.is_absent(i) && i < self.small_extents() {
                self.allow(i..i + 1, libc::PROT_READ | libc::PROT_WRITE);
            }
            if self.states[i].swap(PRIVATE, SeqCst) == FROZEN {
                self.copies.fetch_add(1, SeqCst);
            }
        }
        Ok(())
    }

    fn check_writer(&self) -> Result<(), WriteError> {
        Ok(())
    }

    fn check_whole(&self) -> Result<(), WriteError> {
        if self.broken.load(SeqCst) { Err(WriteError::Broken) } else { Ok(()) }
    }

    fn break_off(&self) {
        self.broken.store(true, SeqCst);
    }

    fn discard(&self, range: Range<u64>) -> Result<(), WriteError> {
        assert!(range.start < range.end && range.end <= self.space.reserve, "{range:?}");
        let (first, last) = (self.extent_of(range.start), self.extent_of(range.end - 1));
        let extents = first..last + 1;
        if range.end <= self.space.small_zone {
            self.allow(extents.clone(), libc::PROT_READ | libc::PROT_WRITE);
            let (at, len) = (range.start as usize, (range.end - range.start) as usize);
            // SAFETY: inside the allocation; the heap discards only what nobody uses.
            unsafe { self.base.as_ptr().add(at).write_bytes(0, len) };
            self.allow(extents.clone(), libc::PROT_NONE);
        }
        for i in extents {
            self.states[i].store(ABSENT, SeqCst);
            self.discards.fetch_add(1, SeqCst);
        }
        Ok(())
    }
}

/// A new heap over test memory of this size.
pub fn heap(reserve: u64) -> (Arc<TestMemory>, Heap<TestMemory>) {
    let memory = TestMemory::new(reserve);
    let heap = Heap::create(memory.clone(), HeapOptions::default()).unwrap();
    (memory, heap)
}

/// The seed of a randomized test: `SWING_SEED` or a new one, printed so that a failure can be run
/// again.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("SWING_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{test}: SWING_SEED={seed}");
    seed
}
