//! Memory that lives as long as somebody holds it: memfds whose owners, readers and heirs are
//! killed in every order. Whoever finds the memory finds the bytes that were published; when nobody
//! holds it any more that is a typed error, and nothing stays behind (INV-AREA-14).

#[macro_use]
mod common;
#[path = "common/stage.rs"]
mod stage;

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use common::*;
use stage::{PLACE, ROLE, Stage, next_line, say};
use swing::{Area, AreaInfo, Backing, HookError, Namespace, OpenError, Publish, Snapshot};

const EXTENTS: u64 = 4;

/// Not a test: what the processes run that the tests start. Each obeys lines:
/// `make NAME N`, `hook NAME`, `derive NAME CHILD N`, `adopt NAME N`, `drop`, `label FD`.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    assert_eq!(role, "obey");
    let ns = Namespace::open(std::env::var(PLACE).unwrap()).unwrap();
    let mut kept = Kept::default();
    say("ready");
    while let Some(line) = next_line() {
        let words: Vec<&str> = line.split(' ').collect();
        say(&obey(&ns, &mut kept, &words));
    }
}

#[derive(Default)]
struct Kept {
    areas: Vec<Area>,
    snapshots: Vec<Snapshot>,
}

fn obey(ns: &Namespace, kept: &mut Kept, words: &[&str]) -> String {
    match words {
        ["make", text, n] => {
            let area = ns.create(&name(text), &options()).unwrap();
            state(&area, n.parse().unwrap());
            kept.areas.push(area);
            "made".into()
        }
        ["hook", text] => match ns.hook(&name(text)) {
            Ok(snapshot) => {
                let n = number(&snapshot);
                kept.snapshots.push(snapshot);
                n.to_string()
            }
            Err(HookError::MemoryGone { .. }) => "gone".into(),
            Err(e) => e.to_string(),
        },
        ["derive", text, child, n] => {
            let area = ns.hook(&name(text)).unwrap().derive(Some(&name(child))).unwrap();
            change(&area, n.parse().unwrap());
            kept.areas.push(area);
            "derived".into()
        }
        ["adopt", text, n] => match ns.open_area(&name(text)) {
            Ok(area) => {
                state(&area, n.parse().unwrap());
                kept.areas.push(area);
                "adopted".into()
            }
            Err(OpenError::MemoryGone { .. }) => "gone".into(),
            Err(e) => e.to_string(),
        },
        ["drop"] => {
            *kept = Kept::default();
            "dropped".into()
        }
        _ => panic!("{words:?}"),
    }
}

/// Writes state `n`: every extent holds it.
fn state(area: &Area, n: u8) {
    fill(area, 0, SMALL, n);
    fill(area, data_at(0), EXTENTS * DATA, n);
    area.publish(Publish::Shared, &[n, n]).unwrap();
}

/// Changes the first extent of a derived area only.
fn change(area: &Area, n: u8) {
    fill(area, data_at(0), DATA, n);
    let origin = read(area, data_at(1), 1)[0];
    area.publish(Publish::Shared, &[n, origin]).unwrap();
}

/// The number of a snapshot's state; every byte is looked at.
fn number(snapshot: &Snapshot) -> u8 {
    let [n, origin] = snapshot.payload() else { panic!("{:?}", snapshot.payload()) };
    assert!(snapshot_is(snapshot, data_at(0), DATA, *n), "the first extent of state {n}");
    assert!(snapshot_is(snapshot, data_at(1), (EXTENTS - 1) * DATA, *origin), "state {n}");
    assert!(snapshot_is(snapshot, 0, SMALL, *origin));
    *n
}

fn start(h: &Home) -> Stage {
    let mut stage = Stage::start("obey", h.dir.path());
    assert_eq!(stage.answer(), "ready");
    stage
}

/// A home whose areas, also those of started processes, are memfds.
fn memfd_home() -> Home {
    let h = home();
    assert_eq!(backing(), Backing::Memfd);
    h
}

fn over_memfd(test: fn()) {
    over(Backing::Memfd, test);
}

fn info(h: &Home, text: &str) -> AreaInfo {
    let list = h.ns.list().unwrap();
    list.into_iter().find(|i| i.name == Some(name(text))).unwrap()
}

/// A process that another test is just starting holds what this one had open, for a moment.
fn assert_gone(h: &Home, text: &str) {
    let by = Instant::now() + Duration::from_secs(60);
    let hook = loop {
        match h.ns.hook(&name(text)) {
            Ok(_) if Instant::now() < by => std::thread::sleep(Duration::from_millis(5)),
            hook => break hook,
        }
    };
    assert!(matches!(hook, Err(HookError::MemoryGone { .. })), "{hook:?}");
    let open = h.ns.open_area(&name(text));
    assert!(matches!(open, Err(OpenError::MemoryGone { .. })), "{open:?}");
    assert!(info(h, text).lost, "{:?}", info(h, text));
}

/// The owner is killed; a reader that is alive is enough to hook, to adopt and to go on.
#[test]
fn a_reader_keeps_a_dead_owners_area() {
    over_memfd(|| {
        let h = memfd_home();
        let (mut owner, mut reader, mut other) = (start(&h), start(&h), start(&h));
        assert_eq!(owner.ask("make a 1"), "made");
        assert_eq!(reader.ask("hook a"), "1");
        assert!(!info(&h, "a").lost && info(&h, "a").own.get() >= EXTENTS * DATA);
        owner.kill();
        // This process finds it at the reader's, the next one perhaps here.
        let snapshot = h.ns.hook(&name("a")).unwrap();
        assert_eq!(number(&snapshot), 1);
        assert!(!info(&h, "a").lost);
        drop(snapshot);
        assert_eq!(h.ns.gc().unwrap().removed, 0);
        assert_eq!(other.ask("adopt a 2"), "adopted");
        reader.kill();
        // The link names the adopter now.
        assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), 2);
        other.kill();
        assert_gone(&h, "a");
        assert!(h.ns.hook(&name("a")).unwrap_err().to_string().contains("SWINGDB_BACKING"));
        nothing_is_left(&h);
    });
}

/// What is lost is in nobody's way.
#[test]
fn a_lost_name_can_be_used_again() {
    over_memfd(|| {
        for remove in [false, true] {
            let h = memfd_home();
            let mut owner = start(&h);
            assert_eq!(owner.ask("make a 1"), "made");
            owner.kill();
            assert_gone(&h, "a");
            if remove {
                h.ns.remove(&name("a")).unwrap();
            }
            let area = h.ns.create(&name("a"), &options()).unwrap();
            state(&area, 7);
            assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), 7);
            drop(area);
            // Closed in an orderly way by a process that lives on: still there.
            let mut reader = start(&h);
            assert_eq!(reader.ask("hook a"), "7");
            h.ns.remove(&name("a")).unwrap();
            assert_eq!(reader.ask("hook a"), "no area named \"a\" exists here");
            reader.kill();
            nothing_is_left(&h);
        }
    });
}

/// A derived area holds what it shows of its parent.
#[test]
fn heirs_hold_their_parents() {
    over_memfd(|| {
        let h = memfd_home();
        let (mut owner, mut heir) = (start(&h), start(&h));
        assert_eq!(owner.ask("make a 1"), "made");
        assert_eq!(heir.ask("derive a b 2"), "derived");
        owner.kill();
        assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), 1, "the heir has it open");
        let snapshot = h.ns.hook(&name("b")).unwrap();
        assert_eq!((number(&snapshot), snapshot.payload()[1]), (2, 1));
        h.ns.remove(&name("a")).unwrap();
        // The heir dies, its heir adopts, and shows both memories to others.
        heir.kill();
        let area = h.ns.open_area(&name("b")).unwrap();
        drop(snapshot);
        change(&area, 3);
        let mut reader = start(&h);
        assert_eq!(reader.ask("hook b"), "3");
        drop(area);
        // Also after an orderly close the process holds both.
        let mut second = start(&h);
        assert_eq!(second.ask("hook b"), "3");
        h.ns.remove(&name("b")).unwrap();
        reader.kill();
        second.kill();
        nothing_is_left(&h);
    });
}

/// Both kinds may derive from each other.
#[test]
fn files_and_memfds_mix() {
    over_memfd(|| {
        let h = memfd_home();
        let kinds = [Backing::File, Backing::Memfd, Backing::File, Backing::Memfd];
        let mut last = h.ns.clone().with_backing(Backing::File).create(&name("n0"), &options());
        state(last.as_ref().unwrap(), 1);
        let mut areas = Vec::new();
        for (i, kind) in kinds.into_iter().enumerate() {
            let ns = h.ns.clone().with_backing(kind);
            let snapshot = ns.hook(&name(&format!("n{i}"))).unwrap();
            let area = snapshot.derive(Some(&name(&format!("n{}", i + 1)))).unwrap();
            fill(&area, data_at(0), DATA, 2 + i as u8);
            area.publish(Publish::Shared, &[2 + i as u8, 1]).unwrap();
            let memory = memory_of(&h.dir.path().join(format!("n{}", i + 1)));
            assert_eq!(memory.is_symlink(), kind == Backing::Memfd);
            areas.push(std::mem::replace(&mut last, Ok(area)));
        }
        drop((areas, last));
        let mut reader = start(&h);
        assert_eq!(reader.ask("hook n4"), "5");
        for i in 0..5 {
            h.ns.remove(&name(&format!("n{i}"))).unwrap();
        }
        reader.kill();
        nothing_is_left(&h);
    });
}

/// Processes come, hook, adopt, and are killed. As long as one of them has the memory, the newest
/// published state is what everybody finds.
#[test]
fn any_holder_is_enough() {
    over_memfd(|| {
        let h = memfd_home();
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut first = start(&h);
        assert_eq!(first.ask("make a 1"), "made");
        let (mut owner, mut n) = (Some(first), 1u8);
        let mut readers: Vec<Stage> = Vec::new();
        for _ in 0..40 {
            match rng.u8(..4) {
                0 if !readers.is_empty() => owner.take().into_iter().for_each(Stage::kill),
                1 if owner.is_none() => {
                    let mut next = start(&h);
                    n += 1;
                    assert_eq!(next.ask(&format!("adopt a {n}")), "adopted");
                    owner = Some(next);
                }
                2 if readers.len() + usize::from(owner.is_some()) > 1 && !readers.is_empty() => {
                    readers.swap_remove(rng.usize(..readers.len())).kill();
                }
                _ if readers.len() < 4 => {
                    let mut reader = start(&h);
                    assert_eq!(reader.ask("hook a"), n.to_string());
                    readers.push(reader);
                }
                _ => assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), n),
            }
        }
        drop((owner, readers));
        assert_gone(&h, "a");
        nothing_is_left(&h);
    });
}

/// A memfd as a hostile program would make it: called after the area, with other bytes.
fn forged(label: &str, sealed: bool, len: u64) -> fs::File {
    let label = std::ffi::CString::new(label).unwrap();
    // SAFETY: a valid string; the descriptor is new and nobody else's.
    let fd = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0);
    // SAFETY: as above.
    let file = fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(len).unwrap();
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: changes only that memfd.
    assert!(!sealed || unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } == 0);
    file
}

/// The link may say whatever it likes: nobody ever gets other bytes than the area's.
#[test]
fn links_that_lie() {
    over_memfd(|| {
        let h = memfd_home();
        let mut owner = start(&h);
        assert_eq!(owner.ask("make a 9"), "made");
        let folder = h.dir.path().join("a");
        let label = format!("swing-{}", info(&h, "a").id);
        let len = 16 << 30;
        let forgeries = [
            forged(&label, true, len),
            forged(&label, false, len),
            forged(&label, true, 4096),
            forged(&format!("{label}0"), true, len),
            fs::File::open("/dev/zero").unwrap(),
            tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap(),
        ];
        let pid = std::process::id();
        let mut lies: Vec<String> =
            forgeries.iter().map(|f| format!("/proc/{pid}/fd/{}", f.as_raw_fd())).collect();
        let texts = ["/etc/passwd", "/proc/self/fd/0", "/proc/1/fd/0", "", "memory", "/dev/zero"];
        lies.extend(texts.iter().filter(|t| !t.is_empty()).map(|t| (*t).to_owned()));
        lies.push(format!("/proc/{pid}/fd/{}", u32::MAX));
        lies.push("x".repeat(3000));
        for lie in &lies {
            relink(&folder, lie);
            assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), 9, "found all the same: {lie}");
        }
        owner.kill();
        for lie in &lies {
            relink(&folder, lie);
            if lie.starts_with("/proc/1/") {
                // Perhaps nobody may ask that process: then it is not concluded that it is gone.
                assert!(h.ns.hook(&name("a")).is_err() && h.ns.open_area(&name("a")).is_err());
                continue;
            }
            assert_gone(&h, "a");
        }
        // A plain file in its place has another identity.
        fs::remove_file(folder.join("memory.held")).unwrap();
        fs::File::create(folder.join("memory")).unwrap().set_len(len).unwrap();
        let hook = h.ns.hook(&name("a"));
        assert!(matches!(hook, Err(HookError::Corrupt { .. })), "{hook:?}");
    });
}

fn relink(folder: &Path, target: &str) {
    fs::remove_file(folder.join("memory.held")).unwrap();
    symlink(target, folder.join("memory.held")).unwrap();
}

/// Another user's memfd is not opened, even by root, who could.
#[test]
fn memory_of_another_user() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: becoming another user needs root");
        return;
    }
    over_memfd(|| {
        let h = memfd_home();
        let mut owner = start(&h);
        assert_eq!(owner.ask("make a 9"), "made");
        let folder = h.dir.path().join("a");
        let label = format!("swing-{}", info(&h, "a").id);
        let (mut done, mut ready) = ([0; 2], [0; 2]);
        // SAFETY: two pipes; the child uses only system calls.
        let pid = unsafe {
            assert_eq!(libc::pipe(done.as_mut_ptr()) | libc::pipe(ready.as_mut_ptr()), 0);
            libc::fork()
        };
        if pid == 0 {
            // SAFETY: only system calls, and the end.
            unsafe {
                libc::setuid(65534);
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                let file = forged(&label, true, 16 << 30);
                let fd = file.as_raw_fd();
                libc::write(ready[1], (&raw const fd).cast(), 4);
                libc::close(done[1]);
                libc::read(done[0], (&raw mut done).cast(), 1);
                libc::_exit(0);
            }
        }
        let mut fd = 0i32;
        // SAFETY: reads four bytes into a number.
        assert_eq!(unsafe { libc::read(ready[0], (&raw mut fd).cast(), 4) }, 4);
        let lie = format!("/proc/{pid}/fd/{fd}");
        assert!(fs::read_link(&lie).unwrap().to_str().unwrap().contains(&label));
        relink(&folder, &lie);
        assert_eq!(number(&h.ns.hook(&name("a")).unwrap()), 9);
        owner.kill();
        relink(&folder, &lie);
        assert_gone(&h, "a");
        let mut status = 0;
        // SAFETY: ends the child made above.
        unsafe {
            libc::close(done[1]);
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        }
        assert_eq!(status, 0);
    });
}
