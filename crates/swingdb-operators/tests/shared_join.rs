//! The join against nested loops over random rows; and its workers, its memory, its limits.

mod common;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, col, lit};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::test::exec::BlockingExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion::prelude::SessionConfig;
use fastrand::Rng;
use futures::{StreamExt, TryStreamExt};
use swingdb_operators::shared_join::SharedHashJoinExec;

use common::*;

fn context(batch_rows: usize, threads: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows).with_target_partitions(threads);
    Arc::new(TaskContext::default().with_session_config(config))
}

fn shared(join: &HashJoinExec) -> Arc<SharedHashJoinExec> {
    Arc::new(SharedHashJoinExec::try_new(join).expect("a plan").expect("a join it knows"))
}

/// One random join.
struct Case {
    join: Arc<SharedHashJoinExec>,
    expected: Expected,
    /// The rows of each partition of the probe side.
    probe_rows: Vec<usize>,
    batch_rows: usize,
    threads: usize,
}

impl Case {
    fn new(random: &mut Rng, sizes: [&[usize]; 2], batch_rows: &[usize]) -> Result<Self> {
        let kinds = (0..random.usize(1..4)).map(|_| random.usize(..KEY_KINDS)).collect::<Vec<_>>();
        let [left_rows, right_rows] = sizes.map(|sizes| sizes[random.usize(..sizes.len())]);
        let left = side("l", &kinds, left_rows, random);
        let right = side("r", &kinds, right_rows, random);
        let join_type = JOIN_TYPES[random.usize(..JOIN_TYPES.len())];
        let null_equality = null_equality(random);
        let filtered = random.bool();
        let (left_parts, right_parts) = (partitions(&left, random), partitions(&right, random));
        let probe_rows = right_parts.iter().map(|p| p.iter().map(RecordBatch::num_rows).sum());
        let probe_rows = probe_rows.collect::<Vec<usize>>();
        let (l, r) = (left.schema(), right.schema());
        let on = on_all(kinds.len(), &l, &r)?;
        let mut probe = source(&right_parts, right.schema());
        let tells = random.bool() && join_type.on_lr_is_preserved().1;
        let told = on.iter().map(|(_, right)| Arc::clone(right)).collect();
        let told = Arc::new(DynamicFilterPhysicalExpr::new(told, lit(true)));
        if tells {
            probe = Arc::new(FilterExec::try_new(Arc::clone(&told) as _, probe)?);
        }
        let mut join = HashJoinExec::try_new(
            source(&left_parts, left.schema()),
            probe,
            on,
            filtered.then(|| filter(&l, &r)),
            &join_type,
            None,
            PartitionMode::CollectLeft,
            null_equality,
            false,
        )?;
        if tells {
            join = join.with_dynamic_filter_expr(told)?;
        }
        if random.bool() {
            join = of_numbers(&join, random)?;
        }
        Ok(Self {
            join: shared(&join),
            expected: nested_loops(&left, &right, kinds.len(), join_type, null_equality, filtered),
            probe_rows,
            batch_rows: batch_rows[random.usize(..batch_rows.len())],
            threads: random.usize(1..5),
        })
    }

    async fn check(self) -> Result<()> {
        let described = format!("{:?} {:?}", self.join.join().join_type(), self.join);
        let plan = Arc::clone(&self.join) as Arc<dyn ExecutionPlan>;
        let found = collect_partitioned(plan, context(self.batch_rows, self.threads)).await?;
        for batch in found.iter().flatten() {
            assert!(batch.num_rows() <= self.batch_rows, "{described}");
            assert!(batch.num_rows() > 0, "{described}");
            assert_eq!(batch.schema(), self.join.schema());
        }
        let found = found.iter().map(|batches| rows_of(batches)).collect::<Vec<_>>();
        if self.expected.last.is_empty() {
            // In the order of the probe rows, and for each one in that of the build rows.
            let mut from = 0;
            for (found, rows) in found.iter().zip(&self.probe_rows) {
                let expected = self.expected.of_probe[from..from + rows].concat();
                assert_eq!(found, &expected, "{described}");
                from += rows;
            }
            return Ok(());
        }
        let mut expected = self.expected.of_probe.concat();
        expected.extend(self.expected.last);
        let mut found = found.concat();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{described}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn joins_give_the_rows_of_nested_loops() -> Result<()> {
    let mut random = Rng::with_seed(seed());
    let sizes: &[usize] = &[0, 1, 5, 40, 150];
    for _ in 0..3000 {
        Case::new(&mut random, [sizes, sizes], &BATCH_ROWS)?.check().await?;
    }
    // Tables of several parts.
    for _ in 0..30 {
        Case::new(&mut random, [&[20_000, 70_000], &[0, 60]], &[100, 8192])?.check().await?;
    }
    Ok(())
}

/// Keys as `number % different`, in partitions of equally many rows.
fn numbered(rows: i64, different: i64, parts: usize, wide: bool) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("n", DataType::Int64, false),
    ]));
    let part_rows = rows / parts as i64;
    let batch = |from: i64| {
        let numbers = from..(from + 8192).min(from / part_rows * part_rows + part_rows);
        let factor = if wide { 1 << 33 } else { 1 };
        let keys = numbers.clone().map(|n| n % different * factor).collect::<Int64Array>();
        let numbers = numbers.collect::<Int64Array>();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(numbers)])
    };
    let part = |part: usize| {
        let from = part as i64 * part_rows;
        (from..from + part_rows).step_by(8192).map(|from| batch(from).expect("a batch")).collect()
    };
    source(&(0..parts).map(part).collect::<Vec<_>>(), Arc::clone(&schema))
}

fn join_by_k(
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    join_type: JoinType,
) -> Result<Arc<SharedHashJoinExec>> {
    let on = vec![(col("k", &left.schema())?, col("k", &right.schema())?)];
    let nulls = NullEquality::NullEqualsNothing;
    let mode = PartitionMode::CollectLeft;
    let join = HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, nulls, false)?;
    Ok(shared(&join))
}

fn metric(join: &SharedHashJoinExec, name: &str) -> usize {
    let metrics = join.metrics().expect("a join has metrics");
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_tasks_build_a_table_of_several_partitions() -> Result<()> {
    for (different, wide) in [(400_000, false), (1000, false), (400_000, true), (1000, true)] {
        let probe = numbered(4000, 4000, 2, wide);
        let join = join_by_k(numbered(400_000, different, 4, wide), probe, JoinType::Inner)?;
        let found = collect_partitioned(Arc::clone(&join) as _, context(8192, 4)).await?;
        let rows = found.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        let expected = if different == 1000 { 1000 * 400 } else { 4000 };
        assert_eq!(rows, expected, "{different} keys, wide: {wide}");
        assert_eq!(metric(&join, "build_input_rows"), 400_000);
        assert_eq!(metric(&join, "build_collectors"), 4);
        assert_eq!(metric(&join, "build_workers"), 4, "{different} keys, wide: {wide}");
        assert_eq!(metric(&join, "array_map_created_count"), usize::from(!wide));
        assert_eq!(join.metrics().and_then(|metrics| metrics.output_rows()), Some(rows));
        assert!(metric(&join, "build_time") > 0);
        assert!(metric(&join, "join_time") > 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_beyond_its_memory_says_so() -> Result<()> {
    for limit in [100_000, 9_000_000] {
        let probe = numbered(4000, 4000, 2, true);
        let join = join_by_k(numbered(400_000, 400_000, 4, true), probe, JoinType::Inner)?;
        let pool = Arc::new(GreedyMemoryPool::new(limit));
        let environment = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let context = TaskContext::default().with_runtime(Arc::clone(&environment));
        let error = collect_partitioned(join, Arc::new(context)).await.expect_err("too little");
        let root = error.find_root();
        assert!(matches!(root, DataFusionError::ResourcesExhausted(_)), "{root}");
        assert!(root.to_string().contains("HashJoinInput"), "{root}");
        assert_eq!(environment.memory_pool.reserved(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_may_be_read_one_after_the_other() -> Result<()> {
    for join_type in JOIN_TYPES {
        let (left, right) =
            (numbered(30_000, 30_000, 3, false), numbered(20_000, 40_000, 4, false));
        let join = join_by_k(left, right, join_type)?;
        let mut rows = 0;
        for partition in 0..4 {
            let stream = join.execute(partition, context(1000, 2))?;
            let batches = stream.try_collect::<Vec<_>>().await?;
            rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        }
        let expected = match join_type {
            JoinType::Left | JoinType::Full | JoinType::LeftMark => 30_000,
            JoinType::LeftAnti => 10_000,
            JoinType::RightAnti => 0,
            _ => 20_000,
        };
        assert_eq!(rows, expected, "{join_type}");
        assert_eq!(metric(&join, "build_input_rows"), 30_000, "{join_type}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_empty_projections_are_kept() -> Result<()> {
    let (left, right) = (numbered(1000, 10, 2, false), numbered(1000, 10, 1, false));
    let join = join_by_k(left, right, JoinType::Inner)?;
    let limited = join.with_fetch(Some(77)).expect("joins have limits");
    let found = collect_partitioned(limited, context(10, 2)).await?;
    assert_eq!(found.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 77);
    let counted = shared(&join.join().with_projection(Some(vec![]))?);
    let found = collect_partitioned(counted, context(10, 2)).await?;
    assert_eq!(found.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_build_ends_with_the_last_partition() -> Result<()> {
    let probe = numbered(4000, 4000, 2, false);
    let endless = Arc::new(BlockingExec::new(probe.schema(), 3));
    let refs = endless.refs();
    let join = join_by_k(endless, probe, JoinType::Inner)?;
    let mut streams = (0..2)
        .map(|partition| join.execute(partition, context(8192, 2)))
        .collect::<Result<Vec<_>>>()?;
    for stream in &mut streams {
        assert!(futures::poll!(stream.next()).is_pending());
    }
    assert!(refs.strong_count() > 1);
    drop(streams);
    // The plan is alive, and has one reference itself.
    while refs.strong_count() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// How many rows each of four partitions gives whose readers begin together.
async fn rows_of_partitions(join_type: JoinType) -> Result<Vec<usize>> {
    let (left, right) = (numbered(400_000, 400_000, 4, false), numbered(8, 8, 4, false));
    let join = join_by_k(left, right, join_type)?;
    // A reader that asks all partitions first: each waits for the others.
    let streams = (0..4).map(|partition| join.execute(partition, context(100, 4)));
    let mut streams = streams.collect::<Result<Vec<_>>>()?;
    let mut first = Vec::new();
    for stream in &mut streams {
        first.push(futures::poll!(stream.next()));
    }
    let read = streams.into_iter().zip(first).map(|(stream, first)| {
        tokio::spawn(async move {
            let first = match first {
                std::task::Poll::Ready(batch) => batch.transpose()?,
                std::task::Poll::Pending => None,
            };
            let rest = stream.try_collect::<Vec<_>>().await?;
            let batches = first.iter().chain(&rest);
            Ok::<_, DataFusionError>(batches.map(RecordBatch::num_rows).sum::<usize>())
        })
    });
    let rows = futures::future::try_join_all(read).await.expect("no task panics");
    rows.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_partitions_give_out_rows_of_the_build_side() -> Result<()> {
    for (join_type, expected) in
        [(JoinType::LeftSemi, 8), (JoinType::LeftAnti, 399_992), (JoinType::LeftMark, 400_000)]
    {
        // On a busy machine one reader may be done before another one begins.
        let mut most_busy = 0;
        for _ in 0..50 {
            let rows = rows_of_partitions(join_type).await?;
            assert_eq!(rows.iter().sum::<usize>(), expected, "{join_type}: {rows:?}");
            most_busy = most_busy.max(rows.iter().filter(|&&rows| rows > 0).count());
            if join_type == JoinType::LeftSemi || most_busy > 1 {
                break;
            }
        }
        let is_shared = join_type == JoinType::LeftSemi || most_busy > 1;
        assert!(is_shared, "{join_type}: one partition gave all rows, each time");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_does_not_wait_for_one_that_was_dropped() -> Result<()> {
    let probe = numbered(100, 100, 1, false);
    let endless = Arc::new(BlockingExec::new(probe.schema(), 1));
    let probe = UnionExec::try_new(vec![probe, endless])?;
    let join = join_by_k(numbered(1000, 1000, 2, false), probe, JoinType::LeftAnti)?;
    let mut whole = join.execute(0, context(100, 2))?;
    let mut cut_off = join.execute(1, context(100, 2))?;
    assert!(futures::poll!(cut_off.next()).is_pending());
    let waits = tokio::time::timeout(Duration::from_millis(100), whole.next()).await;
    assert!(waits.is_err(), "which rows have no partner is not known yet");
    drop(cut_off);
    assert!(whole.next().await.is_none(), "which rows have no partner is never known");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn not_in_gives_the_rows_of_its_definition() -> Result<()> {
    let mut random = Rng::with_seed(seed());
    let sizes = [0, 1, 5, 40, 150];
    for _ in 0..1000 {
        let kind = [random.usize(..KEY_KINDS)];
        let mut of_side = |name| side(name, &kind, sizes[random.usize(..sizes.len())], &mut random);
        let (rows, list) = (of_side("l"), of_side("r"));
        let (parts, list_parts) = (partitions(&rows, &mut random), partitions(&list, &mut random));
        let on = vec![(col("l0", &rows.schema())?, col("r0", &list.schema())?)];
        let join = HashJoinExec::try_new(
            source(&parts, rows.schema()),
            source(&list_parts, list.schema()),
            on,
            None,
            &JoinType::LeftAnti,
            random.bool().then(|| vec![rows.schema().index_of("l").expect("a number")]),
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            true,
        )?;
        assert!(SharedHashJoinExec::try_new(&join)?.is_none(), "a table of the wrong side");
        let own = Arc::new(SharedHashJoinExec::not_in(&join)?.expect("a NOT IN"));
        assert_eq!(own.schema(), join.schema());
        // Plans are put together again by other rules.
        let children = own.children().into_iter().map(Arc::clone).collect();
        let renewed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let plan = own.replace_children(children, renewed)?;
        let batch_rows = BATCH_ROWS[random.usize(..BATCH_ROWS.len())];
        let found = collect_partitioned(plan, context(batch_rows, random.usize(1..5))).await?;
        let mut found = rows_of(&found.concat());
        found.sort_unstable();
        let value = |batch: &RecordBatch, key: &str, row| {
            ScalarValue::try_from_array(batch.column_by_name(key).expect("a key"), row)
        };
        let list = (0..list.num_rows()).map(|row| value(&list, "r0", row));
        let list = list.collect::<Result<Vec<_>>>()?;
        let mut expected = Vec::new();
        for row in 0..rows.num_rows() {
            let x = value(&rows, "l0", row)?;
            let is_unknown = x.is_null() || list.iter().any(ScalarValue::is_null);
            if list.is_empty() || !(is_unknown || list.contains(&x)) {
                expected.push((Some(row as i32), None, None));
            }
        }
        expected.sort_unstable();
        assert_eq!(found, expected, "kind {kind:?}, {list:?}");
    }
    Ok(())
}

/// A filter needs columns of both sides by side.
#[test]
fn the_filter_of_these_tests_is_as_meant() {
    let schema = |name| Schema::new(vec![Field::new(name, DataType::Int32, false)]);
    let filter = filter(&schema("l"), &schema("r"));
    assert_eq!(filter.column_indices()[0].side, JoinSide::Left);
    assert_eq!(filter.column_indices()[1].side, JoinSide::Right);
}
