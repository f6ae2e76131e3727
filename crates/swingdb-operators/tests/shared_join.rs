//! The join against nested loops over random rows; and its workers, its memory, its limits.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, col, lit,
};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::test::exec::BlockingExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion::prelude::SessionConfig;
use fastrand::Rng;
use futures::{StreamExt, TryStreamExt};
use swingdb_operators::shared_join::SharedHashJoinExec;

const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::RightSemi,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];
const BATCH_ROWS: [usize; 6] = [1, 2, 7, 64, 1000, 8192];
const KEY_KINDS: usize = 14;

/// A row of the output: the numbers of both sides' rows, and a mark.
type Row = (Option<i32>, Option<i32>, Option<bool>);

/// A column of random keys of a kind, few different ones or many, some NULL.
fn keys(kind: usize, domain: i64, nulls: bool, rows: usize, random: &mut Rng) -> ArrayRef {
    let mut number = || (!nulls || random.u8(..8) > 0).then(|| random.i64(0..domain));
    let numbers = (0..rows).map(|_| number()).collect::<Vec<_>>();
    let texts = || numbers.iter().map(|n| n.map(|n| format!("the text of number {n}")));
    match kind {
        0 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32 - 5)).collect::<Int32Array>()),
        1 => Arc::new(Int64Array::from(numbers)),
        // Too far apart for an array.
        2 => Arc::new(numbers.iter().map(|n| n.map(|n| n << 40)).collect::<Int64Array>()),
        3 => Arc::new(
            numbers.iter().map(|n| n.map(|n| u64::MAX - n as u64)).collect::<UInt64Array>(),
        ),
        4 => Arc::new(texts().collect::<StringArray>()),
        5 => Arc::new(texts().collect::<StringViewArray>()),
        6 => Arc::new(numbers.iter().map(|n| n.map(|n| n as f64 / 4.0)).collect::<Float64Array>()),
        7 => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
        9 => {
            let wide = numbers.iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(wide.with_precision_and_scale(20, 2).expect("it fits"))
        }
        10 => Arc::new(
            texts()
                .collect::<Vec<_>>()
                .iter()
                .map(|t| t.as_deref())
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        11 => {
            let list = |n: &Option<i64>| n.map(|n| vec![Some(n as i32), None]);
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(numbers.iter().map(list)))
        }
        12 => Arc::new(TimestampMicrosecondArray::from(numbers)),
        _ => {
            let inner: ArrayRef = Arc::new(Int64Array::from(numbers));
            let field = Arc::new(Field::new("a", DataType::Int64, true));
            Arc::new(StructArray::from(vec![(field, inner)]))
        }
    }
}

/// One side: columns `{side}0`, `{side}1`, ... of keys, and the rows' numbers as `{side}`.
fn side(name: &str, kinds: &[usize], rows: usize, random: &mut Rng) -> RecordBatch {
    let domain = *[3, 20, 1000, 100_000].get(random.usize(..4)).unwrap_or(&3);
    let nulls = random.bool();
    let mut columns = kinds
        .iter()
        .enumerate()
        .map(|(at, &kind)| (format!("{name}{at}"), keys(kind, domain, nulls, rows, random), true))
        .collect::<Vec<_>>();
    let numbers: ArrayRef = Arc::new((0..rows as i32).collect::<Int32Array>());
    columns.insert(random.usize(..=kinds.len()), (name.to_string(), numbers, false));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Cuts rows into partitions of batches, some of them empty.
fn partitions(rows: &RecordBatch, random: &mut Rng) -> Vec<Vec<RecordBatch>> {
    let mut partitions = vec![Vec::new(); random.usize(1..5)];
    let mut from = 0;
    while from < rows.num_rows() {
        let len = random.usize(0..=(rows.num_rows() / 3 + 1)).min(rows.num_rows() - from);
        // In order, so that the numbers of build rows grow.
        let last = partitions.len() - 1;
        let at = (from * partitions.len() / rows.num_rows()).min(last);
        partitions[at].push(rows.slice(from, len));
        from += len;
    }
    partitions
}

fn source(partitions: &[Vec<RecordBatch>], schema: SchemaRef) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(partitions, schema, None).expect("rows of the schema")
}

/// The condition `l > r` on the numbers of both rows.
fn filter(left: &Schema, right: &Schema) -> JoinFilter {
    let schema = Schema::new(vec![
        Field::new("l", DataType::Int32, false),
        Field::new("r", DataType::Int32, false),
    ]);
    let index = |schema: &Schema, name| schema.index_of(name).expect("each side has numbers");
    let columns = JoinFilter::build_column_indices(vec![index(left, "l")], vec![index(right, "r")]);
    let (l, r) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
    JoinFilter::new(Arc::new(BinaryExpr::new(l, Operator::Gt, r)), columns, Arc::new(schema))
}

/// The rows of a join by nested loops: for each row of the probe side, and those of the build side
/// that come last.
struct Expected {
    of_probe: Vec<Vec<Row>>,
    last: Vec<Row>,
}

fn nested_loops(
    left: &RecordBatch,
    right: &RecordBatch,
    keys: usize,
    join_type: JoinType,
    null_equality: NullEquality,
    filtered: bool,
) -> Expected {
    use JoinType as J;
    let values = |batch: &RecordBatch, name: &str| {
        (0..keys)
            .map(|at| {
                let column = batch.column_by_name(&format!("{name}{at}")).expect("a key");
                let value = |row| ScalarValue::try_from_array(column, row).expect("a value");
                (0..batch.num_rows()).map(value).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let (l, r) = (values(left, "l"), values(right, "r"));
    let equal = |i: usize, j: usize| {
        l.iter().zip(&r).all(|(l, r)| match (l[i].is_null(), r[j].is_null()) {
            (false, false) => l[i] == r[j],
            (true, true) => null_equality == NullEquality::NullEqualsNull,
            _ => false,
        })
    };
    let mut visited = vec![false; left.num_rows()];
    let mut of_probe = Vec::new();
    for j in 0..right.num_rows() {
        let partners = (0..left.num_rows()).filter(|&i| (!filtered || i > j) && equal(i, j));
        let partners = partners.collect::<Vec<_>>();
        partners.iter().for_each(|&i| visited[i] = true);
        let (number, found) = (Some(j as i32), !partners.is_empty());
        let pairs = partners.iter().map(|&i| (Some(i as i32), number, None));
        of_probe.push(match join_type {
            J::Inner | J::Left => pairs.collect::<Vec<_>>(),
            J::Right | J::Full if found => pairs.collect(),
            J::Right | J::Full => vec![(None, number, None)],
            J::RightSemi if found => vec![(None, number, None)],
            J::RightAnti if !found => vec![(None, number, None)],
            J::RightMark => vec![(None, number, Some(found))],
            _ => vec![],
        });
    }
    let last = visited.iter().enumerate().filter_map(|(i, &visited)| {
        let row = (Some(i as i32), None, None);
        match join_type {
            J::LeftSemi => visited.then_some(row),
            J::Left | J::Full | J::LeftAnti => (!visited).then_some(row),
            J::LeftMark => Some((row.0, None, Some(visited))),
            _ => None,
        }
    });
    Expected { of_probe, last: last.collect() }
}

fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let number = |name| {
            let column = batch.column_by_name(name)?;
            Some(column.as_primitive::<Int32Type>().clone())
        };
        let (l, r) = (number("l"), number("r"));
        let mark = batch.column_by_name("mark").map(|mark| mark.as_boolean().clone());
        let value = |numbers: &Option<Int32Array>, row: usize| {
            numbers.as_ref().filter(|n| n.is_valid(row)).map(|n| n.value(row))
        };
        for row in 0..batch.num_rows() {
            let mark = mark.as_ref().map(|mark| mark.value(row));
            rows.push((value(&l, row), value(&r, row), mark));
        }
    }
    rows
}

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
        let null_equality = match random.bool() {
            true => NullEquality::NullEqualsNull,
            false => NullEquality::NullEqualsNothing,
        };
        let filtered = random.bool();
        let (left_parts, right_parts) = (partitions(&left, random), partitions(&right, random));
        let probe_rows = right_parts.iter().map(|p| p.iter().map(RecordBatch::num_rows).sum());
        let probe_rows = probe_rows.collect::<Vec<usize>>();
        let key = |schema: &Schema, name: &str, at: usize| col(&format!("{name}{at}"), schema);
        let (l, r) = (left.schema(), right.schema());
        let on = (0..kinds.len()).map(|at| Ok((key(&l, "l", at)?, key(&r, "r", at)?)));
        let on = on.collect::<Result<Vec<(PhysicalExprRef, PhysicalExprRef)>>>()?;
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
            // The numbers only, in any order.
            let fields = join.schema().fields().clone();
            let is_kept = |at: &usize| ["l", "r", "mark"].contains(&fields[*at].name().as_str());
            let mut kept = (0..fields.len()).filter(is_kept).collect::<Vec<_>>();
            random.shuffle(&mut kept);
            join = join.with_projection(Some(kept))?;
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

fn seed() -> u64 {
    let given = std::env::var("SWING_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SWING_SEED={seed}");
    seed
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
