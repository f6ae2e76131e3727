//! On real areas: what a process allocates and stores, another one hooks, derives from, and goes on
//! allocating in, while the first goes on as well.

use std::sync::Arc;
use swing::{Area, PublishError, WriteError, WriteIntent};
use swing::{AreaName, AreaOffset, AreaOptions, ByteLen, ExtentState, Namespace, Publish};
use swing_malloc::{AllocError, Heap, HeapError, HeapOptions, Malloc, Memory};
use tempfile::TempDir;

fn namespace() -> (TempDir, Namespace) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(dir.path()).unwrap();
    (dir, namespace)
}

fn options() -> AreaOptions {
    AreaOptions::with_reserve(ByteLen::gib(4))
}

fn name(text: &str) -> AreaName {
    AreaName::new(text).unwrap()
}

/// Stores `value` in every byte of a new block.
fn store(area: &Area, heap: &Heap, len: u64, value: u8) -> (AreaOffset, u64) {
    let grant = heap.allocate(ByteLen(len)).unwrap();
    area.make_writable(grant.offset..grant.offset + grant.len, WriteIntent::Overwrite).unwrap();
    // SAFETY: the block was just granted and made writable; nobody else knows it.
    unsafe {
        let to = area.base().as_ptr().add(grant.offset.as_usize());
        to.write_bytes(value, grant.len.as_usize());
    }
    (grant.offset, grant.len.0)
}

/// True if every byte of the block has this value at this base address.
fn holds(base: std::ptr::NonNull<u8>, (offset, len): (AreaOffset, u64), value: u8) -> bool {
    // SAFETY: the tests only look at blocks that were stored to and not freed.
    let bytes =
        unsafe { std::slice::from_raw_parts(base.as_ptr().add(offset.as_usize()), len as usize) };
    bytes.iter().all(|byte| *byte == value)
}

#[test]
fn a_derived_heap_allocates_while_the_parent_goes_on() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create(&name("parent"), &options()).unwrap());
    let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
    let sizes = [100, 5000, 40_000, 1 << 20, 5 << 20];
    let blocks: Vec<_> = sizes.iter().map(|len| store(&area, &heap, *len, 1)).collect();
    {
        let _pause = heap.pause();
        area.publish(Publish::Shared, b"").unwrap();
    }
    let snapshot = namespace.hook(&name("parent")).unwrap();
    // The derived area lives in its snapshot's own address range, so another hook is the witness.
    let witness = namespace.hook(&name("parent")).unwrap();
    let child_area = Arc::new(snapshot.derive(None).unwrap());
    let child = Heap::open(child_area.clone()).unwrap();
    assert_eq!(child.blocks().unwrap(), heap.blocks().unwrap());

    // Both go on; the same offsets may be given by both.
    let mine: Vec<_> = sizes.iter().map(|len| store(&child_area, &child, *len, 2)).collect();
    child.free(blocks[2].0).unwrap();
    child.free(blocks[4].0).unwrap();
    let theirs: Vec<_> = sizes.iter().map(|len| store(&area, &heap, *len, 3)).collect();
    heap.free(blocks[0].0).unwrap();

    assert!(mine.iter().all(|block| holds(child_area.base(), *block, 2)));
    assert!(theirs.iter().all(|block| holds(area.base(), *block, 3)));
    assert!(blocks[1..].iter().all(|block| holds(area.base(), *block, 1)));
    assert!(blocks[..2].iter().all(|block| holds(child_area.base(), *block, 1)));
    assert!(blocks.iter().all(|block| holds(witness.base(), *block, 1)));
    heap.check().unwrap();
    child.check().unwrap();
}

#[test]
fn an_adopted_heap_is_as_it_was_committed() {
    let (_dir, namespace) = namespace();
    let committed;
    {
        let area = Arc::new(namespace.create(&name("adopted"), &options()).unwrap());
        let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
        for i in 0..100 {
            store(&area, &heap, 1000 + i * 997, 1);
        }
        area.publish(Publish::Committed, b"").unwrap();
        committed = heap.blocks().unwrap();
        // Never committed: gone with the owner.
        store(&area, &heap, 100_000, 2);
        heap.free(committed[7].offset).unwrap();
    }
    let area = Arc::new(namespace.open_area(&name("adopted")).unwrap());
    let heap = Heap::open(area.clone()).unwrap();
    assert_eq!(heap.blocks().unwrap(), committed);
    store(&area, &heap, 100_000, 3);
    heap.check().unwrap();
}

#[test]
fn freed_extents_give_their_memory_back() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create_unnamed(&options()).unwrap());
    let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
    let before = area.stats().mapped;
    let blocks: Vec<_> = (0..20).map(|_| store(&area, &heap, 3 << 20, 1)).collect();
    let small: Vec<_> = (0..200).map(|_| store(&area, &heap, 3000, 1)).collect();
    assert!(area.stats().mapped.0 >= before.0 + (80 << 20));
    for (offset, _) in blocks.iter().chain(&small) {
        heap.free(*offset).unwrap();
    }
    // Only clusters of metadata are left.
    assert!(area.stats().mapped.0 <= before.0 + ((4 * 64) << 10));
    let extent = area.geometry().extent_of(blocks[0].0);
    assert_eq!(area.extent_state(extent), ExtentState::Absent);
    heap.check().unwrap();
}

#[test]
fn after_a_publish_a_commit_copies_two_extents_of_metadata_a_zone() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create_unnamed(&options()).unwrap());
    let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
    for i in 0..50 {
        store(&area, &heap, 2000 + i * 10_000, 1);
    }
    let reader = {
        area.publish(Publish::Shared, b"").unwrap();
        area.freeze_view().unwrap()
    };
    let copied = area.stats().copied.0;
    store(&area, &heap, 500, 2);
    store(&area, &heap, 50_000, 2);
    // Header, a cluster of each tree; the blocks go to fresh extents.
    assert!(area.stats().copied.0 - copied <= 3 * (64 << 10));
    drop(reader);
    heap.check().unwrap();
}

#[test]
fn an_area_without_a_heap_is_refused() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create_unnamed(&options()).unwrap());
    assert!(matches!(Heap::open(area), Err(HeapError::NoHeap { found: 0 })));
}

#[test]
fn threads_allocate_store_and_free_in_a_real_area() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create_unnamed(&options()).unwrap());
    let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for id in 0..4_u8 {
            let (area, heap) = (&area, &heap);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(id.into());
                let mut mine = Vec::new();
                for _ in 0..300 {
                    mine.push(store(area, heap, rng.u64(1..200_000), id));
                    if mine.len() > 20 {
                        let block = mine.swap_remove(rng.usize(..mine.len()));
                        assert!(holds(area.base(), block, id));
                        heap.free(block.0).unwrap();
                    }
                }
                assert!(mine.iter().all(|block| holds(area.base(), *block, id)));
            });
        }
    });
    heap.check().unwrap();
}

#[test]
fn extents_of_any_size_are_given_back_when_they_are_free() {
    let (_dir, namespace) = namespace();
    for extent in [ByteLen::kib(64), ByteLen::kib(512), ByteLen::mib(2), ByteLen::mib(32)] {
        let options = AreaOptions { extent, ..options() };
        let area = Arc::new(namespace.create_unnamed(&options).unwrap());
        assert_eq!(area.space().data_extent, extent.0);
        let malloc =
            Malloc::open(Heap::create(area.clone(), HeapOptions::default()).unwrap()).unwrap();
        let before = area.stats().own;
        let blocks: Vec<_> = [100, 5000, 40_000, 300_000, 1 << 20, 70 << 20]
            .into_iter()
            .map(|len| {
                let grant = malloc.allocate(ByteLen(len)).unwrap();
                let end = grant.offset + ByteLen(len);
                area.make_writable(grant.offset..end, WriteIntent::Overwrite).unwrap();
                grant.offset
            })
            .collect();
        malloc.check().unwrap();
        assert!(area.stats().own.0 > before.0 + (71 << 20));
        blocks.into_iter().for_each(|block| malloc.free(block).unwrap());
        malloc.drain().unwrap();
        malloc.check().unwrap();
        // What is left is metadata, and one slab of each class that was used.
        let left = area.stats().own.0 - before.0;
        assert!(left < (2 << 20) + 8 * extent.0, "{extent}: {left} bytes");
    }
}

/// What an allocator has left half changed is neither used nor published.
#[test]
fn an_area_that_is_given_up_is_not_published() {
    let (_dir, namespace) = namespace();
    let area = Arc::new(namespace.create(&name("broken"), &options()).unwrap());
    let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
    let block = store(&area, &heap, 100, 1);
    area.publish(Publish::Shared, b"whole").unwrap();
    area.check_whole().unwrap();
    area.break_off();
    let refused = heap.allocate(ByteLen(100));
    assert!(matches!(refused, Err(AllocError::Write(WriteError::Broken))), "{refused:?}");
    let refused = area.publish(Publish::Shared, b"half");
    assert!(matches!(refused, Err(PublishError::Broken)), "{refused:?}");
    let snapshot = namespace.hook(&name("broken")).unwrap();
    assert!(snapshot.payload() == b"whole" && holds(snapshot.base(), block, 1));
}
