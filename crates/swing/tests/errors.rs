//! What is impossible is an error that says what and why, and changes nothing.

#[macro_use]
mod common;

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::*;
use swing::{
    AreaOffset, AreaOptions, ByteLen, CreateError, HookError, MAX_PAYLOAD_BYTES, OpenError,
    Publish, PublishError, RemoveError, WriteError, WriteIntent,
};

fn no_area_of_the_name() {
    let h = home();
    let missing = name("missing");
    let hook = [
        h.ns.hook(&missing).map(|_| ()),
        h.ns.hook_live(&missing).map(|_| ()),
        h.ns.shared_state(&missing).map(|_| ()),
        h.ns.wait_newer(&missing, None, Duration::ZERO).map(|_| ()),
    ];
    for result in hook {
        assert!(matches!(&result, Err(HookError::NotFound { name }) if name == "missing"));
    }
    let open = h.ns.open_area(&missing);
    assert!(matches!(open, Err(OpenError::NotFound { name }) if name == "missing"));
    let remove = h.ns.remove(&missing);
    assert!(matches!(remove, Err(RemoveError::NotFound { name }) if name == "missing"));
    nothing_is_left(&h);
}

/// The environment is read with each namespace: a process of its own has another.
fn a_switch_that_there_is_not() {
    let with = |without: &str| {
        let program = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(program);
        command.args(["--exact", "file::no_area_of_the_name", "--nocapture"]);
        let ran = command.env(swing::WITHOUT_VARIABLE, without).output().unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (done, said) = with("affinity,nonsense");
    let tells = ["SWING_WITHOUT", "nonsense", "copy-ahead"].iter().all(|word| said.contains(word));
    assert!(!done && tells, "{said}");
    let (done, said) = with("affinity,copy-ahead");
    assert!(done && said.contains("1 passed"), "{said}");
}

fn ranges_that_no_area_has() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, SMALL, 1);
    let before = area.stats();
    let end = area.geometry().reserve().get();
    for (from, to) in [(end, end + 1), (0, end + 1), (8, 4), (end + 8, end + 8), (0, u64::MAX)] {
        let range = || AreaOffset(from)..AreaOffset(to);
        let write = area.make_writable(range(), WriteIntent::Keep);
        let discard = area.discard(range());
        for refused in [write, discard] {
            let as_asked = matches!(&refused, Err(WriteError::OutOfRange { start, end })
                if (start.get(), end.get()) == (from, to));
            assert!(as_asked, "{from:#x}..{to:#x}: {refused:?}");
        }
        assert!(!area.presence().covers(&range()));
    }
    // Nothing is a part of every area.
    for at in [0, 1, end] {
        area.make_writable(range(at, 0), WriteIntent::Overwrite).unwrap();
        area.discard(range(at, 0)).unwrap();
    }
    assert_eq!(area.stats(), before);
    assert!(read(&area, 0, SMALL).iter().all(|b| *b == 1));
}

fn a_payload_of_the_limit_and_one_byte_more() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, SMALL, 1);
    let longest = [7; MAX_PAYLOAD_BYTES];
    let epoch = area.publish(Publish::Shared, &longest).unwrap();
    let refused = area.publish(Publish::Shared, &[0; MAX_PAYLOAD_BYTES + 1]);
    assert!(matches!(refused, Err(PublishError::Limit { limit: 4096, .. })), "{refused:?}");
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!((snapshot.epoch(), snapshot.payload()), (epoch, &longest[..]));
    assert_eq!(area.payload(), longest);
}

/// All addresses of the process are taken by areas, and can be had again when these go.
fn more_addresses_than_there_are() {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let h = home();
    let options = AreaOptions {
        small_zone: ByteLen(0),
        extent: ByteLen::mib(32),
        ..AreaOptions::with_reserve(swing::geometry::MAX_RESERVE)
    };
    let mut areas = Vec::new();
    let refused = loop {
        match h.ns.create_unnamed(&options) {
            Ok(area) => areas.push(area),
            Err(e) => break e,
        }
        assert!(areas.len() < 10_000, "addresses do not end");
    };
    let len = swing::geometry::MAX_RESERVE;
    assert!(matches!(refused, CreateError::AddressSpace { len: l } if l == len), "{refused:?}");
    let last = areas.pop().unwrap();
    fill(&last, 0, 1, 1);
    areas.clear();
    drop(h.ns.create_unnamed(&options).unwrap());
    assert_eq!(read(&last, 0, 1), [1]);
    drop(last);
    nothing_is_left(&h);
}

/// Somebody of this user locks a manifest and does not let go: hooking ends with an error.
fn a_manifest_that_is_examined_for_ever() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, SMALL, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let manifest = fs::File::open(h.dir.path().join("a/shared")).unwrap();
    // SAFETY: locks a file of this test's own.
    assert_eq!(unsafe { libc::flock(manifest.as_raw_fd(), libc::LOCK_EX) }, 0);
    let hook = h.ns.hook(&name("a"));
    assert!(matches!(&hook, Err(HookError::Contended { name }) if name == "a"), "{hook:?}");
    // The owner is not held up.
    fill(&area, 0, SMALL, 2);
    area.publish(Publish::Shared, b"").unwrap();
    assert!(snapshot_is(&h.ns.hook(&name("a")).unwrap(), 0, SMALL, 2));
    drop(manifest);
    area.reclaim().unwrap();
    assert_eq!(area.stats().live_manifests, 1, "the old one goes when it is let go");
}

/// A file of an area's folder is missing: what is there is not taken for nothing, and stays.
fn a_state_whose_link_is_missing_is_damage() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, SMALL, 1);
    area.publish(Publish::Shared, b"root").unwrap();
    drop(area);
    let folder = h.dir.path().join("a");
    fs::remove_file(folder.join("committed")).unwrap();
    let before = fs::read_dir(&folder).unwrap().count();
    let open = h.ns.open_area(&name("a"));
    assert!(matches!(&open, Err(OpenError::Corrupt { .. })), "{open:?}");
    assert!(h.ns.create(&name("a"), &options()).is_err());
    assert_eq!(h.ns.gc().unwrap().damaged, 1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), before, "nothing is taken away");
    if backing() == swing::Backing::File {
        assert!(snapshot_is(&h.ns.hook(&name("a")).unwrap(), 0, SMALL, 1));
    }
    assert_eq!(h.ns.published_payload(&name("a")).unwrap().as_deref(), Some(&b"root"[..]));
    h.ns.remove(&name("a")).unwrap();
    assert_eq!(h.ns.published_payload(&name("a")).unwrap(), None);
    nothing_is_left(&h);
}

over_both_back_ends! {
    a_state_whose_link_is_missing_is_damage,
    no_area_of_the_name,
    a_switch_that_there_is_not,
    ranges_that_no_area_has,
    a_payload_of_the_limit_and_one_byte_more,
    more_addresses_than_there_are,
    a_manifest_that_is_examined_for_ever,
}
