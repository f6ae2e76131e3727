//! Real processes, killed by SIGKILL at random points (INV-AREA-5).
//!
//! A writer process commits and shares numbered states in a loop; each state's payload says what
//! every extent must hold. It is killed, adopted by the next one, killed again. Meanwhile snapshots
//! are held across the deaths, and another process derives from the newest state and is killed,
//! too. `SWING_KILLS` sets the number of rounds.

#[macro_use]
mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::*;
use swing::{
    Area, AreaOffset, BACKING_VARIABLE, Backing, CreateError, DeriveError, HookError, Namespace,
    OpenError, Publish, RemoveError, Snapshot, WriteIntent,
};

const EXTENTS: u64 = 12;
const ROLE: &str = "SWING_KILL_ROLE";
const PLACE: &str = "SWING_KILL_PLACE";

/// A numbered state: what each extent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Numbers {
    n: u64,
    values: Vec<u64>,
}

impl Numbers {
    fn zero() -> Self {
        Self { n: 0, values: vec![0; EXTENTS as usize] }
    }
    fn to_payload(&self) -> Vec<u8> {
        std::iter::once(&self.n).chain(&self.values).flat_map(|v| v.to_le_bytes()).collect()
    }
    fn parse(payload: &[u8]) -> Self {
        let mut words = payload.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap()));
        let n = words.next().unwrap();
        Self { n, values: words.collect() }
    }
}

/// Half of the extents are small ones.
fn extent_range(i: u64) -> (u64, u64) {
    if i < EXTENTS / 2 { (i * SMALL, SMALL) } else { (data_at(i - EXTENTS / 2), DATA) }
}

/// The words of an extent that are written and compared.
fn probes(i: u64) -> impl Iterator<Item = u64> {
    let (start, len) = extent_range(i);
    [0, 4096, len / 2, len - 8].into_iter().map(move |o| start + o)
}

fn check_snapshot(snapshot: &Snapshot) -> Numbers {
    let numbers = Numbers::parse(snapshot.payload());
    for (i, value) in numbers.values.iter().enumerate().filter(|(_, v)| **v > 0) {
        for at in probes(i as u64) {
            let seen = u64::from_le_bytes(read_snapshot(snapshot, at, 8).try_into().unwrap());
            assert_eq!(seen, *value, "extent {i} of state {}", numbers.n);
        }
    }
    numbers
}

fn check_area(area: &Area) -> Numbers {
    if area.payload().is_empty() {
        return Numbers::zero();
    }
    let numbers = Numbers::parse(&area.payload());
    for (i, value) in numbers.values.iter().enumerate().filter(|(_, v)| **v > 0) {
        for at in probes(i as u64) {
            let seen = u64::from_le_bytes(read(area, at, 8).try_into().unwrap());
            assert_eq!(seen, *value, "extent {i} of state {}", numbers.n);
        }
    }
    numbers
}

/// Changes some extents and publishes, for ever.
fn churn(area: &Area, mut numbers: Numbers) -> ! {
    let mut rng = fastrand::Rng::new();
    loop {
        numbers.n += 1;
        for _ in 0..rng.usize(1..4) {
            let i = rng.u64(..EXTENTS);
            let (start, len) = extent_range(i);
            if rng.u8(0..8) == 0 {
                area.discard(range(start, len)).unwrap();
                numbers.values[i as usize] = 0;
                continue;
            }
            area.make_writable(range(start, len), WriteIntent::Keep).unwrap();
            for at in probes(i) {
                // SAFETY: the extent has just been made writable; this process has one thread that
                // stores.
                unsafe { area.base().add(at as usize).cast::<u64>().write(numbers.n) };
            }
            numbers.values[i as usize] = numbers.n;
        }
        let kind = if rng.bool() { Publish::Shared } else { Publish::Committed };
        area.publish(kind, &numbers.to_payload()).unwrap();
        println!("{}", numbers.n);
    }
}

fn writer(ns: &Namespace) -> ! {
    let area = loop {
        match ns.open_area(&name("w")) {
            Ok(area) => break area,
            Err(OpenError::NotFound { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        match ns.create(&name("w"), &options()) {
            Ok(area) => break area,
            Err(CreateError::AlreadyExists { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    };
    let numbers = check_area(&area);
    churn(&area, numbers)
}

fn deriver(ns: &Namespace) -> ! {
    let snapshot = loop {
        match ns.hook(&name("w")) {
            Ok(snapshot) => break snapshot,
            Err(HookError::NotFound { .. } | HookError::NotShared { .. }) => {
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(e) => panic!("{e}"),
        }
    };
    let numbers = check_snapshot(&snapshot);
    let area = match snapshot.derive(Some(&name("d"))) {
        Ok(area) => area,
        Err(DeriveError::AlreadyExists { .. }) => match ns.open_area(&name("d")) {
            Ok(area) => area,
            // A memfd that nobody held: the last deriver was the only one who had it.
            Err(OpenError::MemoryGone { .. }) => {
                ns.remove(&name("d")).unwrap();
                snapshot.derive(Some(&name("d"))).unwrap()
            }
            Err(e) => panic!("{e}"),
        },
        Err(e) => panic!("{e}"),
    };
    let numbers = if area.payload().is_empty() { numbers } else { check_area(&area) };
    churn(&area, numbers)
}

/// Makes, derives, clones, closes and removes areas in a loop.
fn remover(ns: &Namespace) -> ! {
    let mut rng = fastrand::Rng::new();
    for n in 1u64.. {
        let (a, b) = (name(&format!("r{}", n % 3)), name(&format!("s{}", n % 2)));
        let _ = ns.remove(&a);
        let Ok(area) = ns.create(&a, &options()) else { continue };
        area.make_writable(range(data_at(0), 8), WriteIntent::Keep).unwrap();
        area.publish(Publish::Shared, &Numbers::zero().to_payload()).unwrap();
        let snapshot = ns.hook(&a).unwrap();
        drop(area);
        if rng.bool() {
            match ns.remove(&a) {
                // Another remover may be at the same area.
                Ok(_) | Err(RemoveError::NotFound { .. } | RemoveError::Owned { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        let _ = ns.remove(&b);
        if let Ok(derived) = snapshot.derive(Some(&b)) {
            derived
                .map_foreign(&snapshot, range(data_at(0), DATA), AreaOffset(data_at(2)))
                .unwrap();
            derived.publish(Publish::Shared, &Numbers::zero().to_payload()).unwrap();
        }
        drop(snapshot);
        ns.gc().unwrap();
        println!("{n}");
    }
    unreachable!("numbers do not end")
}

/// Creating, deriving, cloning, removing and collecting are killed, too: nothing stays behind, and
/// every name can be used again.
fn half_done_removals_are_finished_by_others() {
    let h = home();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..rounds() / 2 {
        let children: Vec<_> = (0..1 + round % 2).map(|_| start("remover", h.dir.path())).collect();
        for child in children {
            kill_after(child, Duration::from_micros(rng.u64(2_000..12_000)));
        }
        for info in h.ns.list().unwrap() {
            assert!(info.owner.is_none(), "{info:?}");
            let Some(name) = info.name else { continue };
            if let Ok(snapshot) = h.ns.hook(&name) {
                assert!(snapshot.is_mapped(&range(data_at(0), DATA)));
                assert!(snapshot_is(&snapshot, data_at(0), DATA, 0));
            }
        }
    }
    for info in h.ns.list().unwrap() {
        if let Some(name) = info.name {
            match h.ns.remove(&name) {
                Ok(_) => {}
                Err(e) => panic!("{name}: {e}"),
            }
        }
    }
    nothing_is_left(&h);
}

/// Not a test: what the processes run that the test starts.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    // Without a test it would go on for ever.
    // SAFETY: sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let ns = Namespace::open(std::env::var(PLACE).unwrap()).unwrap();
    match role.as_str() {
        "writer" => writer(&ns),
        "remover" => remover(&ns),
        _ => deriver(&ns),
    }
}

fn start(role: &str, place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child_entry", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(PLACE, place)
        .env(BACKING_VARIABLE, backing_text())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills after a while; returns the last number the child reported as published.
fn kill_after(mut child: Child, pause: Duration) -> Option<u64> {
    std::thread::sleep(pause);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(libc::SIGKILL), "the child ended by itself: {status}");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|l| l.trim().parse().ok()).last()
}

fn rounds() -> u32 {
    std::env::var("SWING_KILLS").ok().and_then(|s| s.parse().ok()).unwrap_or(120)
}

fn nothing_committed_is_lost_and_nothing_shared_changes() {
    let h = home();
    let place = h.dir.path();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut held: Vec<(Snapshot, Numbers)> = Vec::new();
    let mut published = 0;
    let mut holder = None;
    for round in 0..rounds() {
        let writer = start("writer", place);
        let deriver = (round % 3 == 0).then(|| start("deriver", place));
        let pause = Duration::from_micros(rng.u64(2_000..15_000));
        // A memfd needs somebody who survives its writers: any old state will do.
        while backing() == Backing::Memfd && holder.is_none() {
            let has_memory = |s: &Snapshot| check_snapshot(s).values.iter().any(|v| *v > 0);
            holder = h.ns.hook(&name("w")).ok().filter(has_memory);
        }
        if let Some(last) = kill_after(writer, pause) {
            assert!(last > published);
            published = last;
        }
        if let Some(deriver) = deriver {
            kill_after(deriver, Duration::from_micros(rng.u64(0..5_000)));
        }
        if rng.u8(0..3) == 0 {
            check_after_death(&h, &mut published);
        }
        if let Ok(snapshot) = h.ns.hook(&name("w")) {
            let numbers = check_snapshot(&snapshot);
            held.push((snapshot, numbers));
        }
        for (snapshot, numbers) in &held {
            assert_eq!(check_snapshot(snapshot), *numbers, "INV-AREA-1");
        }
        while held.len() > 6 {
            held.swap_remove(rng.usize(..held.len()));
        }
        if rng.u8(0..5) == 0 {
            h.ns.gc().unwrap();
        }
    }
    drop(held);
    println!("{published} states were published");
    finish(&h, holder);
}

/// This process adopts: everything that was reported as published is there.
fn check_after_death(h: &Home, published: &mut u64) {
    match h.ns.open_area(&name("w")) {
        Ok(area) => {
            let numbers = check_area(&area);
            assert!(numbers.n >= *published, "{} < {published}: a commit was lost", numbers.n);
            *published = numbers.n;
        }
        Err(OpenError::NotFound { .. }) => assert_eq!(*published, 0),
        Err(e) => panic!("{e}"),
    }
    if let Ok(snapshot) = h.ns.hook(&name("d")) {
        check_snapshot(&snapshot);
    }
}

/// No memory is kept beyond what the live states show, and nothing at all after removal.
fn finish(h: &Home, holder: Option<Snapshot>) {
    if let Ok(area) = h.ns.open_area(&name("d")) {
        check_area(&area);
    }
    let begun = std::time::Instant::now();
    // Processes that other tests are just starting have this one's locks and leases for a moment.
    let is_early = || begun.elapsed() < Duration::from_secs(60);
    loop {
        match h.ns.remove(&name("d")) {
            Ok(_) | Err(RemoveError::NotFound { .. }) => break,
            Err(e) => assert!(matches!(e, RemoveError::Owned { .. }) && is_early(), "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A deriver that was killed while it made its area has left a pin.
    h.ns.gc().unwrap();
    let area = h.ns.open_area(&name("w")).unwrap();
    drop(holder);
    let numbers = check_area(&area);
    area.publish(Publish::Shared, &numbers.to_payload()).unwrap();
    area.reclaim().unwrap();
    while area.stats().live_manifests > 1 && is_early() {
        std::thread::sleep(Duration::from_millis(10));
        area.reclaim().unwrap();
    }
    let stats = area.stats();
    assert_eq!((stats.retired.get(), stats.spare.get(), stats.live_manifests), (0, 0, 1));
    let allocated = std::fs::metadata(memory_of(&h.dir.path().join("w"))).unwrap().blocks() * 512;
    assert_eq!(allocated, stats.own.get());
    drop(area);
    h.ns.remove(&name("w")).unwrap();
    nothing_is_left(h);
}

over_both_back_ends! {
    half_done_removals_are_finished_by_others,
    nothing_committed_is_lost_and_nothing_shared_changes,
}
