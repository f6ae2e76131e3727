//! Exchanges whose rows are in temporary files end, and nothing is left of the files.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use futures::TryStreamExt;
use swingdb_common::error::Error;
use swingdb_sql::engine::{base_state, with_memory_limit, with_temporary_files};
use swingdb_sql::options::temporary::{Directory, TemporaryFiles};

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
    writer.flush().unwrap();
    let mut rows = file.read_stream().unwrap();
    on_threads(async {
        assert_eq!(rows.try_next().await.unwrap().unwrap(), "one");
        writer.write_all(b" and two").unwrap();
        writer.flush().unwrap();
        assert_eq!(rows.try_next().await.unwrap().unwrap(), " and two");
        assert!(rows.try_next().await.unwrap().is_none());
    });
}

/// A file for a batch of an exchange.
fn file() -> Arc<dyn SpillFile> {
    let environment = base_state().unwrap().runtime_env();
    environment.disk_manager.create_tmp_file(EXCHANGE).unwrap()
}

/// Operators whose files lie in a folder.
fn in_folder(folder: &Path) -> SessionState {
    let directory = Directory::Named(folder.to_path_buf());
    let files = TemporaryFiles { directory, ..TemporaryFiles::default() };
    with_temporary_files(base_state().unwrap(), files).unwrap()
}

/// Descriptors of files in a folder.
fn open_in(folder: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    open.filter(|path| path.starts_with(folder)).count()
}

#[test]
fn files_have_no_names_and_share_a_descriptor_that_goes_with_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let state = in_folder(folder.path());
    let files = (0..100).map(|_| {
        let file = state.runtime_env().disk_manager.create_tmp_file(EXCHANGE).unwrap();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(b"a batch").unwrap();
        writer.finish().unwrap();
        assert_eq!(file.size(), Some(7));
        file
    });
    let mut files = files.collect::<Vec<_>>();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(open_in(folder.path()), 1);
    files.truncate(1);
    assert_eq!(open_in(folder.path()), 1);
    let read = async || files[0].read_stream()?.try_collect::<Vec<_>>().await;
    assert_eq!(on_threads(read()).unwrap(), ["a batch"]);
    drop(files);
    assert_eq!(open_in(folder.path()), 0);
}

#[test]
fn who_reads_a_batch_is_told_that_it_could_not_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let state = in_folder(&folder.path().join("missing/too"));
    let file = state.runtime_env().disk_manager.create_tmp_file(EXCHANGE).unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(b"a batch").unwrap();
    writer.write_all(b"and more").unwrap();
    writer.finish().unwrap();
    let read = async || file.read_stream()?.try_collect::<Vec<_>>().await;
    let error = Error::from(on_threads(read()).unwrap_err());
    assert!(matches!(error, Error::TemporaryFile { errno: Some(2), .. }), "{error:?}");
    assert!(error.to_string().contains("missing/too"), "{error}");
}

/// Neither does an exchange hang whose files cannot be written.
#[test]
fn an_exchange_that_cannot_write_fails() {
    let folder = tempfile::tempdir().unwrap();
    let state = with_memory_limit(&in_folder(&folder.path().join("missing/too")), 1).unwrap();
    let config = state.config().clone().with_batch_size(ROWS);
    let context = Arc::new(TaskContext::from(&state).with_session_config(config));
    on_threads(async {
        for round in 0..20 {
            let read = tokio::time::timeout(DEADLINE, sum(&exchange(), &context)).await;
            let read = read.unwrap_or_else(|_| panic!("round {round} does not end"));
            let error = Error::from(read.unwrap_err());
            assert!(matches!(error, Error::TemporaryFile { .. }), "{error:?}");
        }
    });
}
