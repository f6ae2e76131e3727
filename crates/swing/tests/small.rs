//! A `/dev/shm` of 64 MB, as containers have it: areas larger than that are made, shared, changed
//! and adopted by several processes, without anybody doing anything about it.
//!
//! See [`stage::in_small_shm`].

#[macro_use]
mod common;
#[path = "common/stage.rs"]
mod stage;

use std::path::Path;

use common::*;
use stage::{HERE, PLACE, ROLE, Stage, in_small_shm, next_line, say};
use swing::{Backing, ByteLen, HookError, Namespace, OpenError, Publish, WriteIntent};

/// 96 MiB.
const EXTENTS: u64 = 48;
/// Not a test: what runs in the small `/dev/shm`, and what that starts.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let ns = Namespace::open(std::env::var(PLACE).unwrap()).unwrap();
    match role.as_str() {
        "chain" => chain(&ns),
        "creator" => creator(&ns),
        "heir" => heir(&ns),
        "full" => full(&ns),
        _ => panic!("{role}"),
    }
}

fn wait_for_the_end() {
    while next_line().is_some() {}
}

/// Makes an area larger than the file system, and a small one.
fn creator(ns: &Namespace) {
    let area = ns.create(&name("large"), &options()).unwrap();
    for i in 0..EXTENTS {
        fill(&area, data_at(i), DATA, i as u8 + 1);
        if i % 16 == 0 {
            area.publish(Publish::Shared, b"").unwrap();
        }
    }
    area.publish(Publish::Shared, b"large").unwrap();
    say("shared");
    wait_for_the_end();
}

/// Takes a snapshot of it, changes the copy, and shares that.
fn heir(ns: &Namespace) {
    let area = ns.hook(&name("large")).unwrap().derive(Some(&name("heir"))).unwrap();
    fill(&area, data_at(0), 40 * DATA, 200);
    area.publish(Publish::Shared, b"heir").unwrap();
    say("shared");
    wait_for_the_end();
}

fn check(ns: &Namespace, text: &str, changed: u64) {
    let snapshot = ns.hook(&name(text)).unwrap();
    assert_eq!(snapshot.payload(), text.as_bytes());
    for i in 0..EXTENTS {
        let byte = if i < changed { 200 } else { i as u8 + 1 };
        assert!(snapshot_is(&snapshot, data_at(i), DATA, byte), "extent {i} of {text}");
    }
}

fn chain(ns: &Namespace) {
    let size = swing::free_space(Path::new(HERE)).unwrap().size;
    assert_eq!(size, ByteLen::mib(64));
    let mut creator = Stage::start("creator", Path::new(HERE));
    assert_eq!(creator.answer(), "shared");
    check(ns, "large", 0);
    let mut heir = Stage::start("heir", Path::new(HERE));
    assert_eq!(heir.answer(), "shared");
    check(ns, "heir", 40);
    check(ns, "large", 0);
    // The creator dies; the heir holds what both areas show.
    creator.kill();
    check(ns, "large", 0);
    let area = ns.open_area(&name("large")).unwrap();
    fill(&area, data_at(EXTENTS), 4 * DATA, 7);
    area.publish(Publish::Shared, b"large").unwrap();
    check(ns, "large", 0);
    heir.kill();
    let gone = ns.hook(&name("heir"));
    assert!(matches!(gone, Err(HookError::MemoryGone { .. })), "{gone:?}");
    let gone = ns.open_area(&name("heir"));
    assert!(matches!(gone, Err(OpenError::MemoryGone { .. })), "{gone:?}");
    check(ns, "large", 0);
    assert_eq!(ns.gc().unwrap().removed, 1);
    check(ns, "large", 0);
    drop(area);
    ns.remove(&name("large")).unwrap();
    assert_eq!(std::fs::read_dir(HERE).unwrap().count(), 0);
}

#[test]
fn areas_larger_than_the_file_system() {
    in_small_shm("chain");
}

/// Asked for files, a small file system is full, and says so.
fn full(ns: &Namespace) {
    let ns = ns.clone().with_backing(Backing::File);
    let area = ns.create(&name("a"), &options()).unwrap();
    let whole = range(data_at(0), EXTENTS * DATA);
    let e = area.make_writable(whole, WriteIntent::Overwrite).unwrap_err().to_string();
    assert!(e.contains("SWINGDB_BACKING") && e.contains("remount"), "{e}");
}

#[test]
fn files_on_a_small_file_system() {
    in_small_shm("full");
}
