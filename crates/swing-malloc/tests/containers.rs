//! Containers in an area, as Rust programs have them: they grow, shrink and go there, and another
//! process that has the area at its origin's address reads and changes its own version of them.

mod common;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use common::seed;
use common::world::World;
use std::alloc::Layout;
use std::sync::Arc;
use swing::{AreaName, AreaOptions, ByteLen, HookAt, HookOptions, Namespace, Publish};
use swing_malloc::{Heap, HeapOptions, Malloc};

#[test]
fn vectors_do_what_those_of_the_standard_library_do() {
    let seed = seed("vectors_do_what_those_of_the_standard_library_do");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(1 << 30);
    let malloc = &world.malloc;
    let mut mine: Vec<Vec<u32, _>, _> = Vec::new_in(malloc);
    let mut model: std::vec::Vec<std::vec::Vec<u32>> = Default::default();
    for round in 0..20_000_u32 {
        let at = rng.usize(..model.len().max(1));
        match rng.u8(..12) {
            0 if model.len() < 40 => {
                mine.push(Vec::with_capacity_in(rng.usize(..100), malloc));
                model.push(Default::default());
            }
            1 if model.len() > 20 => {
                assert_eq!(*mine.swap_remove(at), model.swap_remove(at));
            }
            2 if !model.is_empty() => {
                let len = rng.usize(..=model[at].len());
                mine[at].truncate(len);
                mine[at].shrink_to_fit();
                model[at].truncate(len);
            }
            3 if !model.is_empty() => {
                let more = vec![round; rng.usize(..70_000) >> rng.u32(..16)];
                mine[at].extend_from_slice(&more);
                model[at].extend(&more);
            }
            _ if !model.is_empty() => {
                mine[at].push(round);
                model[at].push(round);
            }
            _ => {}
        }
    }
    assert!(mine.iter().zip(&model).all(|(mine, model)| *mine == model[..]));
    let used = malloc.check().unwrap().blocks;
    assert!(used > 10, "{used} blocks are in the area");
    drop(mine);
    assert_eq!(malloc.check().unwrap().blocks, 0);
}

#[test]
fn layouts_of_every_alignment_grow_and_shrink() {
    let world = World::new(1 << 30);
    let malloc = &world.malloc;
    for align in (0..18).map(|shift| 1_usize << shift) {
        for len in [0, 1, 100, 5000, 70_000, 3_000_000] {
            let layout = |len, align| Layout::from_size_align(len, align).unwrap();
            let first = malloc.allocate_zeroed(layout(len, align)).unwrap();
            assert!(first.len() >= len && first.cast::<u8>().addr().get().is_multiple_of(align));
            // SAFETY: blocks of these lengths, each given up by the call that moves it.
            unsafe {
                assert!(first.as_ref()[..len].iter().all(|byte| *byte == 0));
                first.cast::<u8>().write_bytes(7, len);
                let (old, new) = (layout(len, align), layout(len * 3 + 1, align * 2));
                let grown = Allocator::grow(malloc, first.cast(), old, new).unwrap();
                assert!(grown.cast::<u8>().addr().get().is_multiple_of(align * 2));
                assert!(grown.len() > len && grown.as_ref()[..len].iter().all(|byte| *byte == 7));
                let short = layout(len / 2, align);
                let shrunk = malloc.shrink(grown.cast(), new, short).unwrap();
                assert!(shrunk.as_ref()[..len / 2].iter().all(|byte| *byte == 7));
                malloc.deallocate(shrunk.cast(), short);
            }
        }
    }
    assert_eq!(malloc.check().unwrap().blocks, 0);
    let endless = Layout::from_size_align(1 << 40, 8).unwrap();
    assert!(Allocator::allocate(malloc, endless).is_err(), "an error, and no end of the process");
}

/// A linked list with raw pointers, whose root lies in the reserved part.
struct Node {
    value: u64,
    next: Option<Box<Node, Malloc>>,
}

#[test]
fn a_hooker_at_the_origins_address_goes_on_with_what_it_finds() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("numbers").unwrap();
    let base = {
        let area = namespace.create(&name, &AreaOptions::with_reserve(ByteLen::gib(1))).unwrap();
        area.track().unwrap();
        let area = Arc::new(area);
        let heap = Heap::create(area.clone(), HeapOptions::default()).unwrap();
        let malloc = Malloc::open(heap).unwrap();
        let mut numbers: Vec<u64, _> = Vec::new_in(malloc.clone());
        numbers.extend(0..100_000);
        let list = (0..100)
            .fold(None, |next, value| Some(Box::new_in(Node { value, next }, malloc.clone())));
        {
            let _pause = malloc.pause();
            area.publish(Publish::Shared, b"").unwrap();
        }
        // Plain stores after the publish are this process's own.
        numbers.iter_mut().for_each(|number| *number += 1);
        assert_eq!((numbers[0], numbers.len()), (1, 100_000));
        let (sum, mut next) = (numbers.iter().sum::<u64>(), &list);
        assert_eq!(sum, 5_000_050_000);
        let mut count = 0;
        while let Some(node) = next {
            count += 1;
            assert_eq!(node.value, 100 - count);
            next = &node.next;
        }
        assert_eq!(count, 100);
        malloc.check().unwrap();
        (area.base(), numbers.as_ptr().addr() - area.base().addr().get())
    };
    let options = HookOptions { at: HookAt::OriginAddress, ..HookOptions::default() };
    let snapshot = namespace.hook_with(&name, options).unwrap();
    let area = snapshot.derive_at_origin(None).unwrap();
    area.track().unwrap();
    let area = Arc::new(area);
    assert_eq!(area.base(), base.0);
    let malloc = Malloc::open(Heap::open(area.clone()).unwrap()).unwrap();
    // SAFETY: where the origin's vector was, at the same address, of the same allocator; nobody
    // else has this version.
    let mut numbers: Vec<u64, _> = unsafe {
        let at = area.base().as_ptr().add(base.1).cast::<u64>();
        let usable = malloc.usable_size(swing::AreaOffset(base.1 as u64)).unwrap();
        Vec::from_raw_parts_in(at, 100_000, usable.as_usize() / 8, malloc.clone())
    };
    assert!(numbers.iter().zip(0..).all(|(number, expected)| *number == expected));
    numbers.extend(0..1_000_000);
    assert_eq!(numbers[100_000], 0);
    let before = malloc.check().unwrap().blocks;
    drop(numbers);
    assert_eq!(malloc.check().unwrap().blocks, before - 1);
}
