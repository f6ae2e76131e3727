//! Histories in real areas: a chain of heaps, each hooked from one before while that goes on
//! allocating, with threads and plain stores, each against a naive model. What a heap held at the
//! hook must be in the hooked one, byte for byte, whatever both do afterwards.

mod common;

use common::seed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use swing::{Area, AreaName, AreaOffset, AreaOptions, ByteLen, LiveGuard, Namespace, Snapshot};
use swing_malloc::{AllocError, Heap, HeapOptions, Malloc};

/// A heap of plain stores, and what is in it: offset to length asked for and the bytes' value.
struct World {
    area: Arc<Area>,
    malloc: Malloc,
    model: BTreeMap<u64, (u64, u8)>,
}

/// Publishes fall between operations of the allocator.
fn guarded(malloc: &Malloc) -> LiveGuard {
    let malloc = malloc.clone();
    Arc::new(move |publish: &mut dyn FnMut()| {
        let _pause = malloc.pause();
        publish();
    })
}

impl World {
    fn new(namespace: &Namespace, name: &str, reserve: ByteLen) -> World {
        let name = AreaName::new(name).unwrap();
        let area = namespace.create(&name, &AreaOptions::with_reserve(reserve)).unwrap();
        area.track().unwrap();
        let area = Arc::new(area);
        let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
        World::with(area, heap, BTreeMap::new())
    }

    fn with(area: Arc<Area>, heap: Heap, model: BTreeMap<u64, (u64, u8)>) -> World {
        let malloc = Malloc::open(heap).unwrap();
        area.guard_live_hooks(Some(guarded(&malloc)));
        area.allow_live_hooks(true).unwrap();
        World { area, malloc, model }
    }

    /// Goes on from what was hooked.
    fn continued(snapshot: Snapshot, name: &str, model: BTreeMap<u64, (u64, u8)>) -> World {
        let area = snapshot.derive(Some(&AreaName::new(name).unwrap())).unwrap();
        area.track().unwrap();
        let area = Arc::new(area);
        let heap = Heap::open(area.clone()).unwrap();
        World::with(area, heap, model)
    }

    fn bytes(&self, offset: u64, len: u64) -> &'static mut [u8] {
        assert!(offset + len <= self.area.geometry().reserve().0);
        // SAFETY: a block of this world, which only the test uses, in an area that lives as long.
        unsafe {
            let at = self.area.base().as_ptr().add(offset as usize);
            std::slice::from_raw_parts_mut(at, len as usize)
        }
    }

    fn add(&mut self, offset: u64, granted: u64, len: u64, value: u8) {
        assert!(granted >= len && offset.is_multiple_of(16));
        if let Some((at, (len, _))) = self.model.range(..offset + granted).next_back() {
            assert!(at + len <= offset, "overlaps the block at {at}");
        }
        self.bytes(offset, len).fill(value);
        self.model.insert(offset, (len, value));
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        let (len, value) = (length(rng), rng.u8(1..));
        let picked = self.model.keys().nth(rng.usize(..self.model.len().max(1))).copied();
        match (rng.u8(..10), picked) {
            (0..5, _) | (_, None) => match self.malloc.allocate(ByteLen(len)) {
                Ok(grant) => self.add(grant.offset.0, grant.len.0, len, value),
                Err(AllocError::Exhausted { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            (5..8, Some(offset)) => {
                self.check_block(offset);
                self.malloc.free(AreaOffset(offset)).unwrap();
                self.model.remove(&offset);
            }
            (_, Some(offset)) => {
                let (had, old) = self.model[&offset];
                match self.malloc.reallocate(AreaOffset(offset), ByteLen(len)) {
                    Ok(grant) => {
                        self.model.remove(&offset);
                        let kept = self.bytes(grant.offset.0, had.min(len));
                        assert!(kept.iter().all(|byte| *byte == old), "the contents go along");
                        self.add(grant.offset.0, grant.len.0, len, value);
                    }
                    Err(AllocError::Exhausted { .. }) => self.check_block(offset),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn check_block(&self, offset: u64) {
        let (len, value) = self.model[&offset];
        assert!(self.malloc.usable_size(AreaOffset(offset)).unwrap().0 >= len);
        assert!(self.bytes(offset, len).iter().all(|byte| *byte == value), "block at {offset}");
    }

    fn verify(&self) {
        self.model.keys().for_each(|offset| self.check_block(*offset));
        let blocks = self.malloc.blocks().unwrap();
        let found: Vec<u64> = blocks.iter().map(|grant| grant.offset.0).collect();
        assert_eq!(found, self.model.keys().copied().collect::<Vec<_>>());
        self.malloc.check().unwrap();
    }
}

/// Lengths around the borders of classes, slabs, extents.
fn length(rng: &mut fastrand::Rng) -> u64 {
    let border = 1_u64 << rng.u32(4..22);
    (border + rng.u64(0..3)).saturating_sub(1 + rng.u64(0..border / 2)).max(1)
}

/// A live hook that shows what the heap holds now, of an owner that may get no processor for long.
fn hook_now(namespace: &Namespace, area: &Area) -> Snapshot {
    let patience = std::time::Duration::from_secs(60);
    let options = swing::HookOptions { patience, ..Default::default() };
    namespace.hook_live_with(area.name().unwrap(), options).unwrap()
}

fn home() -> (tempfile::TempDir, Namespace) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(dir.path()).unwrap();
    (dir, namespace)
}

#[test]
fn heaps_are_hooked_from_heaps_that_were_hooked() {
    let mut rng = fastrand::Rng::with_seed(seed("heaps_are_hooked_from_heaps_that_were_hooked"));
    let (_dir, namespace) = home();
    let mut worlds = vec![World::new(&namespace, "heap-0", ByteLen::gib(1))];
    for made in 1..16 {
        for _ in 0..150 {
            let which = rng.usize(..worlds.len());
            worlds[which].step(&mut rng);
        }
        let which = rng.usize(..worlds.len());
        let origin = &worlds[which];
        let snapshot = hook_now(&namespace, &origin.area);
        let next = World::continued(snapshot, &format!("heap-{made}"), origin.model.clone());
        next.verify();
        worlds.push(next);
        if worlds.len() > 5 {
            let gone = worlds.swap_remove(rng.usize(..worlds.len()));
            gone.verify();
            gone.area.guard_live_hooks(None);
        }
        worlds.iter().for_each(World::verify);
    }
    worlds.iter().for_each(|world| world.area.guard_live_hooks(None));
}

/// Each thread fills its caches and ends; what it held is nobody's but the heap's, in the heap and
/// in whatever was hooked meanwhile.
#[test]
fn threads_end_with_full_caches_while_others_hook() {
    let seed = seed("threads_end_with_full_caches_while_others_hook");
    let (_dir, namespace) = home();
    let world = World::new(&namespace, "threads", ByteLen::gib(1));
    let (done, kept) = (AtomicBool::new(false), AtomicU64::new(0));
    let blocks = std::thread::scope(|scope| {
        let hooker = scope.spawn(|| {
            let mut hooks = 0;
            while !done.load(SeqCst) || hooks == 0 {
                let snapshot = hook_now(&namespace, &world.area);
                let area = Arc::new(snapshot.derive(None).unwrap());
                let hooked = Malloc::open(Heap::open(area).unwrap()).unwrap();
                let report = hooked.check().unwrap();
                // Whose caches were full there is gone here: a new thread takes them over.
                let grants: Vec<_> =
                    (0..300).map(|_| hooked.allocate(ByteLen(64)).unwrap()).collect();
                let now = hooked.check().unwrap();
                assert_eq!(now.blocks, report.blocks + grants.len() as u64);
                hooks += 1;
            }
            hooks
        });
        let mut all = Vec::new();
        for round in 0..6 {
            let work = |id: u64| {
                let (malloc, kept) = (world.malloc.clone(), &kept);
                move || {
                    let mut rng = fastrand::Rng::with_seed(seed + id);
                    let mut mine: Vec<u64> = (0..rng.usize(1..600))
                        .map(|_| malloc.allocate(ByteLen(rng.u64(1..3000))).unwrap().offset.0)
                        .collect();
                    for block in mine.split_off(mine.len() / 3) {
                        malloc.free(AreaOffset(block)).unwrap();
                    }
                    kept.fetch_add(mine.len() as u64, SeqCst);
                    mine
                }
            };
            let threads: Vec<_> = (0..6).map(|id| scope.spawn(work(round * 6 + id))).collect();
            all.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
        }
        done.store(true, SeqCst);
        assert!(hooker.join().unwrap() > 0);
        all
    });
    let report = world.malloc.check().unwrap();
    assert_eq!((report.blocks, report.cached), (kept.load(SeqCst), 0), "nothing is lost, or kept");
    blocks.into_iter().for_each(|block| world.malloc.free(AreaOffset(block)).unwrap());
    world.malloc.drain().unwrap();
    assert_eq!(world.malloc.check().unwrap().blocks, 0);
    world.area.guard_live_hooks(None);
}

#[test]
fn a_heap_that_is_full_recovers_and_so_does_its_hooker() {
    let mut rng = fastrand::Rng::with_seed(seed("a_heap_that_is_full_recovers"));
    let (_dir, namespace) = home();
    let mut world = World::new(&namespace, "full", ByteLen::mib(128));
    let mut room = Vec::new();
    for _ in 0..3 {
        // Addresses run out, not memory: only the first bytes are stored to.
        let len = 1 + rng.u64(1 << 12..1 << 20);
        let (mut count, mut granted) = (0, 0);
        let error = loop {
            match world.malloc.allocate(ByteLen(len)) {
                Ok(grant) => {
                    granted += grant.len.0;
                    world.add(grant.offset.0, grant.len.0, len.min(100), 7);
                }
                Err(error) => break error,
            }
            count += 1;
        };
        assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
        assert!(world.malloc.allocate(ByteLen(len)).is_err(), "full stays full");
        room.push((len, granted));
        let snapshot = hook_now(&namespace, &world.area);
        let name = format!("full-{len}");
        let mut hooked = World::continued(snapshot, &name, world.model.clone());
        assert!(hooked.malloc.allocate(ByteLen(len)).is_err(), "as full as its origin");
        for world in [&mut world, &mut hooked] {
            world.verify();
            for offset in std::mem::take(&mut world.model).into_keys() {
                world.malloc.free(AreaOffset(offset)).unwrap();
            }
            world.malloc.drain().unwrap();
            world.verify();
            // As much as before, where it was.
            let again = (0..count).map_while(|_| world.malloc.allocate(ByteLen(len)).ok());
            let again: Vec<_> = again.collect();
            assert_eq!(again.len(), count, "blocks of {len} bytes");
            again.iter().for_each(|grant| world.malloc.free(grant.offset).unwrap());
            world.malloc.drain().unwrap();
        }
        hooked.area.guard_live_hooks(None);
    }
    assert!(room.iter().all(|(_, granted)| *granted > 96 << 20), "{room:?}");
    world.area.guard_live_hooks(None);
}

#[test]
fn every_alignment_of_every_length_is_kept() {
    let mut rng = fastrand::Rng::with_seed(seed("every_alignment_of_every_length_is_kept"));
    let (_dir, namespace) = home();
    let mut world = World::new(&namespace, "aligned", ByteLen::gib(4));
    let base = world.area.base().as_ptr() as u64;
    for shift in 0..25 {
        let align = 1_u64 << shift;
        for len in [0, 1, 15, 17, 4095, align - 1, align, align + 1, 3 * align, (32 << 10) + 1] {
            match world.malloc.allocate_aligned(ByteLen(len), ByteLen(align)) {
                Ok(grant) => {
                    assert!((base + grant.offset.0).is_multiple_of(align), "{len} at {align}");
                    assert!(grant.len.0 >= len);
                    let (offset, granted) = (grant.offset.0, grant.len.0);
                    assert_eq!(world.malloc.usable_size(grant.offset), Some(grant.len));
                    world.add(offset, granted, len.clamp(1, 5000), rng.u8(1..));
                }
                // The base of an area is at a multiple of 2 MiB, or of more by chance.
                Err(AllocError::Alignment { .. }) => assert!(!base.is_multiple_of(align)),
                Err(error) => panic!("{len} at {align}: {error}"),
            }
        }
    }
    for align in [0, 3, 48, u64::MAX, 1 << 63] {
        let odd = world.malloc.allocate_aligned(ByteLen(8), ByteLen(align));
        assert!(matches!(odd, Err(AllocError::Alignment { .. })), "{align}: {odd:?}");
    }
    for len in [u64::MAX, u64::MAX - 4096, 1 << 63] {
        let long = world.malloc.allocate_aligned(ByteLen(len), ByteLen(4096));
        assert!(long.is_err(), "{len}: {long:?}");
        assert!(world.malloc.allocate(ByteLen(len)).is_err());
    }
    world.verify();
    world.area.guard_live_hooks(None);
}

#[test]
fn reallocating_over_every_border_keeps_the_bytes() {
    let (_dir, namespace) = home();
    let world = World::new(&namespace, "borders", ByteLen::gib(2));
    let malloc = &world.malloc;
    let mut offset = malloc.allocate(ByteLen(1)).unwrap().offset.0;
    world.bytes(offset, 1).fill(1);
    let mut len = 1;
    let mut borders: Vec<u64> =
        (3..25).flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1]).collect();
    borders.extend(borders.clone().into_iter().rev());
    for next in borders {
        let hooked = hook_now(&namespace, &world.area);
        let grant = malloc.reallocate(AreaOffset(offset), ByteLen(next)).unwrap();
        let usable = malloc.usable_size(grant.offset).unwrap();
        assert!(usable == grant.len && usable.0 >= next);
        assert!(usable.0 < 2 * next.max(16) + 16, "{next} bytes got {usable}");
        let kept = world.bytes(grant.offset.0, len.min(next));
        assert!(kept.iter().all(|byte| *byte == 1), "from {len} to {next}");
        world.bytes(grant.offset.0, next).fill(1);
        (offset, len) = (grant.offset.0, next);
        drop(hooked);
    }
    malloc.free(AreaOffset(offset)).unwrap();
    malloc.drain().unwrap();
    assert_eq!(malloc.check().unwrap().blocks, 0);
    world.area.guard_live_hooks(None);
}
