//! Parallel scans against a naive model: every back end, both orders, any shape; consumers that are
//! slow, many, or die; faults of the device; collections beside them; memory that stays bounded.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::recorder::{Failure, Recorder};
use common::simulated::Simulated;
use swing_tier::scan::{
    Chunk, Layout, MAX_RING_BYTES, Numbers, Order, Part, Scan, ScanOptions, Sum,
};
use swing_tier::storage::Storage;
use swing_tier::{CHUNK_ALIGN, Lease, Log, LogOptions, ReadCost, ReadError, RecordId};

/// A log with records, and what they are.
struct Bed {
    log: Log,
    ids: Vec<RecordId>,
    records: Vec<Vec<u8>>,
}

fn random_record(random: &mut fastrand::Rng, longest: usize) -> Vec<u8> {
    let len = match random.u32(0..10) {
        0 => 0,
        1..5 => random.usize(1..300.min(longest)),
        5..9 => random.usize(1..30_000.min(longest)),
        _ => random.usize(1..longest),
    };
    let first = random.u8(..);
    (0..len).map(|at| first.wrapping_add((at / 7) as u8)).collect()
}

fn options(stripe_bytes: Option<u32>) -> LogOptions {
    LogOptions { stripe_bytes, ..common::model::small_options() }
}

impl Bed {
    fn of(storage: Arc<dyn Storage>, options: LogOptions, records: Vec<Vec<u8>>) -> Self {
        let log = Log::create(storage, options).unwrap();
        let mut ids = Vec::new();
        for some in records.chunks(20) {
            let mut batch = log.batch().unwrap();
            ids.extend(some.iter().map(|record| batch.put(record).unwrap()));
            batch.commit().unwrap();
        }
        Bed { log, ids, records }
    }

    fn random(storage: Arc<dyn Storage>, random: &mut fastrand::Rng, stripe: Option<u32>) -> Self {
        let records = (0..random.usize(0..60)).map(|_| random_record(random, 900_000)).collect();
        Self::of(storage, options(stripe), records)
    }

    fn scan(&self, options: &ScanOptions) -> Scan {
        self.log.lease().scan(&self.ids, options).unwrap()
    }
}

/// Any shape of a scan.
fn random_options(random: &mut fastrand::Rng, stripe: Option<u32>) -> ScanOptions {
    let domains = random.u32(2..30);
    let layout = stripe.map(|bytes| Layout { unit_bytes: u64::from(bytes), domains });
    ScanOptions {
        order: if random.bool() { Order::Any } else { Order::AsAsked },
        layout: layout.filter(|_| random.u32(0..4) > 0),
        depth: [1, 2, 4, 20][random.usize(0..4)],
        request_bytes: 4096 << random.u32(0..8),
        ring_bytes: 4096 << random.u32(0..9),
        workers: random.usize(1..4),
        cost: ReadCost { request_ns: random.u64(0..40_000), kib_ns: 500 },
        ..Default::default()
    }
}

/// Puts parts together; each byte has to come once.
#[derive(Default)]
struct Puzzle(BTreeMap<usize, BTreeMap<u64, Vec<u8>>>);

impl Puzzle {
    fn add(&mut self, part: &Part) {
        assert!(part.offset().is_multiple_of(CHUNK_ALIGN as u64));
        let parts = self.0.entry(part.index()).or_default();
        assert!(parts.insert(part.offset(), part.to_vec()).is_none(), "twice the same part");
    }

    fn record(&self, index: usize) -> Vec<u8> {
        let mut record = Vec::new();
        for (&offset, bytes) in &self.0[&index] {
            assert_eq!(offset, record.len() as u64);
            record.extend_from_slice(bytes);
        }
        record
    }
}

#[test]
fn any_shape_of_scan_gives_what_was_written() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(6) {
        for (name, _folder, directory) in common::back_ends() {
            let mut random = fastrand::Rng::with_seed(seed + round);
            let stripe = [None, Some(4096), Some(20_480), Some(65_536), Some(262_144)];
            let stripe = stripe[random.usize(0..stripe.len())];
            let bed = Bed::random(Arc::new(directory), &mut random, stripe);
            for _ in 0..4 {
                let options = random_options(&mut random, stripe);
                let context = format!("{name}, {options:?}, round {round} of SWING_SEED={seed}");
                let mut asked: Vec<usize> = (0..bed.ids.len()).collect();
                random.shuffle(&mut asked);
                asked.truncate(random.usize(0..=asked.len()));
                // The same record twice.
                asked.extend(asked.first().copied());
                check_scan(&bed, &asked, &options, &context);
            }
        }
    }
}

fn check_scan(bed: &Bed, asked: &[usize], options: &ScanOptions, context: &str) {
    let ids: Vec<_> = asked.iter().map(|&index| bed.ids[index]).collect();
    let scan = bed.log.lease().scan(&ids, options).unwrap();
    let mut puzzle = Puzzle::default();
    let mut last = (0, 0);
    while let Some(part) = scan.next_part() {
        let part = part.unwrap_or_else(|error| panic!("{context}: {error}"));
        puzzle.add(&part);
        assert_eq!(part.record_bytes(), bed.records[asked[part.index()]].len() as u64, "{context}");
        let place = (part.index(), part.offset());
        assert!(options.order == Order::Any || place >= last, "{context}: out of order");
        last = place;
    }
    for (index, &record) in asked.iter().enumerate() {
        assert!(puzzle.record(index) == bed.records[record], "{context}: record {index}");
    }
    let stats = scan.stats();
    let bytes: usize = asked.iter().map(|&record| bed.records[record].len()).sum();
    assert_eq!(stats.bytes, bytes as u64, "{context}: {stats:?}");
    assert!(stats.read_bytes >= stats.bytes.min(1), "{context}: {stats:?}");
    let lane = u64::from(stats.buffers / stats.lanes) * u64::from(stats.buffer_bytes);
    assert!(lane <= u64::from(MAX_RING_BYTES), "{context}: {stats:?}");
    assert!(stats.workers <= stats.lanes && !stats.engine.is_empty(), "{context}: {stats:?}");
}

#[test]
fn whole_records_come_in_the_order_asked() {
    for (name, _folder, directory) in common::back_ends() {
        let mut random = fastrand::Rng::with_seed(4);
        let bed = Bed::random(Arc::new(directory), &mut random, None);
        let options = ScanOptions { order: Order::AsAsked, ..random_options(&mut random, None) };
        let records = bed.scan(&options).records();
        let found = records.collect::<Result<Vec<_>, _>>().unwrap();
        assert!(found == bed.records, "{name}");
    }
}

#[test]
fn consumers_share_a_scan() {
    for (name, _folder, directory) in common::back_ends() {
        let mut random = fastrand::Rng::with_seed(9);
        let records = (0..200).map(|_| random_record(&mut random, 40_000)).collect();
        let bed = Bed::of(Arc::new(directory), options(None), records);
        let scan =
            bed.scan(&ScanOptions { depth: 3, request_bytes: 16 << 10, ..Default::default() });
        let puzzle = Mutex::new(Puzzle::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(part) = scan.next_part() {
                        puzzle.lock().unwrap().add(&part.unwrap());
                    }
                });
            }
        });
        let puzzle = puzzle.into_inner().unwrap();
        assert!((0..200).all(|index| puzzle.record(index) == bed.records[index]), "{name}");
    }
}

/// A bed of more bytes than any scan has buffers.
fn large(storage: Arc<dyn Storage>) -> Bed {
    let records = (0..300_u32).map(|n| vec![n as u8; 60_000 + n as usize]).collect();
    Bed::of(storage, options(None), records)
}

fn narrow() -> ScanOptions {
    let (request_bytes, ring_bytes) = (64 << 10, 128 << 10);
    ScanOptions { depth: 4, request_bytes, ring_bytes, workers: 2, ..Default::default() }
}

/// Waits until a scan does nothing any more.
fn settle(scan: &Scan) -> u64 {
    let start = Instant::now();
    loop {
        let before = scan.stats();
        std::thread::sleep(Duration::from_millis(60));
        let after = scan.stats();
        if before.requests == after.requests && before.bytes == after.bytes {
            return after.requests;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{after:?}");
    }
}

#[test]
fn a_slow_consumer_parks_the_scan_in_bounded_memory() {
    for (name, _folder, directory) in common::back_ends() {
        let bed = large(Arc::new(directory));
        for order in [Order::Any, Order::AsAsked] {
            let scan = bed.scan(&ScanOptions { order, ..narrow() });
            let buffers = u64::from(scan.stats().buffers);
            assert!(scan.stats().ring_bytes() <= 4 * (128 << 10), "{name}");
            // Nothing is taken: as many requests as there are buffers, and no more.
            assert!(settle(&scan) <= buffers, "{name}");
            // What a consumer keeps is not read over.
            let kept: Vec<_> = (0..3).map(|_| scan.next_part().unwrap().unwrap()).collect();
            let copies: Vec<Vec<u8>> = kept.iter().map(|part| part.to_vec()).collect();
            let mut rest = 0;
            for _ in 0..100 {
                let part = scan.next_part().unwrap().unwrap();
                assert!(part.iter().all(|&b| b == part.index() as u8), "{name}");
                rest += 1;
            }
            assert!(kept.iter().zip(&copies).all(|(part, copy)| **part == **copy), "{name}");
            drop(kept);
            while let Some(part) = scan.next_part() {
                part.unwrap();
                rest += 1;
            }
            let stats = scan.stats();
            assert!(rest >= 297 && stats.requests > 4 * buffers, "{name}: {stats:?}");
            assert!(stats.parked > Duration::ZERO, "{name}: {stats:?}");
        }
    }
}

#[test]
fn a_scan_that_is_dropped_gives_everything_back() {
    for (name, folder, directory) in common::back_ends() {
        let engine = directory.choice().engine;
        let bed = large(Arc::new(directory));
        for taken in [0, 1, 20] {
            let scan = bed.scan(&narrow());
            let mut kept = None;
            for _ in 0..taken {
                kept = scan.next_part();
            }
            drop(scan);
            // A part outlives its scan.
            if let Some(part) = kept {
                let part = part.unwrap();
                assert!(part.iter().all(|&b| b == part.index() as u8), "{name}");
            }
        }
        // Neither threads nor leases are left: the log closes, and can be opened by others.
        let part = bed.scan(&narrow()).next_part().unwrap().unwrap();
        drop(bed);
        let storage = Arc::new(common::open(folder.path(), engine));
        Log::open(storage, options(None)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!part.is_empty());
    }
}

#[test]
fn a_cancelled_scan_ends_for_all_consumers() {
    let bed = large(Arc::new(Recorder::new(1)));
    let scan = Arc::new(bed.scan(&narrow()));
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let scan = scan.clone();
            std::thread::spawn(move || while scan.next_part().is_some() {})
        })
        .collect();
    scan.cancel();
    consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    assert!(scan.next_part().is_none());
}

#[test]
fn a_consumer_that_dies_leaves_nothing_behind() {
    let bed = large(Arc::new(Recorder::new(1)));
    let (lease, ids) = (bed.log.lease(), bed.ids.clone());
    let consumer = std::thread::spawn(move || {
        let scan = lease.scan(&ids, &narrow()).unwrap();
        let _kept = (scan.next_part(), scan.next_part());
        panic!("the consumer dies");
    });
    assert!(consumer.join().is_err());
    // All records are free now, and nobody leases them.
    let mut batch = bed.log.batch().unwrap();
    bed.ids.iter().for_each(|&id| batch.free(id).unwrap());
    batch.commit().unwrap();
    bed.log.compact().unwrap();
    assert!(bed.log.stats().used_bytes < 1 << 20, "{:?}", bed.log.stats());
}

/// Runs a scan to its end; the failure, if there was one.
fn run(scan: &Scan) -> Option<ReadError> {
    let failure = loop {
        match scan.next_part()? {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(scan.next_part().is_none(), "a failure ends the scan");
    Some(failure)
}

#[test]
fn failures_of_the_device_name_file_and_offset() {
    for order in [Order::Any, Order::AsAsked] {
        let recorder = Recorder::new(1);
        let bed = large(Arc::new(recorder.clone()));
        for after in [0, 1, 7, 100] {
            recorder.fail(Failure { after, times: u64::MAX, errno: libc::EIO });
            let scan = bed.scan(&ScanOptions { order, ..narrow() });
            let failure = run(&scan).expect("a failure");
            recorder.heal();
            let ReadError::Io(error) = failure else { panic!("{failure}") };
            assert_eq!(error.cause, swing_tier::Cause::Os(libc::EIO));
            assert!(error.offset.is_some() && error.path.to_string_lossy().contains("data-"));
        }
        assert_eq!(run(&bed.scan(&ScanOptions { order, ..narrow() })), None, "all is well again");
    }
}

#[test]
fn damage_is_an_error_and_never_wrong_bytes() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..40 {
        let recorder = Recorder::new(1);
        let bed = large(Arc::new(recorder.clone()));
        let names = recorder.file_names();
        let files: Vec<_> = names.iter().filter(|name| name.starts_with("data-")).collect();
        let name = files[random.usize(0..files.len())];
        let short = random.bool();
        recorder.damage(name, |bytes| {
            if short {
                bytes.truncate(random.usize(0..bytes.len() / 4096) * 4096);
            } else {
                let at = random.usize(0..bytes.len());
                bytes[at] ^= 1 << random.u32(0..8);
            }
        });
        let order = if random.bool() { Order::Any } else { Order::AsAsked };
        let scan = bed.scan(&ScanOptions { order, ..narrow() });
        let failure = loop {
            match scan.next_part() {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(part)) => {
                    let right = part.iter().all(|&b| b == part.index() as u8);
                    assert!(right, "round {round} of SWING_SEED={seed}: wrong bytes");
                }
            }
        };
        match failure {
            // A bit of a header, or behind the last record of a block, is nobody's.
            None => {}
            Some(ReadError::Damaged(damage)) => {
                assert!(damage.path.ends_with(name), "round {round} of SWING_SEED={seed}");
            }
            Some(error) => panic!("round {round} of SWING_SEED={seed}: {error}"),
        }
    }
}

#[test]
fn records_that_are_not_there_are_refused() {
    let bed = large(Arc::new(Recorder::new(1)));
    let lease = bed.log.lease();
    let refused = lease.scan(&[bed.ids[0], RecordId(9999)], &narrow()).map(drop);
    assert!(matches!(refused, Err(ReadError::NoRecord { id: RecordId(9999), .. })), "{refused:?}");
    assert!(lease.scan(&[], &narrow()).unwrap().next_part().is_none());
}

#[test]
fn commits_and_collections_go_on_beside_a_scan() {
    for (name, _folder, directory) in common::back_ends() {
        let bed = large(Arc::new(directory));
        let scan = bed.scan(&narrow());
        let first = scan.next_part().unwrap().unwrap();
        // Every second record goes, so every file is emptied and the others move.
        let mut batch = bed.log.batch().unwrap();
        bed.ids.iter().step_by(2).for_each(|&id| batch.free(id).unwrap());
        batch.commit().unwrap();
        let held = bed.log.stats().live_bytes;
        bed.log.compact().unwrap();
        let mut parts = 1;
        assert!(first.iter().all(|&b| b == first.index() as u8), "{name}");
        drop(first);
        while let Some(part) = scan.next_part() {
            let part = part.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(part.iter().all(|&b| b == part.index() as u8), "{name}");
            parts += 1;
            if parts == 100 {
                bed.log.compact().unwrap();
            }
        }
        assert!(parts >= 300, "{name}: {parts}");
        drop(scan);
        assert!(bed.log.stats().live_bytes < held * 2 / 3, "{name}: the lease is gone");
        bed.log.compact().unwrap();
        // What is left is found where it lies now.
        let left: Vec<_> = bed.ids.iter().skip(1).step_by(2).copied().collect();
        let lease = bed.log.lease();
        assert_eq!(run(&lease.scan(&left, &narrow()).unwrap()), None, "{name}");
    }
}

#[test]
fn many_scans_run_at_once() {
    for (name, _folder, directory) in common::back_ends() {
        let bed = large(Arc::new(directory));
        let total: usize = bed.records.iter().map(Vec::len).sum();
        std::thread::scope(|scope| {
            for scanner in 0..12 {
                let (bed, name) = (&bed, &name);
                scope.spawn(move || {
                    let order = if scanner % 2 == 0 { Order::Any } else { Order::AsAsked };
                    let parts = bed.scan(&ScanOptions { order, ..narrow() });
                    let bytes: usize = parts.map(|part| part.unwrap().len()).sum();
                    assert_eq!(bytes, total, "{name}");
                });
            }
        });
    }
}

struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_is_woken_when_a_part_has_arrived() {
    let bed = large(Arc::new(Recorder::new(1)));
    let scan = bed.scan(&narrow());
    let bell = Arc::new(Bell(AtomicUsize::new(0)));
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut bytes = 0;
    loop {
        let rung = bell.0.load(Ordering::SeqCst);
        match scan.poll_next_part(&mut context) {
            Poll::Ready(None) => break,
            Poll::Ready(Some(part)) => bytes += part.unwrap().len(),
            Poll::Pending => {
                let start = Instant::now();
                while bell.0.load(Ordering::SeqCst) == rung {
                    assert!(start.elapsed() < Duration::from_secs(60), "nobody rings");
                    std::thread::yield_now();
                }
            }
        }
    }
    assert_eq!(bytes, bed.records.iter().map(Vec::len).sum::<usize>());
}

#[test]
fn a_forked_child_is_refused() {
    let bed = large(Arc::new(Recorder::new(1)));
    let scan = bed.scan(&narrow());
    settle(&scan);
    // SAFETY: the child works with what it inherited, and takes no lock: the scan refuses first.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(scan.next_part(), Some(Err(ReadError::Io(error)))
            if error.cause == swing_tier::Cause::Forked);
        drop(scan);
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
    assert_eq!(run(&scan), None, "the parent's goes on");
}

/// Records of a stripe each on a device with domains.
fn striped(disk: &Simulated, unit: usize) -> Bed {
    let records = (0..400).map(|n| vec![n as u8; unit]).collect();
    let stripe_bytes = Some(unit as u32);
    let options = LogOptions { stripe_bytes, file_bytes: 64 << 20, ..options(None) };
    Bed::of(Arc::new(disk.clone()), options, records)
}

/// Reads all on the worker's own thread, so that nothing depends on when a consumer comes.
fn drain(lease: &Lease, ids: &[RecordId], options: &ScanOptions) -> Option<u32> {
    let decode = |chunk: &Chunk<'_>, into: &mut Vec<u64>| into.push(chunk.bytes.len() as u64);
    let found = lease.aggregate(ids, options, &Numbers::new(decode, Sum)).unwrap();
    assert_eq!(found.value, Some(i128::from(found.stats.bytes)));
    found.stats.domains
}

#[test]
fn domains_work_beside_each_other() {
    let layout = Layout { unit_bytes: 16 << 10, domains: 20 };
    let disk = Simulated::new(layout);
    let bed = striped(&disk, 16 << 10);
    let lease = bed.log.lease();
    let one = ScanOptions {
        depth: 1,
        workers: 1,
        request_bytes: 16 << 10,
        ring_bytes: 16 << 10,
        ..Default::default()
    };
    let (domains, alone, _) = disk.time(|| drain(&lease, &bed.ids, &one));
    assert_eq!(domains, None);
    let parallel = ScanOptions { layout: Some(layout), ..one.clone() };
    let (domains, beside, collisions) = disk.time(|| drain(&lease, &bed.ids, &parallel));
    assert_eq!((domains, collisions), (Some(20), 0), "one request a domain");
    assert!(alone >= 400 && beside * 18 <= alone, "{alone} and {beside}");
    // Fewer domains than there are: some work while others rest.
    let half = Layout { domains: 10, ..layout };
    let half = ScanOptions { layout: Some(half), ..one.clone() };
    let (_, beside_half, _) = disk.time(|| drain(&lease, &bed.ids, &half));
    assert!(beside_half * 8 <= alone && beside_half >= beside * 3 / 2, "{beside_half}");
    // Depth alone keeps the device as busy where the requests go around the domains anyway.
    let depth = ScanOptions { depth: 20, ..one };
    let (_, deep, _) = disk.time(|| drain(&lease, &bed.ids, &depth));
    assert!(deep * 10 <= alone, "{alone} and {deep}");
}

#[test]
fn records_that_were_not_placed_are_read_by_depth_alone() {
    let layout = Layout { unit_bytes: 16 << 10, domains: 20 };
    let disk = Simulated::new(layout);
    let bed = large(Arc::new(disk));
    let options = ScanOptions { layout: Some(layout), ..narrow() };
    assert_eq!(drain(&bed.log.lease(), &bed.ids, &options), None);
}

#[test]
fn what_was_placed_stays_placed_when_it_is_moved() {
    let layout = Layout { unit_bytes: 64 << 10, domains: 8 };
    let disk = Simulated::new(layout);
    let bed = striped(&disk, 64 << 10);
    let mut batch = bed.log.batch().unwrap();
    bed.ids.iter().step_by(2).for_each(|&id| batch.free(id).unwrap());
    batch.commit().unwrap();
    assert!(bed.log.compact().unwrap().moved_bytes > 0);
    let left: Vec<_> = bed.ids.iter().skip(1).step_by(2).copied().collect();
    let options = ScanOptions { layout: Some(layout), workers: 1, ..Default::default() };
    let lease = bed.log.lease();
    let (domains, ..) = disk.time(|| drain(&lease, &left, &options));
    assert_eq!(domains, Some(8));
    let found = lease.read_many(&left).unwrap();
    assert!(found.iter().enumerate().all(|(n, record)| record[..] == bed.records[2 * n + 1][..]));
}

#[test]
fn gaps_are_read_over_where_that_is_cheaper() {
    let bed = large(Arc::new(Recorder::new(1)));
    let some: Vec<_> = bed.ids.iter().step_by(2).copied().collect();
    let requests = |request_ns| {
        let cost = ReadCost { request_ns, kib_ns: 1 };
        let options = ScanOptions { cost, request_bytes: 512 << 10, ..narrow() };
        let scan = bed.log.lease().scan(&some, &options).unwrap();
        assert_eq!(run(&scan), None);
        let stats = scan.stats();
        (stats.requests, stats.merged_gaps, stats.read_bytes > stats.bytes * 3 / 2)
    };
    assert_eq!(requests(0), (150, 0, false));
    let (few, gaps, over) = requests(1000);
    assert!(few < 50 && gaps == 150 - few && over, "{few} requests, {gaps} gaps");
}
