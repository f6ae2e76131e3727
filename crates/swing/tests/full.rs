//! A full memory file system is a typed error, never a signal; and the area goes on working
//! afterwards (INV-AREA-8). These tests mount small file systems of their own: they need root and
//! say so otherwise. They run one after the other: a forked child holds what other tests give back
//! until it ends, which is too late where memory is short.

mod common;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::*;
use swing::{
    Area, AreaOptions, Backing, ByteLen, CreateError, Namespace, Publish, PublishError, WriteError,
    WriteIntent,
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A small tmpfs, unmounted at the end.
struct Small {
    dir: tempfile::TempDir,
    ns: Namespace,
    _turn: MutexGuard<'static, ()>,
}

impl Small {
    fn mount(options: &str) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let (at, options) = (c_path(dir.path()), CString::new(options).unwrap());
        let kind = c"tmpfs".as_ptr();
        // SAFETY: valid strings; the file system is mounted over a directory of this test's own.
        let done = unsafe { libc::mount(kind, at.as_ptr(), kind, 0, options.as_ptr().cast()) };
        if done != 0 {
            println!("skipped: mounting: {}", std::io::Error::last_os_error());
            return None;
        }
        let ns = Namespace::open(dir.path().join("home")).unwrap().with_backing(Backing::File);
        Some(Self { dir, ns, _turn: turn })
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // SAFETY: a valid string.
        unsafe { libc::umount2(c_path(self.dir.path()).as_ptr(), libc::MNT_DETACH) };
    }
}

fn c_path(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

const MOUNTS: [&str; 2] = ["size=32m,huge=never", "size=32m,huge=advise"];

fn create(small: &Small, text: &str) -> Area {
    small.ns.create(&name(text), &options()).unwrap()
}

fn is_full(result: Result<(), WriteError>) -> bool {
    match result {
        Err(WriteError::OutOfMemory { needed, file_system, free }) => {
            assert!(needed.get() > 0 && file_system.is_absolute() && free < ByteLen::mib(32));
            true
        }
        Err(e) => panic!("{e}"),
        Ok(()) => false,
    }
}

#[test]
fn writing_until_full() {
    for mount in MOUNTS {
        let Some(small) = Small::mount(mount) else { return };
        let area = create(&small, "a");
        fill(&area, data_at(0), 4 * DATA, 1);
        area.publish(Publish::Shared, b"").unwrap();
        let too_much = range(data_at(4), 32 * DATA);
        assert!(is_full(area.make_writable(too_much, WriteIntent::Overwrite)));
        // What failed left nothing behind: most of the space is free for a smaller request.
        fill(&area, data_at(4), 8 * DATA, 2);
        let mut at = 12;
        while !is_full(area.make_writable(range(data_at(at), DATA), WriteIntent::Keep)) {
            at += 1;
            assert!(at < 20);
        }
        // Copies fail, too, and leave the old bytes in place, readable and still copy-on-write.
        let snapshot = small.ns.hook(&name("a")).unwrap();
        assert!(is_full(area.make_writable(range(data_at(0), 4 * DATA), WriteIntent::Keep)));
        assert!(is_full(area.make_writable(range(data_at(0), 4 * DATA), WriteIntent::Overwrite)));
        assert!(read(&area, data_at(0), 4 * DATA).iter().all(|b| *b == 1));
        // Room again: everything goes on.
        area.discard(range(data_at(4), 20 * DATA)).unwrap();
        fill(&area, data_at(0), 4 * DATA, 3);
        assert!(snapshot_is(&snapshot, data_at(0), 4 * DATA, 1));
        area.publish(Publish::Shared, b"").unwrap();
        let newer = small.ns.hook(&name("a")).unwrap();
        assert!(snapshot_is(&newer, data_at(0), 4 * DATA, 3));
    }
}

#[test]
fn old_versions_are_given_back_before_memory_is_refused() {
    for mount in MOUNTS {
        let Some(small) = Small::mount(mount) else { return };
        let area = create(&small, "a");
        fill(&area, data_at(0), 6 * DATA, 1);
        area.publish(Publish::Shared, b"").unwrap();
        let snapshot = small.ns.hook(&name("a")).unwrap();
        fill(&area, data_at(0), 6 * DATA, 2);
        area.publish(Publish::Shared, b"").unwrap();
        assert!(is_full(area.make_writable(range(data_at(0), 6 * DATA), WriteIntent::Keep)));
        drop(snapshot);
        // Nobody told the owner that the lease has ended: it looks when it needs memory.
        fill(&area, data_at(0), 6 * DATA, 3);
    }
}

#[test]
fn what_the_dead_left_is_collected_before_memory_is_refused() {
    let Some(small) = Small::mount(MOUNTS[0]) else { return };
    let other = small.ns.create_unnamed(&options()).unwrap();
    fill(&other, data_at(0), 10 * DATA, 1);
    let view = other.freeze_view().unwrap();
    // As a kill would leave it: folder and memory stay, the lock and the lease go.
    let folder = small.dir.path().join("home").join(format!(".unnamed-{}", other.id()));
    assert!(folder.join("memory").exists());
    drop(view);
    let copy = small.dir.path().join("home/.unnamed-00000000000000ff");
    drop(other);
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("owner.lock"), "").unwrap();
    std::fs::write(copy.join("info"), "id 00000000000000ff\ncreated 1\n").unwrap();
    std::fs::write(copy.join("memory"), vec![1u8; 20 << 20]).unwrap();
    let area = create(&small, "a");
    fill(&area, data_at(0), 10 * DATA, 1);
    assert!(!copy.exists());
}

/// Not a single page is left for the manifest.
#[test]
fn publishing_on_a_full_file_system() {
    for mount in MOUNTS {
        let Some(small) = Small::mount(mount) else { return };
        let area = create(&small, "a");
        fill(&area, 0, SMALL, 1);
        area.publish(Publish::Shared, b"one").unwrap();
        fill(&area, 0, SMALL, 2);
        let ballast = small.dir.path().join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        for _ in 0..3 {
            let failed = area.publish(Publish::Shared, b"two");
            assert!(matches!(failed, Err(PublishError::OutOfMemory { .. })), "{failed:?}");
        }
        assert_eq!(small.ns.hook(&name("a")).unwrap().payload(), b"one");
        file.set_len(0).unwrap();
        // The state is frozen, but nobody shows it: it is written in place.
        let before = area.stats();
        fill(&area, 0, SMALL, 3);
        assert_eq!(area.stats().copied, before.copied);
        area.publish(Publish::Shared, b"three").unwrap();
        let snapshot = small.ns.hook(&name("a")).unwrap();
        assert_eq!(snapshot.payload(), b"three");
        assert!(snapshot_is(&snapshot, 0, SMALL, 3));
    }
}

/// What was frozen in vain is stored to in place: a store that needed memory would end the process.
#[test]
fn storing_after_a_publish_or_a_fork_on_a_full_file_system() {
    for mount in MOUNTS {
        for forks in [false, true] {
            let Some(small) = Small::mount(mount) else { return };
            let area = create(&small, "a");
            area.track().unwrap();
            let store = |byte: u8| {
                let start = area.base().as_ptr().wrapping_add(data_at(0) as usize);
                // SAFETY: inside the area, whose stores are tracked; no other thread is there.
                unsafe { std::ptr::write_bytes(start, byte, 2 * DATA as usize) };
            };
            store(1);
            area.publish(Publish::Shared, b"one").unwrap();
            store(2);
            let mut file = std::fs::File::create(small.dir.path().join("ballast")).unwrap();
            while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
            for round in 3..6 {
                if forks {
                    // SAFETY: the child does nothing but end.
                    let child = unsafe { libc::fork() };
                    if child == 0 {
                        // SAFETY: ends the process.
                        unsafe { libc::_exit(0) };
                    }
                    let mut status = 0;
                    // SAFETY: waits for the child that was just made.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    assert_eq!(status, 0);
                } else {
                    let failed = area.publish(Publish::Shared, b"two");
                    assert!(matches!(failed, Err(PublishError::OutOfMemory { .. })), "{failed:?}");
                }
                store(round);
            }
            assert!(snapshot_is(&small.ns.hook(&name("a")).unwrap(), data_at(0), 2 * DATA, 1));
            file.set_len(0).unwrap();
            store(7);
            area.publish(Publish::Shared, b"three").unwrap();
            store(8);
            assert!(snapshot_is(&small.ns.hook(&name("a")).unwrap(), data_at(0), 2 * DATA, 7));
        }
    }
}

#[test]
fn creating_on_a_full_file_system() {
    let Some(small) = Small::mount("size=1m,nr_inodes=6") else { return };
    let mut areas = Vec::new();
    let failed = loop {
        match small.ns.create_unnamed(&options()) {
            Ok(area) => areas.push(area),
            Err(e) => break e,
        }
        assert!(areas.len() < 6);
    };
    assert!(matches!(failed, CreateError::OutOfMemory { .. }), "{failed:?}");
}

/// What a creation had made before it failed goes at once, so the next one finds the same room.
#[test]
fn a_creation_that_fails_leaves_nothing() {
    // Two are there already. Of three more the first, the second, the third is missing, or none.
    for inodes in 2..7 {
        let Some(small) = Small::mount(&format!("size=1m,nr_inodes={inodes}")) else { return };
        let home = small.dir.path().join("home");
        let left = || {
            let names = std::fs::read_dir(&home).unwrap().map(|e| e.unwrap().file_name());
            names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        for _ in 0..3 {
            match small.ns.create(&name("a"), &options()) {
                Ok(_) => assert!(inodes >= 5, "{inodes}"),
                Err(CreateError::OutOfMemory { .. }) => assert_eq!(left(), [""; 0], "{inodes}"),
                Err(e) => panic!("{inodes}: {e}"),
            }
        }
    }
}

/// With `huge=advise` an extent is one huge page; the same bytes, the same behaviour.
#[test]
fn huge_pages_where_the_file_system_allows_them() {
    let Some(small) = Small::mount("size=64m,huge=advise") else { return };
    let area = small.ns.create(&name("a"), &AreaOptions::with_reserve(ByteLen::gib(1))).unwrap();
    fill(&area, data_at(0), 4 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = small.ns.hook(&name("a")).unwrap();
    fill(&area, data_at(1), DATA, 2);
    assert!(snapshot_is(&snapshot, data_at(0), 4 * DATA, 1));
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let at = area.base().as_ptr() as u64 + data_at(1);
    let huge = pmd_mapped(&smaps, at);
    if huge == 0 {
        println!("no huge pages on this machine at the moment");
    }
    assert!(huge == 0 || huge >= 2048);
}

/// `ShmemPmdMapped` of the mapping that holds an address, in KiB.
fn pmd_mapped(smaps: &str, address: u64) -> u64 {
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or("");
        if let Some((a, b)) = first.split_once('-')
            && let (Ok(a), Ok(b)) = (u64::from_str_radix(a, 16), u64::from_str_radix(b, 16))
        {
            inside = (a..b).contains(&address);
        }
        if inside && let Some(rest) = line.strip_prefix("ShmemPmdMapped:") {
            return rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        }
    }
    0
}
