//! The paper's Fig. 1 with real processes: A and B share their memory with C, C combines both,
//! changes its copies and shares the result with D and E, which change theirs. Nobody sees
//! anybody's later writes, and nothing is copied that nobody writes.

#[macro_use]
mod common;
#[path = "common/stage.rs"]
mod stage;

use common::*;
use stage::{PLACE, ROLE, Stage, next_line, say};
use swing::{AreaOffset, Backing, Namespace, Publish, Snapshot, WriteIntent};

/// Extents that A and B share each.
const SHARED: u64 = 8;
const READERS: u64 = 8;
/// Extents of the area that many processes read.
const WIDE: u64 = 32;

fn start(role: &str, h: &Home) -> Stage {
    Stage::start(role, h.dir.path())
}

/// The number that a process answers.
fn number(stage: &mut Stage) -> u64 {
    stage.answer().parse().unwrap()
}

fn go(stage: &mut Stage) {
    stage.tell("go");
}

fn say_number(value: u64) {
    say(&value.to_string());
}

/// Not a test: what the processes run.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let ns = Namespace::open(std::env::var(PLACE).unwrap()).unwrap();
    match role.as_str() {
        "A" => source(&ns, "A", 1),
        "B" => source(&ns, "B", 2),
        "C" => combine(&ns),
        "D" => consume(&ns, "D", 4),
        "E" => consume(&ns, "E", 5),
        _ => reader(&ns),
    }
}

/// Shares its extents, then goes on writing.
fn source(ns: &Namespace, text: &str, byte: u8) {
    let area = ns.create(&name(text), &options()).unwrap();
    fill(&area, data_at(0), SHARED * DATA, byte);
    area.publish(Publish::Shared, &[byte]).unwrap();
    say_number(1);
    next_line();
    fill(&area, data_at(0), SHARED * DATA, byte + 100);
    area.publish(Publish::Shared, &[byte + 100]).unwrap();
    say_number(2);
    next_line();
}

fn combine(ns: &Namespace) {
    let a = ns.hook(&name("A")).unwrap();
    let b = ns.hook(&name("B")).unwrap();
    let area = ns.create(&name("C"), &options()).unwrap();
    area.map_foreign(&a, range(data_at(0), SHARED * DATA), AreaOffset(data_at(0))).unwrap();
    area.map_foreign(&b, range(data_at(0), SHARED * DATA), AreaOffset(data_at(SHARED))).unwrap();
    assert_eq!(area.stats().own.get(), 0, "nothing is copied");
    say_number(1);
    next_line();
    fill(&area, data_at(1), DATA, 3);
    fill(&area, data_at(SHARED + 1), DATA, 3);
    area.publish(Publish::Shared, b"C").unwrap();
    assert_eq!(area.stats().own.get(), 2 * DATA);
    say_number(2);
    // A memfd goes with the process, unless somebody has hooked it by now.
    next_line();
}

/// What every reader of C must see.
fn check_combined(c: &Snapshot) {
    for i in 0..2 * SHARED {
        let expected = match i {
            1 => 3,
            i if i == SHARED + 1 => 3,
            i if i < SHARED => 1,
            _ => 2,
        };
        assert!(snapshot_is(c, data_at(i), DATA, expected), "extent {i}");
    }
}

fn consume(ns: &Namespace, text: &str, byte: u8) {
    let c = ns.hook(&name("C")).unwrap();
    check_combined(&c);
    let other = ns.hook(&name("C")).unwrap();
    let mine = c.derive(Some(&name(text))).unwrap();
    fill(&mine, data_at(0), DATA, byte);
    mine.publish(Publish::Shared, text.as_bytes()).unwrap();
    check_combined(&other);
    say_number(mine.stats().own.get());
    next_line();
}

/// A memfd lives as long as somebody holds it.
fn held(h: &Home, text: &str) -> Option<Snapshot> {
    (backing() == Backing::Memfd).then(|| h.ns.hook(&name(text)).unwrap())
}

fn two_sources_one_combiner_two_consumers() {
    let h = home();
    let (mut a, mut b) = (start("A", &h), start("B", &h));
    assert_eq!((number(&mut a), number(&mut b)), (1, 1));
    let mut c = start("C", &h);
    assert_eq!(number(&mut c), 1);
    // A and B go on writing before C has touched most of what it took.
    go(&mut a);
    go(&mut b);
    assert_eq!((number(&mut a), number(&mut b)), (2, 2));
    go(&mut c);
    assert_eq!(number(&mut c), 2);
    let held_c = held(&h, "C");
    c.finish();
    // C's process is gone; A's and B's names go, too.
    go(&mut a);
    go(&mut b);
    a.finish();
    b.finish();
    h.ns.remove(&name("A")).unwrap();
    h.ns.remove(&name("B")).unwrap();
    let (mut d, mut e) = (start("D", &h), start("E", &h));
    assert_eq!((number(&mut d), number(&mut e)), (DATA, DATA));
    let list = h.ns.list().unwrap();
    let owned = |t: &str| list.iter().any(|i| i.name == Some(name(t)) && i.owner.is_some());
    assert!(owned("D") && owned("E") && !owned("C"));
    let parents = |t: &str| {
        let info = list.iter().find(|i| i.name == Some(name(t))).unwrap();
        info.parents.iter().map(|p| p.name.clone().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!((parents("C"), parents("D")), (vec!["A".into(), "B".into()], vec!["C".to_owned()]));
    let held = (held_c, held(&h, "D"), held(&h, "E"));
    d.finish();
    e.finish();
    check_combined(&h.ns.hook(&name("C")).unwrap());
    for (text, byte) in [("D", 4), ("E", 5)] {
        let snapshot = h.ns.hook(&name(text)).unwrap();
        assert!(snapshot_is(&snapshot, data_at(0), DATA, byte));
        assert!(snapshot_is(&snapshot, data_at(SHARED), DATA, 2));
    }
    drop(held);
    for text in ["C", "D", "E"] {
        h.ns.remove(&name(text)).unwrap();
    }
    nothing_is_left(&h);
}

/// Reads everything, then says how much memory of the area is counted for this process alone.
fn reader(ns: &Namespace) {
    let snapshot = ns.hook(&name("wide")).unwrap();
    // SAFETY: the range is mapped, and a snapshot's bytes never change.
    let bytes = unsafe {
        let at = snapshot.base().as_ptr().add(data_at(0) as usize);
        std::slice::from_raw_parts(at, (WIDE * DATA) as usize)
    };
    assert!(snapshot.is_mapped(&range(data_at(0), WIDE * DATA)));
    say_number(bytes.iter().map(|b| u64::from(*b)).sum());
    next_line();
    say_number(proportional_kib());
    next_line();
}

/// Proportional set size of shared memory in this process, in KiB.
fn proportional_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("Pss_Shmem:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// N readers together use the data once.
fn many_readers_share_one_copy() {
    let h = home();
    let area = h.ns.create(&name("wide"), &options()).unwrap();
    area.make_writable(range(data_at(0), WIDE * DATA), WriteIntent::Overwrite).unwrap();
    fill(&area, data_at(0), WIDE * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let before = std::fs::metadata(memory_of(&h.dir.path().join("wide"))).unwrap();
    // The writer lets go, so that only readers are counted.
    drop(area);
    let mut readers: Vec<_> = (0..READERS).map(|_| start("reader", &h)).collect();
    for reader in &mut readers {
        assert_eq!(number(reader), WIDE * DATA);
    }
    readers.iter_mut().for_each(go);
    let total: u64 = readers.iter_mut().map(number).sum();
    assert!(total * 1024 <= WIDE * DATA * 105 / 100, "{total} KiB");
    assert!(total * 1024 >= WIDE * DATA * 95 / 100, "{total} KiB");
    readers.into_iter().for_each(Stage::finish);
    let after = std::fs::metadata(memory_of(&h.dir.path().join("wide"))).unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks;
    assert_eq!(blocks(&before), blocks(&after), "reading allocates nothing (INV-AREA-9)");
}

over_both_back_ends! {
    two_sources_one_combiner_two_consumers,
    many_readers_share_one_copy,
}
