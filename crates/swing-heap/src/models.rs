//! Models of one object on its way between memory and the disk, and of those who write while a
//! state is shared: each order of the threads' steps is run (`make test-concurrency`).

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::entry::{
    DIRTY, EVICTED, Entry, Mode, READ, RESIDENT, STATE, USERS, WRITE, evicted, generation,
    with_generation,
};
use crate::guard::{ReadGuard, WriteGuard};
use crate::writers::Writers;

/// Runs a model in each order of its threads' steps in which they are interrupted three times at
/// most. Without a limit it takes hours.
fn model(act: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(act);
}

/// Of the object's handle.
const GENERATION: u32 = 7;
/// How often somebody tries to get an object that others have.
const TRIES: usize = 2;
/// What a cell holds when it is nobody's.
const NOBODYS: u32 = u32::MAX;

/// A heap of one object, with two cells that it may lie in. The places of a resident entry are
/// numbers of cells.
struct Heap {
    entry: Entry,
    cells: [UnsafeCell<u32>; 2],
    core: Mutex<Core>,
}

/// What the heap's lock protects.
struct Core {
    disk: u32,
    /// The cell that the object comes to next.
    next: usize,
}

impl Heap {
    /// Its object is on the disk, or in the first cell.
    fn new(resident: bool) -> Arc<Self> {
        let entry = Entry::default();
        let state = if resident {
            with_generation(GENERATION, RESIDENT | DIRTY)
        } else {
            evicted(GENERATION, 0)
        };
        entry.leave(0, state);
        let first = if resident { 0 } else { NOBODYS };
        let core = Mutex::new(Core { disk: 0, next: usize::from(resident) });
        let cells = [UnsafeCell::new(first), UnsafeCell::new(NOBODYS)];
        Arc::new(Heap { entry, cells, core })
    }

    fn cell(&self) -> &UnsafeCell<u32> {
        &self.cells[self.entry.place.load(Relaxed) as usize]
    }

    /// As `ObjectHeap::acquire_slowly`, with little patience; returns the number of the cell.
    fn acquire(&self, mode: Mode) -> Option<usize> {
        for _ in 0..TRIES {
            let state = self.entry.state.load(Acquire);
            assert_eq!(generation(state), GENERATION);
            match state & STATE {
                RESIDENT if mode.fits(state) && self.entry.take(state, mode) => {
                    return Some(self.entry.place.load(Relaxed) as usize);
                }
                EVICTED if self.entry.claim(state) => {
                    let mut core = self.core.lock().unwrap();
                    let next = core.next;
                    core.next = 1 - next;
                    // SAFETY: the cell is nobody's, which the model checks.
                    self.cells[next].with_mut(|cell| unsafe { *cell = core.disk });
                    let state = with_generation(GENERATION, RESIDENT | mode.adds);
                    self.entry.leave(next as u64, state);
                    return Some(next);
                }
                _ => thread::yield_now(),
            }
        }
        None
    }

    fn read(&self) -> Option<u32> {
        let address = self.acquire(READ)?;
        let guard = ReadGuard { entry: &self.entry, address, len: 1 };
        // SAFETY: the guard keeps writers away, which the model checks.
        let value = self.cells[guard.address].with(|cell| unsafe { *cell });
        assert_ne!(value, NOBODYS, "the cell is the object's");
        Some(value)
    }

    /// How often it has been added to: once, or not at all.
    fn add(&self) -> u32 {
        let Some(address) = self.acquire(WRITE) else { return 0 };
        let guard = WriteGuard { entry: &self.entry, address, len: 1, _writers: None };
        // SAFETY: the guard keeps everybody else away, which the model checks.
        self.cells[guard.address].with_mut(|cell| unsafe { *cell += 1 });
        1
    }

    /// As `Core::evict`.
    fn evict(&self) -> bool {
        let mut core = self.core.lock().unwrap();
        let state = self.entry.state.load(Acquire);
        if state & STATE != RESIDENT || state & USERS != 0 || !self.entry.claim(state) {
            return false;
        }
        self.cell().with_mut(|cell| {
            // SAFETY: the entry is busy, so nobody uses the cell, which the model checks.
            let value = unsafe { std::mem::replace(&mut *cell, NOBODYS) };
            if state & DIRTY != 0 {
                core.disk = value;
            }
        });
        self.entry.leave(0, evicted(GENERATION, 0));
        true
    }
}

/// Who uses the object, and who moves it, never meet; and nothing that was written gets lost. Fails
/// when a guard ends, a claim ends or either begins with a relaxed order, when eviction does not
/// look for users, and when a write leaves the entry clean.
#[test]
fn an_object_is_written_while_it_leaves_memory_and_comes_back() {
    for resident in [true, false] {
        model(move || {
            let heap = Heap::new(resident);
            let other = heap.clone();
            let writes = thread::spawn(move || other.add());
            let other = heap.clone();
            let evicts = thread::spawn(move || other.evict());
            let own = heap.add();
            let sum = own + writes.join().unwrap();
            evicts.join().unwrap();
            assert_eq!(heap.read(), Some(sum), "nothing is lost");
            assert!(heap.evict(), "nobody uses it");
            assert_eq!(heap.read(), Some(sum), "the disk has it");
        });
    }
}

/// Readers share an object with each other, and see whole writes.
#[test]
fn an_object_is_read_while_it_is_written_and_leaves_memory() {
    model(|| {
        let heap = Heap::new(true);
        let other = heap.clone();
        let reads = thread::spawn(move || {
            if let (Some(first), Some(second)) = (other.read(), other.read()) {
                assert!(first <= second, "what was seen is not taken back");
            }
        });
        let other = heap.clone();
        let evicts = thread::spawn(move || other.evict());
        let sum = heap.add();
        reads.join().unwrap();
        evicts.join().unwrap();
        assert_eq!(heap.read(), Some(sum));
    });
}

/// Nobody writes while a state is shared, and what was written before is seen; also when somebody
/// leaves by another word than it came by. Fails when either side looks before it says that it is
/// there, when either look is relaxed, and when leaving is.
#[test]
fn a_state_is_shared_while_nobody_writes() {
    model(|| {
        let heap = Arc::new((Writers::default(), [UnsafeCell::new(0_u32), UnsafeCell::new(0)]));
        let threads = [(0, 1), (1, 0)].map(|(came, goes)| {
            let heap = heap.clone();
            thread::spawn(move || {
                let (writers, bytes) = &*heap;
                if writers.enter_by(came) {
                    // SAFETY: each thread has a cell of its own; whoever shares looks only while
                    // nobody is inside, which the model checks.
                    bytes[came].with_mut(|byte| unsafe { *byte += 1 });
                    writers.leave_by(goes);
                }
            })
        });
        let (writers, bytes) = &*heap;
        let shut = writers.shut();
        while !writers.is_empty() {
            thread::yield_now();
        }
        // SAFETY: as above.
        bytes.iter().for_each(|byte| byte.with(|byte| unsafe { assert!(*byte <= 1) }));
        drop(shut);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(writers.is_empty());
    });
}
