//! Work in numbered parts, done by several tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

/// The results of all parts, in order, and how many tasks made them.
#[derive(Debug)]
pub(crate) struct Done<T> {
    pub(crate) results: Vec<T>,
    pub(crate) workers: usize,
}

/// Does the parts `0..parts` on at most `workers` tasks, and pauses between parts.
///
/// The first part of each task is settled beforehand. So no task is too late to get one, however
/// few processors there are.
pub(crate) async fn in_parallel<T, F>(workers: usize, parts: usize, work: F) -> Result<Done<T>>
where
    T: Send + 'static,
    F: Fn(usize) -> Result<T> + Send + Sync + 'static,
{
    let workers = workers.clamp(1, parts.max(1));
    if workers == 1 {
        let mut results = Vec::with_capacity(parts);
        for part in 0..parts {
            results.push(work(part)?);
            tokio::task::yield_now().await;
        }
        return Ok(Done { results, workers });
    }
    let shared = Arc::new((work, AtomicUsize::new(workers)));
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move {
            let (work, next) = shared.as_ref();
            let (mut made, mut part) = (Vec::new(), worker);
            while part < parts {
                made.push((part, work(part)?));
                tokio::task::yield_now().await;
                part = next.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, DataFusionError>(made)
        });
    }
    let mut results: Vec<Option<T>> = (0..parts).map(|_| None).collect();
    while let Some(ended) = tasks.join_next().await {
        for (part, made) in ended.map_err(failed)?? {
            results[part] = Some(made);
        }
    }
    let results = results.into_iter().map(|made| made.ok_or_else(lost)).collect::<Result<_>>()?;
    Ok(Done { results, workers })
}

/// The error for a task that did not finish.
pub(crate) fn failed(error: tokio::task::JoinError) -> DataFusionError {
    match error.try_into_panic() {
        Ok(payload) => std::panic::resume_unwind(payload),
        Err(error) => exec_datafusion_err!("a task of a join ended: {error}"),
    }
}

fn lost() -> DataFusionError {
    exec_datafusion_err!("a part of a join's table was not built")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn results_come_in_order() -> Result<()> {
        for (workers, parts) in [(1, 0), (4, 0), (1, 5), (2, 5), (8, 5), (3, 100)] {
            let done = in_parallel(workers, parts, Ok).await?;
            assert_eq!(done.results, (0..parts).collect::<Vec<_>>());
            assert_eq!(done.workers, workers.clamp(1, parts.max(1)));
        }
        Ok(())
    }

    #[tokio::test]
    async fn an_error_ends_the_work() {
        let work = |part| if part == 3 { Err(exec_datafusion_err!("three")) } else { Ok(part) };
        let error = in_parallel(2, 10, work).await.expect_err("the third part fails");
        assert!(error.to_string().contains("three"), "{error}");
    }
}
