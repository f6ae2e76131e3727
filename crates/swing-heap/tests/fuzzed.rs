//! Files of a persistent heap, damaged at random: each is refused, or leads to one of its flushes
//! with each object right, or with an error of its own. `SWING_FUZZ` is the number of rounds.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use common::{on_disk, seed};
use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap};

type Model = BTreeMap<Handle, Vec<u8>>;

fn options() -> HeapOptions {
    // A busy machine is no damage.
    let max_wait = Duration::from_secs(60);
    HeapOptions { budget: 8 << 20, max_wait, ..HeapOptions::default() }
}

fn fill(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// A heap that was flushed three times, and its states. The root object has the number of the
/// state, so that each is known when it is opened.
fn written(path: &Path, random: &mut fastrand::Rng) -> Vec<Model> {
    let heap = ObjectHeap::open_persistent(path, options()).unwrap();
    let root = heap.alloc_from(&[0; 40]).unwrap();
    heap.set_root(Some(root)).unwrap();
    let (mut model, mut states) = (Model::new(), Vec::new());
    for state in 0..3_u8 {
        for _ in 0..1500 {
            let len = random.usize(1..1500);
            let bytes = fill(random, len);
            model.insert(heap.alloc_from(&bytes).unwrap(), bytes);
        }
        // The root is written below, so it stays.
        let all: Vec<Handle> = model.keys().copied().filter(|&handle| handle != root).collect();
        for handle in all {
            match random.u32(..6) {
                0 => {
                    heap.free(handle).unwrap();
                    model.remove(&handle);
                }
                1 => {
                    heap.write(handle).unwrap().reverse();
                    model.entry(handle).and_modify(|bytes| bytes.reverse());
                }
                _ => {}
            }
        }
        heap.write(root).unwrap().fill(state);
        model.insert(root, vec![state; 40]);
        heap.flush().unwrap();
        states.push(model.clone());
    }
    heap.close().unwrap();
    states
}

/// Damages a file: bits, a hole of zeros, bytes of another place, a shorter or longer file.
fn damage(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    // Few bytes are of the log's head, and most of what is checked is there.
    let most = if random.bool() { len } else { len.min(20_000) };
    match random.u32(..6) {
        0 => bytes.truncate(random.usize(..len)),
        1 => bytes.extend(std::iter::repeat_n(random.u8(..), random.usize(1..10_000))),
        2 => {
            let (at, count) = (random.usize(..most), random.usize(1..9000));
            bytes[at..(at + count).min(len)].fill(0);
        }
        3 => {
            let count = random.usize(1..5000).min(len / 2 + 1);
            let (from, to) = (random.usize(..=len - count), random.usize(..=len - count));
            bytes.copy_within(from..from + count, to);
        }
        _ => {
            for _ in 0..random.usize(1..40) {
                let at = random.usize(..most);
                bytes[at] ^= 1 << random.u32(..8);
            }
        }
    }
}

/// What a damaged heap shows is one of its states. Returns how many objects were damaged.
fn compare(heap: &ObjectHeap, states: &[Model]) -> usize {
    heap.check().unwrap();
    let Some(root) = heap.root().unwrap() else { panic!("each state has a root") };
    let of_root = heap.read(root).map(|bytes| bytes.to_vec());
    let fits = |model: &&Model| match &of_root {
        Ok(bytes) => model[&root] == *bytes,
        // Not known which: the number of objects tells as well.
        Err(HeapError::Damaged { .. }) => model.len() as u64 == heap.stats().unwrap().objects,
        Err(other) => panic!("{other}"),
    };
    let model = states.iter().find(fits).expect("one of the states");
    assert_eq!(heap.stats().unwrap().objects, model.len() as u64);
    let mut damaged = 0;
    for (&handle, bytes) in model {
        match heap.read(handle) {
            Ok(found) => assert_eq!(*found, **bytes, "{handle}"),
            Err(HeapError::Damaged { .. }) => damaged += 1,
            Err(other) => panic!("{handle}: {other}"),
        }
    }
    damaged
}

#[test]
fn damaged_files_lead_to_an_error_or_to_a_flush() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = on_disk();
    let whole = folder.path().join("whole");
    let states = written(&whole, &mut random);
    let rounds = std::env::var("SWING_FUZZ").map_or(40, |text| text.parse().unwrap());
    let mut outcomes = [0_u32; 3];
    for _ in 0..rounds {
        let copy = folder.path().join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy).unwrap();
        let mut files: Vec<_> =
            std::fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let chosen = random.usize(..files.len());
        for (index, file) in files.iter().enumerate() {
            let mut bytes = std::fs::read(file).unwrap();
            if index == chosen || random.u32(..10) == 0 {
                damage(&mut random, &mut bytes);
            }
            std::fs::write(copy.join(file.file_name().unwrap()), bytes).unwrap();
        }
        match ObjectHeap::open_persistent(&copy, options()) {
            Err(error) => {
                assert!(!matches!(error, HeapError::Options(_)), "{error}");
                outcomes[0] += 1;
            }
            Ok(heap) => {
                let damaged = compare(&heap, &states);
                outcomes[if damaged > 0 { 1 } else { 2 }] += 1;
                // It goes on as a heap: new objects, changes, a flush.
                let handle = heap.alloc_from(b"after the damage").unwrap();
                match heap.flush() {
                    Ok(()) => {}
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
                assert_eq!(*heap.read(handle).unwrap(), *b"after the damage");
                heap.check().unwrap();
            }
        }
    }
    let [refused, partly, right] = outcomes;
    println!("{refused} refused, {partly} with damaged objects, {right} right");
    assert!(refused > 0 && partly > 0 && right > 0, "{outcomes:?}");
}
