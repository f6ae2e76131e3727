//! The policies against reference simulations that know nothing of cells or entries: on the same
//! trace, the same number of hits.

mod common;

use std::collections::{HashMap, VecDeque};

use common::{on_disk, seed};
use swing_heap::{HeapOptions, ObjectHeap, PolicyKind};

const OBJECTS: usize = 8000;
const LEN: usize = 4096;

/// Two FIFO queues of the paper; fronts are heads.
#[derive(Default)]
struct TwoLists {
    active: VecDeque<usize>,
    inactive: VecDeque<usize>,
    touched: HashMap<usize, bool>,
}

impl TwoLists {
    fn access(&mut self, id: usize, capacity: usize) -> bool {
        if let Some(touched) = self.touched.get_mut(&id) {
            *touched = true;
            return true;
        }
        if self.touched.len() == capacity {
            self.evict();
        }
        self.active.push_front(id);
        self.touched.insert(id, true);
        false
    }

    fn evict(&mut self) {
        loop {
            if self.active.len() > self.touched.len() / 2 || self.inactive.is_empty() {
                let id = self.active.pop_back().unwrap();
                if std::mem::take(self.touched.get_mut(&id).unwrap()) {
                    self.active.push_front(id);
                } else {
                    self.inactive.push_front(id);
                }
            } else {
                let id = self.inactive.pop_back().unwrap();
                if std::mem::take(self.touched.get_mut(&id).unwrap()) {
                    self.active.push_front(id);
                } else {
                    self.touched.remove(&id);
                    return;
                }
            }
        }
    }
}

/// S3-FIFO with a ghost list counted in eras; fronts are heads.
#[derive(Default)]
struct S3Fifo {
    small: VecDeque<usize>,
    main: VecDeque<usize>,
    touches: HashMap<usize, u32>,
    ghosts: HashMap<usize, u64>,
    left: u64,
}

impl S3Fifo {
    fn now(&self) -> u64 {
        self.left / (self.touches.len() as u64 / 8).max(1) % 31
    }

    fn access(&mut self, id: usize, capacity: usize) -> bool {
        if let Some(touches) = self.touches.get_mut(&id) {
            *touches = (*touches + 1).min(3);
            return true;
        }
        if self.touches.len() == capacity {
            self.evict();
        }
        let recent = self.ghosts.remove(&id).is_some_and(|era| (self.now() + 31 - era) % 31 < 8);
        if recent {
            self.main.push_front(id)
        } else {
            self.small.push_front(id)
        }
        self.touches.insert(id, 0);
        false
    }

    fn evict(&mut self) {
        loop {
            if self.small.len() > self.touches.len() / 10 || self.main.is_empty() {
                let id = self.small.pop_back().unwrap();
                if self.touches[&id] >= 2 {
                    self.touches.insert(id, 0);
                    self.main.push_front(id);
                } else {
                    self.ghosts.insert(id, self.now());
                    self.left += 1;
                    self.touches.remove(&id);
                    return;
                }
            } else {
                let id = self.main.pop_back().unwrap();
                match self.touches[&id] {
                    0 => {
                        self.touches.remove(&id);
                        return;
                    }
                    more => {
                        self.touches.insert(id, more - 1);
                        self.main.push_front(id);
                    }
                }
            }
        }
    }
}

/// Runs a skewed trace, on the heap and on a simulation with the room that the heap had.
fn compare(policy: PolicyKind, simulate: &mut dyn FnMut(usize, usize) -> bool) {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let folder = on_disk();
    let options = HeapOptions { budget: 21 << 19, policy, ..HeapOptions::default() };
    let heap = ObjectHeap::open(folder.path(), options).unwrap();
    let handles: Vec<_> =
        (0..OBJECTS).map(|i| heap.alloc_from(&vec![i as u8; LEN]).unwrap()).collect();
    // The budget is eight chunks, and half of one for metadata to grow in: the room never changes.
    heap.read(handles[0]).unwrap();
    let capacity = heap.stats().unwrap().resident_objects as usize;
    let before = heap.stats().unwrap().hits;
    assert!(capacity > 1000, "{capacity}");
    let mut random = fastrand::Rng::with_seed(seed);
    let trace: Vec<usize> = (0..20_000)
        .map(|_| match random.u32(..10) {
            0..8 => random.usize(..OBJECTS / 5),
            _ => random.usize(..OBJECTS),
        })
        .collect();
    for i in 0..OBJECTS {
        simulate(i, capacity);
    }
    simulate(0, capacity);
    let expected = trace.iter().filter(|&&id| simulate(id, capacity)).count();
    for &id in &trace {
        assert_eq!(heap.read(handles[id]).unwrap()[0], id as u8);
    }
    let stats = heap.stats().unwrap();
    assert_eq!(stats.resident_objects as usize, capacity, "the room changed");
    println!("{policy:?}: {expected} hits of {}", trace.len());
    assert_eq!((stats.hits - before) as usize, expected, "seed {seed}");
}

#[test]
fn two_lists_hit_as_the_simulation_does() {
    let mut model = TwoLists::default();
    compare(PolicyKind::TwoLists, &mut |id, capacity| model.access(id, capacity));
}

#[test]
fn s3_fifo_hits_as_the_simulation_does() {
    let mut model = S3Fifo::default();
    compare(PolicyKind::S3Fifo, &mut |id, capacity| model.access(id, capacity));
}
