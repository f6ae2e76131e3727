//! Aggregation beside the scan against naive loops: the five functions, functions of a caller's
//! own, both ways of gathering, failures and panics.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::recorder::{Failure, Recorder};
use common::simulated::Simulated;
use swing_tier::scan::{
    Aggregate, AggregateError, Avg, Chunk, Count, Fold, Gather, Layout, Max, Min, Numbers,
    ScanOptions, Sum,
};
use swing_tier::storage::Storage;
use swing_tier::{Log, LogOptions, ReadError, RecordId};

const FIVE: (Sum, Min, Max, Count, Avg) = (Sum, Min, Max, Count, Avg);

struct Bed {
    log: Log,
    ids: Vec<RecordId>,
    numbers: Vec<i64>,
}

/// Records of random length, each an array of numbers.
fn bed(storage: Arc<dyn Storage>, random: &mut fastrand::Rng, stripe_bytes: Option<u32>) -> Bed {
    let options = LogOptions { stripe_bytes, ..common::model::small_options() };
    let log = Log::create(storage, options).unwrap();
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..random.usize(1..12) {
        let mut batch = log.batch().unwrap();
        for _ in 0..random.usize(0..8) {
            let count = if random.u32(0..8) == 0 { 120_000 } else { 3000 };
            let some: Vec<i64> = (0..random.usize(0..count)).map(|_| random.i64(..)).collect();
            let bytes: Vec<u8> = some.iter().flat_map(|number| number.to_le_bytes()).collect();
            ids.push(batch.put(&bytes).unwrap());
            numbers.extend(some);
        }
        batch.commit().unwrap();
    }
    Bed { log, ids, numbers }
}

fn words(chunk: &Chunk<'_>) -> impl Iterator<Item = i64> {
    let (words, rest) = chunk.bytes.as_chunks();
    assert!(rest.is_empty() && chunk.offset.is_multiple_of(8), "no number is cut in two");
    words.iter().map(|&word| i64::from_le_bytes(word))
}

fn numbers<F: Fold<i64>>(fold: F) -> impl Aggregate<Output = F::Output> {
    Numbers::new(|chunk: &Chunk<'_>, into: &mut Vec<i64>| into.extend(words(chunk)), fold)
}

fn random_options(random: &mut fastrand::Rng, stripe: Option<u32>) -> ScanOptions {
    let layout = |bytes| Layout { unit_bytes: u64::from(bytes), domains: random.u32(2..30) };
    ScanOptions {
        layout: stripe.map(layout),
        depth: [1, 3, 10, 20][random.usize(0..4)],
        request_bytes: 4096 << random.u32(0..7),
        ring_bytes: 4096 << random.u32(0..9),
        workers: random.usize(1..4),
        gather: if random.bool() { Gather::PushUp } else { Gather::PullDown },
        ..Default::default()
    }
}

type Five = (Option<i128>, Option<i64>, Option<i64>, u64, Option<f64>);

fn naive(numbers: &[i64]) -> Five {
    let sum = numbers.iter().map(|&n| i128::from(n)).sum::<i128>();
    let count = numbers.len() as u64;
    let some = count > 0;
    let mean = some.then(|| sum as f64 / count as f64);
    let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
    (some.then_some(sum), least, most, count, mean)
}

#[test]
fn five_functions_at_once_are_those_of_a_loop() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(4) {
        for (name, _folder, directory) in common::back_ends() {
            let mut random = fastrand::Rng::with_seed(seed + round);
            let stripe = [None, Some(4096), Some(65_536)][random.usize(0..3)];
            let bed = bed(Arc::new(directory), &mut random, stripe);
            for _ in 0..4 {
                let options = random_options(&mut random, stripe);
                let context = format!("{name}, {options:?}, round {round} of SWING_SEED={seed}");
                let found = bed.log.lease().aggregate(&bed.ids, &options, &numbers(FIVE));
                let found = found.unwrap_or_else(|_| panic!("{context}"));
                assert_eq!(found.value, naive(&bed.numbers), "{context}");
                assert_eq!(found.stats.bytes, 8 * bed.numbers.len() as u64, "{context}");
            }
        }
    }
}

#[test]
fn of_no_records_the_functions_say_so() {
    let bed = bed(Arc::new(Recorder::new(1)), &mut fastrand::Rng::with_seed(1), None);
    for gather in [Gather::PushUp, Gather::PullDown] {
        let options = ScanOptions { gather, ..Default::default() };
        let found = bed.log.lease().aggregate(&[], &options, &numbers(FIVE));
        let Ok(found) = found else { panic!("no failure") };
        assert_eq!(found.value, (None, None, None, 0, None));
    }
}

/// The median: its partial state is the numbers themselves. It fails on a number that it is told.
struct Median {
    refused: Option<i64>,
    updates: AtomicU64,
}

impl Aggregate for Median {
    type Partial = Vec<i64>;
    type Output = Option<i64>;
    type Error = String;

    fn start(&self) -> Vec<i64> {
        Vec::new()
    }

    fn update(&self, partial: &mut Vec<i64>, chunk: &Chunk<'_>) -> Result<(), String> {
        self.updates.fetch_add(1, Ordering::Relaxed);
        for number in words(chunk) {
            if self.refused == Some(number) {
                return Err(format!("{number} is refused"));
            }
            partial.push(number);
        }
        Ok(())
    }

    fn merge(&self, into: &mut Vec<i64>, other: Vec<i64>) -> Result<(), String> {
        into.extend(other);
        Ok(())
    }

    fn finish(&self, mut partial: Vec<i64>) -> Result<Option<i64>, String> {
        partial.sort_unstable();
        Ok(partial.get(partial.len() / 2).copied())
    }
}

fn median(refused: Option<i64>) -> Median {
    Median { refused, updates: AtomicU64::new(0) }
}

#[test]
fn a_function_of_the_callers_own_may_fail() {
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..30 {
        let bed = bed(Arc::new(Recorder::new(round)), &mut random, None);
        let options = random_options(&mut random, None);
        let lease = bed.log.lease();
        let mut sorted = bed.numbers.clone();
        sorted.sort_unstable();
        let found = lease.aggregate(&bed.ids, &options, &median(None)).unwrap();
        assert_eq!(found.value, sorted.get(sorted.len() / 2).copied(), "round {round}");
        let Some(&refused) = bed.numbers.first() else { continue };
        let failed = lease.aggregate(&bed.ids, &options, &median(Some(refused)));
        let text = format!("{refused} is refused");
        assert_eq!(failed.map(|found| found.value), Err(AggregateError::Function(text)));
    }
}

#[test]
fn partial_aggregates_come_down_in_the_order_of_the_domains() {
    /// Which records each domain had.
    struct Lanes;

    impl Aggregate for Lanes {
        type Partial = Vec<Vec<usize>>;
        type Output = Vec<Vec<usize>>;
        type Error = std::convert::Infallible;

        fn start(&self) -> Self::Partial {
            vec![Vec::new()]
        }

        fn update(
            &self,
            partial: &mut Self::Partial,
            chunk: &Chunk<'_>,
        ) -> Result<(), Self::Error> {
            partial[0].push(chunk.index);
            Ok(())
        }

        fn merge(&self, into: &mut Self::Partial, other: Self::Partial) -> Result<(), Self::Error> {
            into.extend(other);
            Ok(())
        }

        fn finish(&self, partial: Self::Partial) -> Result<Self::Output, Self::Error> {
            Ok(partial)
        }
    }

    let layout = Layout { unit_bytes: 8192, domains: 5 };
    let disk = Simulated::new(layout);
    let options = LogOptions { stripe_bytes: Some(8192), ..common::model::small_options() };
    let log = Log::create(Arc::new(disk.clone()), options).unwrap();
    let mut batch = log.batch().unwrap();
    let ids: Vec<_> = (0..100).map(|n| batch.put(&[n; 8192]).unwrap()).collect();
    batch.commit().unwrap();
    let lease = log.lease();
    let scan = ScanOptions { layout: Some(layout), workers: 1, ..Default::default() };
    let one = ScanOptions { layout: None, depth: 1, ring_bytes: 8192, request_bytes: 8192, ..scan };
    let (_, alone, _) = disk.time(|| lease.aggregate(&ids, &one, &Lanes).unwrap());
    for (workers, gather) in [(1, Gather::PullDown), (1, Gather::PushUp), (3, Gather::PullDown)] {
        let options = ScanOptions { layout: Some(layout), workers, gather, ..one.clone() };
        let (found, took, _) = disk.time(|| lease.aggregate(&ids, &options, &Lanes).unwrap());
        assert_eq!(found.stats.domains, Some(5));
        assert!(workers > 1 || took * 4 <= alone, "{took} and {alone}");
        let mut lanes = found.value;
        if gather == Gather::PushUp {
            lanes.sort_by_key(|lane| lane.first().copied());
        }
        assert_eq!(lanes.len(), 5);
        for lane in &lanes {
            // A record lies in the domain of its predecessor's neighbour.
            assert!(lane.windows(2).all(|two| two[0] < two[1]), "{lane:?}");
        }
        let first: Vec<_> = lanes.iter().map(|lane| lane[0]).collect();
        let mut sorted = first.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 5, "{first:?}");
    }
}

#[test]
fn failures_of_the_device_end_an_aggregation() {
    let mut random = fastrand::Rng::with_seed(8);
    let recorder = Recorder::new(1);
    let mut bed = bed(Arc::new(recorder.clone()), &mut random, None);
    let mut batch = bed.log.batch().unwrap();
    bed.ids.push(batch.put(&[1; 800_000]).unwrap());
    batch.commit().unwrap();
    for round in 0..20 {
        let options = random_options(&mut random, None);
        let after = random.u64(0..3);
        recorder.fail(Failure { after, times: u64::MAX, errno: libc::EIO });
        let failed = bed.log.lease().aggregate(&bed.ids, &options, &median(None));
        let reached = recorder.heal() > 0;
        match failed {
            Err(AggregateError::Read(ReadError::Io(error))) => {
                assert_eq!(error.cause, swing_tier::Cause::Os(libc::EIO));
                assert!(error.offset.is_some());
            }
            Ok(_) if !reached => {}
            other => panic!("round {round}: {:?}", other.map(|found| found.value)),
        }
    }
    for file in recorder.file_names().iter().filter(|name| name.starts_with("data-")) {
        recorder.damage(file, |bytes| bytes.iter_mut().step_by(4000).for_each(|byte| *byte ^= 4));
    }
    let failed = bed.log.lease().aggregate(&bed.ids, &ScanOptions::default(), &median(None));
    assert!(matches!(failed, Err(AggregateError::Read(ReadError::Damaged(_)))));
}

#[test]
fn a_function_that_panics_ends_the_aggregation() {
    let mut random = fastrand::Rng::with_seed(5);
    let bed = bed(Arc::new(Recorder::new(1)), &mut random, None);
    assert!(bed.ids.len() > 3);
    for gather in [Gather::PushUp, Gather::PullDown] {
        for workers in [1, 3] {
            let options = ScanOptions { gather, workers, depth: 4, ..Default::default() };
            let decode = |_: &Chunk<'_>, _: &mut Vec<i64>| panic!("the decoder panics");
            let lease = bed.log.lease();
            let attempt = std::panic::AssertUnwindSafe(|| {
                drop(lease.aggregate(&bed.ids, &options, &Numbers::new(decode, Count)));
            });
            assert!(std::panic::catch_unwind(attempt).is_err(), "{options:?}");
        }
    }
}
