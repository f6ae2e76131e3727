//! Heaps in an area: a snapshot shows all objects of one moment, also those on the disk, whatever
//! happens to the heap and to its process (INV-OBJ-9).

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::in_area::{Contents, name, open, place};
use common::seed;
use swing::{AreaName, AreaOffset, AreaOptions, ByteLen, Namespace, Publish, WriteIntent};
use swing_heap::{
    AreaProblem, Handle, HeapError, HeapOptions, HeapSnapshot, ObjectHeap, PolicyKind,
};

fn options(budget: u64) -> HeapOptions {
    HeapOptions { budget, ..Default::default() }
}

fn bytes_of(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = match random.u32(..10) {
        0 => random.usize(1..64),
        1 => random.usize(4097..=65_536),
        _ => random.usize(64..=4096),
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// All of a snapshot is what the model says, and nothing else is there.
fn check(snapshot: &HeapSnapshot, then: &Contents, what: &str) {
    let found: Vec<Handle> = snapshot.handles().collect();
    assert_eq!(found.len(), then.len(), "{what}");
    for handle in found {
        let bytes = &then[&handle];
        assert_eq!(*snapshot.read(handle).unwrap(), **bytes, "{what}: {handle}");
        assert_eq!(snapshot.len_of(handle).unwrap(), bytes.len());
        let in_place = snapshot.in_place(handle).unwrap();
        assert!(in_place.is_none_or(|found| found == bytes), "{what}: {handle}");
    }
    // Some at a time, each once.
    let (mut last, mut all) = (None, Vec::new());
    loop {
        let some: Vec<Handle> = snapshot.handles_after(last).take(700).collect();
        let Some(&end) = some.last() else { break };
        last = Some(end);
        all.extend(some);
    }
    assert!(all.iter().copied().eq(snapshot.handles()), "{what}");
}

/// Random operations; now and then a state is shared, and the snapshots of some are compared.
fn random_states(policy: PolicyKind, disk_limit: u64) {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let place = place();
    let heap = open(&place, HeapOptions { policy, disk_limit, ..options(8 << 20) });
    let mut now = Contents::new();
    let mut handles: Vec<Handle> = Vec::new();
    let mut snapshots: Vec<(HeapSnapshot, Contents)> = Vec::new();
    for step in 0..12_000 {
        let chosen = handles.get(random.usize(..handles.len().max(1))).copied();
        match (random.u32(..1000), chosen) {
            (0..330, _) if handles.len() < 6000 => {
                let bytes = bytes_of(&mut random);
                let handle = heap.alloc_from(&bytes).unwrap();
                handles.push(handle);
                now.insert(handle, bytes);
            }
            (330..630, Some(handle)) => {
                let bytes = now.get_mut(&handle).unwrap();
                let at = random.usize(..bytes.len());
                bytes[at] ^= 0x5a;
                heap.write(handle).unwrap()[at] ^= 0x5a;
            }
            (630..750, Some(handle)) => {
                heap.free(handle).unwrap();
                now.remove(&handle);
                handles.retain(|other| *other != handle);
            }
            (750..790, Some(handle)) => {
                let len = bytes_of(&mut random).len();
                heap.realloc(handle, len).unwrap();
                now.get_mut(&handle).unwrap().resize(len, 0);
            }
            (790..795, _) => {
                heap.share().unwrap();
                if snapshots.len() < 4 {
                    let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
                    snapshots.push((snapshot, now.clone()));
                }
            }
            (795..799, _) if !snapshots.is_empty() => {
                let (snapshot, then) = snapshots.swap_remove(random.usize(..snapshots.len()));
                check(&snapshot, &then, &format!("seed {seed}, step {step}"));
            }
            (799..803, _) => heap.set_budget(random.u64(8 << 20..16 << 20)).unwrap(),
            (_, Some(handle)) => assert_eq!(*heap.read(handle).unwrap(), *now[&handle]),
            _ => {}
        }
    }
    heap.check().unwrap();
    let stats = heap.stats().unwrap();
    assert!(stats.evicted_objects > 1000 && stats.misses > 500, "{stats:?}");
    for (snapshot, then) in &snapshots {
        check(snapshot, then, &format!("seed {seed}, at the end"));
    }
    drop(heap);
    for (snapshot, then) in &snapshots {
        check(snapshot, then, &format!("seed {seed}, after the end"));
    }
}

#[test]
fn a_snapshot_shows_what_was_there() {
    random_states(PolicyKind::TwoLists, 1 << 40);
}

#[test]
fn a_snapshot_shows_what_was_there_in_a_small_file() {
    random_states(PolicyKind::S3Fifo, 96 << 20);
}

/// Handles with the seeds of what they hold.
fn filled(heap: &ObjectHeap, count: u64) -> Vec<Handle> {
    (0..count).map(|i| heap.alloc_from(&of(i)).unwrap()).collect()
}

fn of(i: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1000];
    fastrand::Rng::with_seed(i).fill(&mut bytes);
    bytes
}

/// Blocks that only a snapshot needs stay, and are taken again when it has gone.
#[test]
fn blocks_of_a_snapshot_stay_as_long_as_it_does() {
    let place = place();
    let heap = open(&place, HeapOptions { disk_limit: 28 << 20, ..options(6 << 20) });
    let handles = filled(&heap, 12_000);
    heap.share().unwrap();
    let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
    let change = |round: u64| {
        for (i, handle) in handles.iter().enumerate() {
            heap.write(*handle)?.copy_from_slice(&of(round * 100_000 + i as u64));
        }
        heap.share()?;
        Ok::<(), HeapError>(())
    };
    change(1).unwrap();
    assert!(heap.stats().unwrap().kept_bytes > 4 << 20, "{:?}", heap.stats());
    // Two states fit into the file, and three do not.
    let full = (2..5).find_map(|round| change(round).err()).unwrap();
    assert!(matches!(&full, HeapError::DiskFull(text) if text.contains("snapshots")), "{full}");
    for (i, handle) in handles.iter().enumerate().step_by(7) {
        assert_eq!(*snapshot.read(*handle).unwrap(), *of(i as u64));
    }
    drop(snapshot);
    (5..7).for_each(|round| change(round).unwrap());
    let newest = HeapSnapshot::open(&place.ns, &name()).unwrap();
    for (i, handle) in handles.iter().enumerate().step_by(7) {
        assert_eq!(*newest.read(*handle).unwrap(), *of(600_000 + i as u64));
    }
    heap.check().unwrap();
}

/// Sets a word when dropped, also by a panic: other threads end then.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Each object is shown as it was before a write or after it; both of a pair that one thread holds
/// the guards of at the same time.
#[test]
fn objects_are_whole_while_threads_write() {
    let place = place();
    let heap = open(&place, options(8 << 20));
    let pairs: Vec<[Handle; 2]> =
        (0..6000).map(|_| [(); 2].map(|()| heap.alloc_zeroed(1000).unwrap())).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (heap, pairs, done) = (&heap, &pairs, &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                while !done.load(Ordering::SeqCst) {
                    // Each thread has pairs of its own.
                    let [a, b] = pairs[thread * 2000 + random.usize(..2000)];
                    let value = random.u8(..);
                    let mut first = heap.write(a).unwrap();
                    first.fill(value);
                    let mut second = heap.write(b).unwrap();
                    second.fill(value);
                }
            });
        }
        let _end = AtTheEnd(&done);
        let begun = Instant::now();
        let mut states = 0;
        // A busy machine takes longer for the first few.
        while begun.elapsed() < Duration::from_secs(4) || states <= 3 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{states}");
            heap.share().unwrap();
            let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
            for [a, b] in &pairs {
                let (a, b) = (snapshot.read(*a).unwrap(), snapshot.read(*b).unwrap());
                assert!(a.iter().all(|byte| *byte == a[0]) && a == b, "state {states}");
            }
            states += 1;
        }
    });
}

#[test]
fn what_cannot_be_shared_or_opened_says_so() {
    let place = place();
    let outside = ObjectHeap::open(place.disk.path(), options(6 << 20)).unwrap();
    assert!(matches!(outside.share(), Err(HeapError::Options(_))));
    let open_snapshot = || HeapSnapshot::open(&place.ns, &name());
    let is = |found: Result<HeapSnapshot, HeapError>, expected| match found {
        Err(HeapError::Area { problem, .. }) => problem == expected,
        _ => false,
    };
    assert!(is(open_snapshot(), AreaProblem::NotFound), "no such area");
    let mut short = options(6 << 20);
    short.max_wait = Duration::from_millis(200);
    let heap = open(&place, short);
    let again = ObjectHeap::open_in(&place.ns, &name(), place.disk.path(), options(6 << 20));
    let taken = AreaProblem::NameTaken;
    assert!(matches!(again, Err(HeapError::Area { problem, .. }) if problem == taken));
    assert!(is(open_snapshot(), AreaProblem::NotShared), "nothing is shared");
    heap.enable_pointers(None).unwrap();
    let handle = heap.alloc_from(b"first").unwrap();
    heap.set_root(Some(handle)).unwrap();
    {
        let _writes = heap.write(handle).unwrap();
        assert!(matches!(heap.share(), Err(HeapError::Writing { .. })));
    }
    heap.share().unwrap();
    let snapshot = open_snapshot().unwrap();
    assert_eq!(snapshot.root(), Some(handle));
    let later = heap.alloc_from(b"later").unwrap();
    assert!(matches!(snapshot.read(later), Err(HeapError::NoObject { .. })));
    heap.free(handle).unwrap();
    assert_eq!(*snapshot.read(handle).unwrap(), *b"first");
    heap.share().unwrap();
    assert!(matches!(open_snapshot().unwrap().read(handle), Err(HeapError::NoObject { .. })));
    drop(heap);
    assert!(is(open_snapshot(), AreaProblem::NotFound), "the name is free");
    assert_eq!(*snapshot.read(handle).unwrap(), *b"first");
    drop(snapshot);
    place.ns.gc().unwrap();
    let left: Vec<_> = std::fs::read_dir(place.home.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // An area of something else is neither replaced nor read.
    let area = place.ns.create(&name(), &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
    area.publish(Publish::Shared, b"something else").unwrap();
    assert!(matches!(open_snapshot(), Err(HeapError::NoHeap(_))));
    drop(area);
    let again = ObjectHeap::open_in(&place.ns, &name(), place.disk.path(), options(6 << 20));
    assert!(matches!(again, Err(HeapError::Area { problem, .. }) if problem == taken));
    assert!(place.ns.names().unwrap().contains(&name()));
}

/// A state that somebody has changed on purpose: words of the table, cells, buffers, the payload.
/// What was on the disk is right, or an error; nothing crashes.
#[test]
fn a_hostile_state_is_an_error() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let place = place();
    let heap = open(&place, options(6 << 20));
    let handles = filled(&heap, 8000);
    heap.share().unwrap();
    let origin = HeapSnapshot::open(&place.ns, &name()).unwrap();
    let (mut right, mut wrong, mut refused) = (0, 0, 0);
    for round in 0..60 {
        let evil = AreaName::new(&format!("evil {round}")).unwrap();
        let hooked = place.ns.hook(&name()).unwrap();
        let area = hooked.derive(Some(&evil)).unwrap();
        let table = AreaOffset(0)..AreaOffset(16 * handles.len() as u64);
        area.make_writable(table.clone(), WriteIntent::Keep).unwrap();
        for _ in 0..random.usize(1..400) {
            let at = random.usize(..table.end.as_usize());
            // SAFETY: made writable, and this test's.
            unsafe { *area.base().add(at).as_ptr() ^= 1 << random.u32(..8) };
        }
        let mut payload = hooked.payload().to_vec();
        if round % 2 == 0 {
            // Also where the file is, and how much there is of all.
            let at = random.usize(..payload.len());
            payload[at] ^= 1 << random.u32(..8);
        }
        area.publish(Publish::Shared, &payload).unwrap();
        let Ok(snapshot) = HeapSnapshot::open(&place.ns, &evil) else {
            refused += 1;
            continue;
        };
        for handle in snapshot.handles() {
            match snapshot.read(handle) {
                Ok(bytes) => right += u64::from(bytes.len() <= 65_536),
                Err(error) => wrong += u64::from(!error.to_string().is_empty()),
            }
        }
    }
    assert!(right > 100_000 && wrong > 100 && refused > 0, "{right} {wrong} {refused}");
    assert!(handles.iter().zip(0..).all(|(h, i)| *origin.read(*h).unwrap() == *of(i)));
}

/// A forked child has the snapshots of its parent, and not the heap.
#[test]
fn a_forked_child_reads_snapshots_only() {
    let place = place();
    let heap = open(&place, options(6 << 20));
    let handles = filled(&heap, 8000);
    heap.share().unwrap();
    let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
    for round in 1..4 {
        // SAFETY: the child reads, and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let refused = matches!(heap.read(handles[0]), Err(HeapError::Forked))
                && matches!(heap.write(handles[0]), Err(HeapError::Forked))
                && matches!(heap.share(), Err(HeapError::Forked));
            let whole = handles.iter().zip(0..).all(|(h, i)| *snapshot.read(*h).unwrap() == *of(i));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if refused && whole { 0 } else { 1 }) };
        }
        for (i, handle) in handles.iter().enumerate() {
            heap.write(*handle).unwrap().copy_from_slice(&of(round * 100_000 + i as u64));
        }
        heap.share().unwrap();
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        let newest = HeapSnapshot::open(&place.ns, &name()).unwrap();
        assert_eq!(*newest.read(handles[9]).unwrap(), *of(round * 100_000 + 9));
    }
    heap.check().unwrap();
}

/// What the area takes is within the budget, unless snapshots keep more.
#[test]
fn memory_in_the_area_is_within_the_budget() {
    let place = place();
    let heap = open(&place, options(24 << 20));
    let own = || place.ns.list().unwrap()[0].own.get();
    let mut random = fastrand::Rng::with_seed(7);
    let handles: Vec<Handle> =
        (0..6000).map(|_| heap.alloc_from(&bytes_of(&mut random)).unwrap()).collect();
    assert!((16 << 20..=24 << 20).contains(&own()), "{}", own());
    heap.set_budget(8 << 20).unwrap();
    assert!(own() <= 8 << 20, "{}", own());
    heap.share().unwrap();
    let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
    for handle in &handles {
        heap.write(*handle).unwrap()[0] ^= 1;
    }
    heap.share().unwrap();
    assert!(own() <= 17 << 20, "one more version: {}", own());
    drop(snapshot);
    for handle in handles {
        heap.free(handle).unwrap();
    }
    heap.share().unwrap();
    heap.share().unwrap();
    assert_eq!(heap.stats().unwrap().kept_bytes, 0);
}

const OBJECTS: u64 = 12_000;

/// Not a test: the processes that the tests below start.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var("SWING_HEAP_ROLE") else { return };
    let dir = |variable| std::path::PathBuf::from(std::env::var_os(variable).unwrap());
    let ns = Namespace::open(dir("SWING_HEAP_HOME")).unwrap();
    let say = |text: &str| println!("\nanswer {text}");
    let lines = std::io::stdin().lines();
    if role == "reader" {
        let snapshot = HeapSnapshot::open(&ns, &name()).unwrap();
        say("ready");
        for _ in lines {
            say(&is_first_state(&snapshot).to_string());
        }
        return;
    }
    let disk = dir("SWING_HEAP_DISK");
    let heap = ObjectHeap::open_in(&ns, &name(), &disk, options(8 << 20)).unwrap();
    let handles = filled(&heap, OBJECTS);
    heap.set_root(Some(handles[7])).unwrap();
    heap.share().unwrap();
    say("ready");
    for (round, _) in (1..).zip(lines) {
        for (i, handle) in handles.iter().enumerate() {
            heap.write(*handle).unwrap().copy_from_slice(&of(round * 100_000 + i as u64));
        }
        heap.share().unwrap();
        say(&heap.stats().unwrap().kept_bytes.to_string());
    }
}

/// Whether a snapshot shows what the owner filled it with first.
fn is_first_state(snapshot: &HeapSnapshot) -> bool {
    let handles: Vec<Handle> = snapshot.handles().collect();
    handles.len() as u64 == OBJECTS
        && snapshot.root() == Some(handles[7])
        && handles.iter().zip(0..).all(|(handle, i)| *snapshot.read(*handle).unwrap() == *of(i))
}

struct Process {
    child: Child,
    from: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(role: &str, home: &Path, disk: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_entry", "--exact", "--nocapture", "--test-threads=1"])
            .env("SWING_HEAP_ROLE", role)
            .env("SWING_HEAP_HOME", home)
            .env("SWING_HEAP_DISK", disk)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut started = Self { child, from };
        assert_eq!(started.answer(), "ready");
        started
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it ended without an answer");
            if let Some(text) = line.trim_end().strip_prefix("answer ") {
                return text.to_owned();
            }
        }
    }

    fn ask(&mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        self.answer()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn another_process_reads_all_objects_also_after_the_owner_was_killed() {
    let place = place();
    let mut owner = Process::start("owner", place.home.path(), place.disk.path());
    let here = HeapSnapshot::open(&place.ns, &name()).unwrap();
    let mut reader = Process::start("reader", place.home.path(), place.disk.path());
    assert!(is_first_state(&here));
    for _ in 0..3 {
        owner.ask();
    }
    assert!(is_first_state(&here) && reader.ask() == "true");
    let newest = HeapSnapshot::open(&place.ns, &name()).unwrap();
    let third = newest.handles().nth(5).unwrap();
    assert_eq!(*newest.read(third).unwrap(), *of(300_005));
    owner.kill();
    assert!(is_first_state(&here) && reader.ask() == "true");
    assert_eq!(*newest.read(third).unwrap(), *of(300_005));
    let late = HeapSnapshot::open(&place.ns, &name());
    assert!(matches!(late, Err(HeapError::OwnerGone { .. })), "{late:?}");
    // A collector removes what the owner left, and somebody else takes the name: that changes
    // nothing for who reads.
    place.ns.gc().unwrap();
    assert!(place.ns.names().unwrap().is_empty());
    assert!(is_first_state(&here) && reader.ask() == "true");
    let mut heir = Process::start("owner", place.home.path(), place.disk.path());
    heir.ask();
    assert!(is_first_state(&here) && reader.ask() == "true");
    let fresh = HeapSnapshot::open(&place.ns, &name()).unwrap();
    assert_eq!(*fresh.read(fresh.handles().nth(5).unwrap()).unwrap(), *of(100_005));
}

#[test]
fn a_killed_reader_keeps_nothing() {
    let place = place();
    let mut owner = Process::start("owner", place.home.path(), place.disk.path());
    let mut reader = Process::start("reader", place.home.path(), place.disk.path());
    let kept = |text: String| text.parse::<u64>().unwrap();
    assert!(kept(owner.ask()) > 2 << 20);
    assert_eq!(reader.ask(), "true");
    let with_reader = kept(owner.ask());
    reader.kill();
    // What the newest state shows stays; what the dead one was shown goes.
    let without = kept(owner.ask());
    assert!(without + (3 << 20) < with_reader, "{without} after {with_reader}");
}

/// A process that dies at any moment leaves readers what they have, and the name to the next one.
#[test]
fn owners_are_killed_at_any_moment() {
    let place = place();
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..6 {
        let mut owner = Process::start("owner", place.home.path(), place.disk.path());
        let snapshot = HeapSnapshot::open(&place.ns, &name()).unwrap();
        owner.child.stdin.as_mut().unwrap().write_all(b"a\nb\nc\nd\n").unwrap();
        std::thread::sleep(Duration::from_micros(random.u64(0..400_000)));
        let newest = HeapSnapshot::open(&place.ns, &name()).unwrap();
        owner.kill();
        assert!(is_first_state(&snapshot), "round {round}");
        let states: Vec<u64> = newest
            .handles()
            .zip(0..)
            .map(|(handle, i)| {
                let bytes = newest.read(handle).unwrap();
                (0..5).find(|round| *bytes == *of(round * 100_000 + i)).unwrap()
            })
            .collect();
        assert!(states.iter().all(|state| *state == states[0]), "round {round}: one state");
    }
}
