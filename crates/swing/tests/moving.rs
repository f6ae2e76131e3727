//! Areas that outgrow the file system they began on (INV-AREA-16): they go on in memfds, without
//! anybody noticing, and small ones stay files that outlive their processes.
//!
//! All of it runs in a `/dev/shm` of 64 MB; see [`stage::in_small_shm`].

#[macro_use]
mod common;
#[path = "common/stage.rs"]
mod stage;

use std::path::Path;

use common::*;
use stage::{HERE, PLACE, ROLE, Stage, in_small_shm, next_line, say};
use swing::{
    Area, AreaOffset, Backing, ByteLen, HookError, Namespace, OpenError, Publish, Snapshot,
    WriteIntent,
};

/// Not a test: what runs in the small `/dev/shm`, and what that starts.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let ns = Namespace::open(std::env::var(PLACE).unwrap()).unwrap();
    match role.as_str() {
        "little" => little(&ns),
        "grows" => grows(&ns),
        "dies" => dies(&ns),
        "tracked" => tracked(&ns),
        "model" => model(&ns),
        "reopened" => reopened(&ns),
        "maker" => maker(&ns),
        _ => panic!("{role}"),
    }
}

fn free() -> ByteLen {
    swing::free_space(Path::new(HERE)).unwrap().free
}

fn folder(text: &str) -> std::path::PathBuf {
    Path::new(HERE).join(text)
}

/// Fills extents of the data zone, each with its number plus `plus`.
fn number(area: &Area, extents: std::ops::Range<u64>, plus: u64) {
    extents.for_each(|i| fill(area, data_at(i), DATA, (i + plus) as u8));
}

/// The first byte of each of these extents.
fn bytes(area: &Area, extents: std::ops::Range<u64>) -> Vec<u8> {
    extents.map(|i| read(area, data_at(i), 1)[0]).collect()
}

/// Shows extents of a snapshot from extent `at` on.
fn clone_of(snapshot: &Snapshot, extents: std::ops::Range<u64>, at: u64, area: &Area) {
    let source = range(data_at(extents.start), (extents.end - extents.start) * DATA);
    area.map_foreign(snapshot, source, AreaOffset(data_at(at))).unwrap();
}

fn check(snapshot: &Snapshot, extents: std::ops::Range<u64>, plus: u64) {
    for i in extents {
        assert!(snapshot_is(snapshot, data_at(i), DATA, (i + plus) as u8), "extent {i}");
    }
}

fn check_elsewhere(text: &str, extents: u64, plus: u64) {
    let mut other = Stage::start("maker", Path::new(HERE));
    assert_eq!(other.ask(&format!("check {text} {extents} {plus}")), "right");
}

/// A process that obeys lines.
fn maker(ns: &Namespace) {
    let mut areas = Vec::new();
    while let Some(line) = next_line() {
        let words: Vec<&str> = line.split(' ').collect();
        let n = |i: usize| words[i].parse::<u64>().unwrap();
        match words[0] {
            "make" => {
                let area = ns.create(&name(words[1]), &options()).unwrap();
                number(&area, 0..n(2), n(3));
                area.publish(Publish::Shared, b"").unwrap();
                areas.push(area);
                say("made");
            }
            "write" => {
                number(areas.last().unwrap(), 0..n(1), n(2));
                say("written");
            }
            "publish" => {
                areas.last().unwrap().publish(Publish::Shared, b"").unwrap();
                say("published");
            }
            "check" => {
                check(&ns.hook(&name(words[1])).unwrap(), 0..n(2), n(3));
                say("right");
            }
            _ => panic!("{line}"),
        }
    }
}

/// What fits is a file, and outlives its process.
fn little(ns: &Namespace) {
    let choice = ns.backing().unwrap();
    assert_eq!((choice.backing, choice.automatic), (Backing::File, true), "{choice:?}");
    let mut maker = Stage::start("maker", Path::new(HERE));
    assert_eq!(maker.ask("make little 8 1"), "made");
    maker.kill();
    check(&ns.hook(&name("little")).unwrap(), 0..8, 1);
    assert!(folder("little/memory").is_file() && !folder("little/memory.held").is_symlink());
    // When there is no room to begin with, areas are memfds at once.
    let ballast = free().get() - (6 << 20);
    std::fs::write(folder("ballast"), vec![1u8; ballast as usize]).unwrap();
    let choice = ns.backing().unwrap();
    assert_eq!((choice.backing, choice.automatic), (Backing::Memfd, true), "{choice:?}");
    let area = ns.create(&name("other"), &options()).unwrap();
    number(&area, 0..8, 3);
    area.publish(Publish::Shared, b"").unwrap();
    check_elsewhere("other", 8, 3);
    assert!(!folder("other/memory").exists() && folder("other/memory.held").is_symlink());
    // What is left of the room is enough for an extent, but not for a copy of all.
    let area = ns.open_area(&name("little")).unwrap();
    number(&area, 0..8, 2);
    area.publish(Publish::Shared, b"").unwrap();
    check_elsewhere("little", 8, 2);
}

#[test]
fn small_areas_stay_files() {
    in_small_shm("little");
}

/// From the file to the memfd in the middle of a transaction, and back to an empty file system.
fn grows(ns: &Namespace) {
    let before = free();
    let area = ns.create(&name("a"), &options()).unwrap();
    number(&area, 0..8, 1);
    fill(&area, 0, 4 * SMALL, 9);
    area.publish(Publish::Shared, b"one").unwrap();
    let one = ns.hook(&name("a")).unwrap();
    // Private, in the file; somebody goes on storing into them while the area moves on.
    number(&area, 4..16, 2);
    let storing = area.storing();
    area.make_writable(range(data_at(16), 40 * DATA), WriteIntent::Overwrite).unwrap();
    for i in 4..16 {
        let at = data_at(i);
        // SAFETY: made writable above, and not published since.
        unsafe { std::ptr::write_bytes(area.base().as_ptr().add(at as usize), i as u8 + 3, 8) };
    }
    drop(storing);
    assert!(free().get() >= 4 << 20, "room is left for manifests");
    assert_eq!(read(&area, data_at(4), 9), [7, 7, 7, 7, 7, 7, 7, 7, 6]);
    number(&area, 8..56, 3);
    fill(&area, SMALL, SMALL, 10);
    check(&one, 0..8, 1);
    check(&ns.hook(&name("a")).unwrap(), 0..8, 1);
    check_elsewhere("a", 8, 1);
    area.publish(Publish::Shared, b"two").unwrap();
    let two = ns.hook(&name("a")).unwrap();
    check(&two, 0..4, 1);
    check(&two, 8..56, 3);
    assert!(snapshot_is(&two, 0, SMALL, 9) && snapshot_is(&two, SMALL, SMALL, 10));
    assert!(folder("a/memory").is_file() && folder("a/memory.held").is_symlink());
    let info = ns.list().unwrap().pop().unwrap();
    assert!(info.own.get() >= 56 * DATA && !info.lost, "{info:?}");
    // A derived area depends on both memories of the same area.
    let derived = two.derive(Some(&name("d"))).unwrap();
    number(&derived, 0..2, 5);
    derived.publish(Publish::Shared, b"").unwrap();
    check_elsewhere("d", 2, 5);
    drop(derived);
    let derived = ns.open_area(&name("d")).unwrap();
    assert_eq!(bytes(&derived, 0..9), [5, 6, 3, 4, 7, 8, 9, 10, 11]);
    number(&derived, 1..2, 5);
    derived.publish(Publish::Shared, b"").unwrap();
    check_elsewhere("d", 2, 5);
    drop((one, two));
    // Everything is overwritten: nobody needs the file any more.
    number(&area, 0..56, 7);
    fill(&area, 0, 4 * SMALL, 7);
    area.publish(Publish::Shared, b"three").unwrap();
    check_elsewhere("a", 56, 7);
    check(&ns.hook(&name("d")).unwrap(), 8..56, 3);
    assert!(folder("a/memory").exists(), "the derived area holds it");
    drop(derived);
    ns.remove(&name("d")).unwrap();
    for _ in 0..3 {
        area.reclaim().unwrap();
        area.publish(Publish::Shared, b"four").unwrap();
    }
    assert!(!folder("a/memory").exists());
    assert!(before.get() - free().get() < 1 << 20, "{} of {before}", free());
    assert_eq!(area.stats().foreign.get(), 0);
    check_elsewhere("a", 56, 7);
    drop(area);
    let area = ns.open_area(&name("a")).unwrap();
    number(&area, 0..56, 8);
    area.publish(Publish::Shared, b"").unwrap();
    check_elsewhere("a", 56, 8);
    drop(area);
    ns.remove(&name("a")).unwrap();
    assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
}

#[test]
fn an_area_outgrows_its_file_system() {
    in_small_shm("grows");
}

/// Areas that show memory from before and after the move of another one, and of their own, each
/// closed and opened again.
fn reopened(ns: &Namespace) {
    let before = free();
    let mut maker = Stage::start("maker", Path::new(HERE));
    assert_eq!(maker.ask("make a 8 1"), "made");
    let one = ns.hook(&name("a")).unwrap();
    // In its own file, and there after the move of `a`.
    let area = ns.create(&name("c"), &options()).unwrap();
    clone_of(&one, 0..4, 0, &area);
    area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(maker.ask("write 50 2"), "written");
    assert_eq!(maker.ask("publish"), "published");
    assert!(folder("a/memory").is_file() && folder("a/memory.held").is_symlink());
    let two = ns.hook(&name("a")).unwrap();
    drop(one);
    drop(area);
    let area = ns.open_area(&name("c")).unwrap();
    assert_eq!(bytes(&area, 0..4), [1, 2, 3, 4]);
    // A view whose area is closed: nobody has pinned the memfd, and the file has its name.
    clone_of(&two, 16..40, 4, &area);
    let view = area.freeze_view().unwrap();
    drop(area);
    let area = ns.open_area(&name("c")).unwrap();
    assert_eq!(bytes(&area, 0..4), [1, 2, 3, 4]);
    check(&view, 4..28, 14);
    drop(view);
    clone_of(&two, 16..40, 4, &area);
    area.publish(Publish::Shared, b"").unwrap();
    let expected: Vec<u8> = (1..5).chain(18..42).collect();
    assert_eq!(bytes(&area, 0..28), expected);
    drop((area, two));
    // From here on only what this process keeps of the memfd is there.
    maker.kill();
    for _ in 0..2 {
        let area = ns.open_area(&name("c")).unwrap();
        assert_eq!(bytes(&area, 0..28), expected);
        check_elsewhere("a", 50, 2);
        drop(area);
        assert_eq!(ns.gc().unwrap().damaged, 0);
        check(&ns.hook(&name("c")).unwrap(), 4..28, 14);
    }
    // What it does not show any more it lets go, one memory without the other.
    let area = ns.open_area(&name("c")).unwrap();
    number(&area, 4..28, 3);
    area.publish(Publish::Shared, b"").unwrap();
    drop(area);
    let area = ns.open_area(&name("c")).unwrap();
    assert_eq!(bytes(&area, 0..5), [1, 2, 3, 4, 7]);
    drop(area);
    for area in ["a", "c"] {
        ns.remove(&name(area)).unwrap();
    }
    own_clones(ns);
    assert_eq!(ns.gc().unwrap().damaged, 0);
    assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
    assert!(before.get() - free().get() < 1 << 20, "{} of {before}", free());
}

/// An area that has cloned within itself, before its move and after it.
fn own_clones(ns: &Namespace) {
    let mut area = ns.create(&name("s"), &options()).unwrap();
    number(&area, 0..8, 1);
    clone_of(&area.freeze_view().unwrap(), 0..2, 60, &area);
    number(&area, 8..40, 1);
    area.publish(Publish::Shared, b"").unwrap();
    assert!(folder("s/memory").is_file() && folder("s/memory.held").is_symlink());
    clone_of(&area.freeze_view().unwrap(), 6..38, 62, &area);
    area.publish(Publish::Shared, b"").unwrap();
    let mut expected = vec![1, 2];
    expected.extend(7..39);
    for round in 0..3 {
        assert_eq!(bytes(&area, 60..94), expected, "round {round}");
        drop(area);
        area = ns.open_area(&name("s")).unwrap();
    }
    assert_eq!(bytes(&area, 60..94), expected);
    drop(area);
    ns.remove(&name("s")).unwrap();
}

#[test]
fn what_shows_both_memories_of_an_area_opens_again() {
    in_small_shm("reopened");
}

/// A kill before the first publish in the memfd loses nothing that was published; a kill after it
/// loses the memfd unless somebody holds it.
fn dies(ns: &Namespace) {
    for published in [false, true] {
        let mut maker = Stage::start("maker", Path::new(HERE));
        assert_eq!(maker.ask("make a 10 1"), "made");
        let file = ns.hook(&name("a")).unwrap();
        assert_eq!(maker.ask("write 50 2"), "written");
        if published {
            assert_eq!(maker.ask("publish"), "published");
        }
        let holder = published.then(|| ns.hook(&name("a")).unwrap());
        maker.kill();
        let (extents, plus) = if published { (50, 2) } else { (10, 1) };
        check_elsewhere("a", extents, plus);
        let area = ns.open_area(&name("a")).unwrap();
        for i in 0..extents {
            assert_eq!(read(&area, data_at(i), 2), [(i + plus) as u8; 2], "extent {i}");
        }
        check(&file, 0..10, 1);
        drop(holder);
        number(&area, 5..52, 3);
        check_elsewhere("a", extents, plus);
        area.publish(Publish::Shared, b"").unwrap();
        let now = ns.hook(&name("a")).unwrap();
        check(&now, 0..5, plus);
        check(&now, 5..52, 3);
        drop((now, area));
        assert_eq!(ns.gc().unwrap().damaged, 0);
        check(&file, 0..10, 1);
        drop(file);
        ns.remove(&name("a")).unwrap();
        ns.gc().unwrap();
        assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
    }
    let mut maker = Stage::start("maker", Path::new(HERE));
    assert_eq!(maker.ask("make a 50 1"), "made");
    maker.kill();
    let gone = ns.hook(&name("a"));
    assert!(matches!(gone, Err(HookError::MemoryGone { .. })), "{gone:?}");
    let gone = ns.open_area(&name("a"));
    assert!(matches!(gone, Err(OpenError::MemoryGone { .. })), "{gone:?}");
    assert_eq!(ns.gc().unwrap().removed, 1);
    assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
}

#[test]
fn deaths_around_the_move() {
    in_small_shm("dies");
}

/// Plain stores, from two threads: a tracked area begins in a memfd where there is little room.
fn tracked(ns: &Namespace) {
    let area = ns.create(&name("t"), &options()).unwrap();
    area.track().unwrap();
    for round in 1..4u64 {
        std::thread::scope(|scope| {
            for t in 0..2u64 {
                let area = &area;
                scope.spawn(move || {
                    for i in (t..60).step_by(2) {
                        let at = data_at(i) as usize;
                        // SAFETY: a tracked area, and each thread has its own extents.
                        unsafe {
                            let at = area.base().as_ptr().add(at);
                            std::ptr::write_bytes(at, (i + round) as u8, DATA as usize);
                        }
                    }
                });
            }
        });
        area.publish(Publish::Shared, b"").unwrap();
        check(&ns.hook(&name("t")).unwrap(), 0..60, round);
        check_elsewhere("t", 60, round);
    }
    assert!(free().get() >= 60 << 20, "{} are free", free());
}

#[test]
fn a_tracked_area_is_larger_than_its_file_system() {
    in_small_shm("tracked");
}

/// Random writes, discards, publishes, snapshots, closes and removals, against what they must show.
fn model(ns: &Namespace) {
    const EXTENTS: usize = 24;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut moved, mut rounds) = (0, 0..40);
    // Six areas, and more where none of them outgrew the file system by chance.
    while let Some(round) = rounds.next().filter(|round| *round < 6 || moved == 0) {
        let mut area = Some(ns.create(&name("m"), &options()).unwrap());
        let (mut now, mut published) = ([0u8; EXTENTS], [0u8; EXTENTS]);
        let mut held: Vec<(Snapshot, [u8; EXTENTS])> = Vec::new();
        for step in 0..90u64 {
            let a = area.as_ref().unwrap();
            let i = rng.usize(..EXTENTS);
            match rng.u8(..20) {
                0 => {
                    a.discard(AreaOffset(data_at(i as u64))..AreaOffset(data_at(i as u64 + 1)))
                        .unwrap();
                    now[i] = 0;
                }
                1..=3 => {
                    a.publish(Publish::Shared, b"").unwrap();
                    published = now;
                }
                4..=5 if step > 10 => {
                    let Ok(snapshot) = ns.hook(&name("m")) else { continue };
                    held.push((snapshot, published));
                }
                6 if !held.is_empty() => drop(held.swap_remove(rng.usize(..held.len()))),
                7 if rng.bool() && published != [0; EXTENTS] => {
                    drop(area.take());
                    ns.gc().unwrap();
                    area = Some(ns.open_area(&name("m")).unwrap());
                    now = published;
                }
                8 => drop(a.reclaim().unwrap()),
                _ => {
                    now[i] = rng.u8(1..);
                    fill(a, data_at(i as u64), DATA, now[i]);
                }
            }
            for (snapshot, values) in &held {
                let i = rng.usize(..EXTENTS);
                let shown = snapshot.is_mapped(&range(data_at(i as u64), DATA));
                assert_eq!(shown, values[i] > 0, "extent {i} in round {round}, step {step}");
                assert!(!shown || snapshot_is(snapshot, data_at(i as u64), DATA, values[i]));
            }
            let a = area.as_ref().unwrap();
            for i in (0..EXTENTS).filter(|i| now[*i] > 0) {
                assert_eq!(read(a, data_at(i as u64) + 77, 1)[0], now[i], "{round} {step}");
            }
        }
        moved += u32::from(folder("m/memory.held").is_symlink());
        drop((area, held));
        ns.remove(&name("m")).unwrap();
        assert_eq!(ns.gc().unwrap().damaged, 0);
        assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
    }
    assert!(moved > 0, "some areas outgrow the file system");
    println!("{moved} of {} areas moved on", rounds.start - 1);
}

#[test]
fn any_order_of_calls() {
    in_small_shm("model");
}
