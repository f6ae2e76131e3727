//! Appends of many rows: written by as many threads as may, in the order in which the rows came,
//! wholly or not at all.

mod common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{Home, numbers_def, seeded};
use swingdb::Error;
use swingdb::error::ConstraintKind;
use swingdb::store::{Constraint, IfExists, SEGMENT_ROWS, Store};
use swingdb_common::runtime::memory::Pieces;

const SEGMENT: i64 = SEGMENT_ROWS as i64;

fn store(home: &Home, constraints: Vec<Constraint>) -> Store {
    let store = Store::open(&home.namespace, "append").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(numbers_def("t", constraints), IfExists::Fail).unwrap();
    txn.commit().unwrap();
    store
}

fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap()
}

/// The rows 0 to `rows` in batches of `size`.
fn batches(rows: i64, size: i64) -> impl Iterator<Item = Result<RecordBatch, Error>> + Send {
    (0..rows).step_by(size as usize).map(move |from| Ok(batch(from..rows.min(from + size))))
}

fn values(store: &Store) -> Vec<i64> {
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let mut all = Vec::new();
    for segment in table.segments().unwrap().iter() {
        let array = segment.array(0).unwrap();
        all.extend_from_slice(array.as_primitive::<Int64Type>().values());
    }
    all
}

fn segments(store: &Store) -> Vec<usize> {
    let table = store.latest().table("main", "t").unwrap().unwrap();
    table.segments().unwrap().iter().map(|segment| segment.rows()).collect()
}

/// Threads that wait for one another, at most for some time.
#[derive(Default)]
struct Meeting(Mutex<HashSet<ThreadId>>, Condvar);

impl Meeting {
    fn wait_for(&self, count: usize) {
        let mut here = self.0.lock().unwrap();
        here.insert(std::thread::current().id());
        self.1.notify_all();
        let fewer = |here: &mut HashSet<ThreadId>| here.len() < count;
        drop(self.1.wait_timeout_while(here, Duration::from_secs(20), fewer).unwrap());
    }
}

/// How many threads convert and write the rows of so many segments, where so many may.
fn writers(threads: usize, segments: i64, expected: usize) -> usize {
    let home = Home::new();
    let store = store(&home, Vec::new());
    let mut txn = store.begin().unwrap();
    txn.set_threads(threads);
    let met = Meeting::default();
    let convert = |batch, _| {
        met.wait_for(expected);
        Ok(batch)
    };
    let rows = segments * SEGMENT - 1;
    let kept = Pieces::of_kept_rows();
    let appended = txn.append_from("main", "t", batches(rows, 50_000), convert, &kept);
    assert_eq!(appended.unwrap(), rows as u64);
    txn.commit().unwrap();
    assert!(values(&store).into_iter().eq(0..rows));
    met.0.into_inner().unwrap().len()
}

#[test]
fn several_segments_are_written_by_several_threads() {
    assert_eq!(writers(4, 6, 4), 4);
    assert_eq!(writers(3, 2, 2), 2);
    assert_eq!(writers(1, 3, 1), 1);
    assert_eq!(writers(8, 1, 1), 1, "one segment wakes no thread");
}

#[test]
fn rows_keep_their_order_and_segments_are_full() {
    let mut rng = seeded("rows_keep_their_order_and_segments_are_full");
    for _ in 0..12 {
        let home = Home::new();
        let store = store(&home, vec![Constraint::Primary(vec![0])]);
        let (mut all, mut expected) = (0, Vec::new());
        for _ in 0..rng.usize(1..3) {
            let rows = rng.i64(1..5 * SEGMENT);
            let mut rest = rows;
            let mut cut = Vec::new();
            while rest > 0 {
                let size = if rng.bool() { rng.i64(0..20_000) } else { rng.i64(0..400_000) };
                let size = size.min(rest);
                cut.push(Ok(batch(all..all + size)));
                (all, rest) = (all + size, rest - size);
            }
            let mut txn = store.begin().unwrap();
            txn.set_threads(rng.usize(1..5));
            // What comes before is told for each batch.
            let at = all - rows;
            let convert = |batch: RecordBatch, before: u64| {
                let first = batch.column(0).as_primitive::<Int64Type>().value(0);
                assert_eq!(before as i64, first - at);
                Ok(batch)
            };
            let kept = Pieces::of_kept_rows();
            txn.append_from("main", "t", cut.into_iter(), convert, &kept).unwrap();
            txn.commit().unwrap();
            expected.extend(std::iter::repeat_n(SEGMENT_ROWS, (rows / SEGMENT) as usize));
            expected.extend((rows % SEGMENT > 0).then_some((rows % SEGMENT) as usize));
        }
        assert!(values(&store).into_iter().eq(0..all));
        assert_eq!(segments(&store).iter().sum::<usize>(), all as usize);
        // Small ones at the end of a table may have been put together.
        assert!(segments(&store).len() <= expected.len(), "{:?} {expected:?}", segments(&store));
    }
}

#[test]
fn a_failed_append_leaves_nothing() {
    let home = Home::new();
    let store = store(&home, vec![Constraint::Primary(vec![0])]);
    let append = |rows: i64, stream_ends: Option<i64>, bad: &[i64], panics: bool| {
        let mut txn = store.begin().unwrap();
        txn.set_threads(4);
        let stream = batches(rows, 30_000).map(move |batch| match (&batch, stream_ends) {
            (Ok(rows), Some(end)) if rows.column(0).as_primitive::<Int64Type>().value(0) > end => {
                Err(Error::plan("the stream"))
            }
            _ => batch,
        });
        let convert = |batch: RecordBatch, before: u64| {
            let here = before as i64..before as i64 + batch.num_rows() as i64;
            match bad.iter().find(|row| here.contains(row)) {
                Some(row) if panics => panic!("row {row}"),
                Some(row) => Err(Error::plan(format!("row {row}"))),
                None => Ok(batch),
            }
        };
        let kept = Pieces::of_kept_rows();
        let result = txn.append_from("main", "t", stream, convert, &kept);
        let after = txn.view().table("main", "t").unwrap().unwrap().row_count();
        assert!(result.is_ok() || after == 0, "the transaction is as before");
        drop(txn);
        result.map_err(|error| error.to_string())
    };
    let empty = store.verify().unwrap();
    let last = 6 * SEGMENT - 5;
    for _ in 0..5 {
        // The last batch; the first of two; a stream that ends by an error behind a bad row.
        assert_eq!(append(6 * SEGMENT, None, &[last], false).unwrap_err(), format!("row {last}"));
        let two = [3 * SEGMENT, 5 * SEGMENT];
        let first = format!("row {}", two[0]);
        assert_eq!(append(6 * SEGMENT, None, &two, false).unwrap_err(), first);
        let end = Some(4 * SEGMENT);
        assert_eq!(append(6 * SEGMENT, end, &[], false).unwrap_err(), "the stream");
        assert_eq!(append(6 * SEGMENT, end, &two, false).unwrap_err(), first);
        assert!(append(6 * SEGMENT, None, &[last], true).unwrap_err().contains("row"));
        assert_eq!(store.verify().unwrap(), empty, "what was written is free again");
    }
    // A key that is there twice, far apart, is found at the end.
    let mut txn = store.begin().unwrap();
    txn.set_threads(4);
    let twice = batches(6 * SEGMENT, 30_000).chain([Ok(batch([77]))]);
    let kept = Pieces::of_kept_rows();
    let error = txn.append_from("main", "t", twice, |batch, _| Ok(batch), &kept).unwrap_err();
    assert!(
        matches!(&error, Error::Constraint { kind: ConstraintKind::PrimaryKey, detail, .. }
            if detail.contains("(77)")),
        "{error}"
    );
    txn.rollback();
    assert_eq!(store.verify().unwrap(), empty);
    assert_eq!(values(&store), Vec::<i64>::new());
}

#[test]
fn keys_in_no_order_are_unique() {
    let home = Home::new();
    let store = store(&home, vec![Constraint::Unique(vec![0])]);
    let rows = 5 * SEGMENT;
    // A permutation: 7 and the number of rows have no common divisor.
    let key = |n: i64| n * 7 % rows;
    let append = |extra: &[i64], from: i64| {
        let mut txn = store.begin().unwrap();
        txn.set_threads(4);
        let all = (0..rows).step_by(70_000);
        let all = all.map(|at| Ok(batch((at..rows.min(at + 70_000)).map(|n| key(n) + from))));
        let all: Vec<_> = all.chain([Ok(batch(extra.iter().copied()))]).collect();
        let kept = Pieces::of_kept_rows();
        txn.append_from("main", "t", all.into_iter(), |batch, _| Ok(batch), &kept)?;
        txn.commit()
    };
    assert!(append(&[key(rows - 1)], 0).is_err());
    append(&[], 0).unwrap();
    assert!(append(&[5], rows).is_err());
    append(&[], rows).unwrap();
    assert_eq!(values(&store).len() as i64, 2 * rows);
    assert_eq!(values(&store).into_iter().collect::<HashSet<_>>().len() as i64, 2 * rows);
}

#[test]
fn memory_that_is_short_makes_threads_fewer() {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    let home = Home::new();
    let store = store(&home, Vec::new());
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100_000));
    let memory = Pieces::of_pool("test", &pool);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut txn = store.begin().unwrap();
    txn.set_threads(4);
    let convert = |batch, _| {
        let together = now.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(together, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(batch)
    };
    // A batch alone is more than there is.
    txn.append_from("main", "t", batches(4 * SEGMENT, SEGMENT), convert, &memory).unwrap();
    txn.commit().unwrap();
    assert_eq!(most.into_inner(), 1);
    assert_eq!(pool.reserved(), 0);
    assert!(values(&store).into_iter().eq(0..4 * SEGMENT));
}
