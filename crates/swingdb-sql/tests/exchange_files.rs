//! Exchanges whose rows are in temporary files end, and their files go.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use futures::TryStreamExt;
use swingdb_sql::engine::{base_state, with_memory_limit};

const PARTITIONS: usize = 4;
const BATCHES: usize = 200;
const ROWS: usize = 16;
const DEADLINE: Duration = Duration::from_secs(60);
/// What exchanges say when they ask for a file.
const EXCHANGE: &str = "SpillPool";

/// An exchange of `PARTITIONS * BATCHES * ROWS` numbers.
fn exchange() -> Arc<RepartitionExec> {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch = |first: usize| {
        let numbers = Int64Array::from_iter_values((first..first + ROWS).map(|n| n as i64));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap()
    };
    let partition = |nth: usize| {
        (nth * BATCHES..(nth + 1) * BATCHES).map(|place| batch(place * ROWS)).collect()
    };
    let partitions = (0..PARTITIONS).map(partition).collect::<Vec<Vec<_>>>();
    let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None).unwrap();
    let hash = Partitioning::Hash(vec![col("n", &schema).unwrap()], PARTITIONS);
    Arc::new(RepartitionExec::try_new(input, hash).unwrap())
}

/// Operators that may hold nothing in memory.
fn without_memory() -> Arc<TaskContext> {
    let limited = with_memory_limit(base_state().unwrap(), 1).unwrap();
    let config = limited.config().clone().with_batch_size(ROWS);
    Arc::new(TaskContext::from(&limited).with_session_config(config))
}

/// The sum of the numbers that come out.
async fn sum(exchange: &Arc<RepartitionExec>, context: &Arc<TaskContext>) -> Result<i64> {
    let readers = (0..PARTITIONS).map(|partition| {
        let rows = exchange.execute(partition, Arc::clone(context)).unwrap();
        tokio::spawn(rows.try_fold(0, async |sum, batch| {
            // Others are to come in between.
            tokio::task::yield_now().await;
            let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            Ok(sum + numbers.values().iter().sum::<i64>())
        }))
    });
    let mut total = 0;
    for reader in readers.collect::<Vec<_>>() {
        total += reader.await.unwrap()?;
    }
    Ok(total)
}

fn on_threads<T>(work: impl Future<Output = T>) -> T {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(4).enable_all().build().unwrap().block_on(work)
}

/// With one file for several batches, as the engine has by default, the first round does not end.
#[test]
fn an_exchange_whose_rows_are_all_on_a_disk_ends() {
    let (count, context) = ((PARTITIONS * BATCHES * ROWS) as i64, without_memory());
    on_threads(async {
        for round in 0..20 {
            let exchange = exchange();
            let read = tokio::time::timeout(DEADLINE, sum(&exchange, &context)).await;
            let read = read.unwrap_or_else(|_| panic!("round {round} does not end"));
            assert_eq!(read.unwrap(), count * (count - 1) / 2);
            let files = exchange.metrics().unwrap().spill_count().unwrap();
            assert!(files > PARTITIONS * BATCHES / 2, "{files} files");
        }
    });
}

#[test]
fn what_is_written_behind_a_read_is_read_too() {
    let file = file();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(b"one").unwrap();
    let mut rows = file.read_stream().unwrap();
    on_threads(async {
        assert_eq!(rows.try_next().await.unwrap().unwrap(), "one");
        writer.write_all(b" and two").unwrap();
        assert_eq!(rows.try_next().await.unwrap().unwrap(), " and two");
        assert!(rows.try_next().await.unwrap().is_none());
    });
}

/// A file for a batch of an exchange.
fn file() -> Arc<dyn SpillFile> {
    let environment = base_state().unwrap().runtime_env();
    environment.disk_manager.create_tmp_file(EXCHANGE).unwrap()
}

#[test]
fn files_are_closed_and_go_with_their_batches() {
    let (one, other) = (file(), file());
    let path = |file: &Arc<dyn SpillFile>| file.path().unwrap().to_path_buf();
    let paths = [path(&one), path(&other)];
    for file in [&one, &other] {
        let mut writer = file.open_writer().unwrap();
        writer.write_all(b"a batch").unwrap();
        writer.finish().unwrap();
        assert_eq!(file.size(), Some(7));
    }
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let open = open.collect::<Vec<PathBuf>>();
    assert!(paths.iter().all(|path| path.exists() && !open.contains(path)));
    drop(one);
    assert!(!paths[0].exists() && paths[1].exists());
    drop(other);
    assert!(!paths[1].exists());
}

#[test]
fn who_reads_a_batch_is_told_that_it_could_not_be_written() {
    let file = file();
    // Another file is in its place.
    std::fs::write(file.path().unwrap(), b"").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(b"a batch").unwrap();
    writer.write_all(b"and more").unwrap();
    writer.finish().unwrap();
    let read = async || file.read_stream()?.try_collect::<Vec<_>>().await;
    let error = on_threads(read()).unwrap_err();
    assert!(matches!(error, DataFusionError::IoError(_)), "{error}");
}
