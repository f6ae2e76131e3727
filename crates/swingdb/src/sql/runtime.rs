//! The threads queries run on, and how a caller's thread waits for them.
//!
//! The library keeps one tokio runtime of its own, started with the first query. Callers never run
//! query code on their own thread: they wait, and so can be interrupted at once even while a plan
//! computes without pause. After a `fork` the child has none of these threads; it starts a runtime
//! of its own (recognised by the process id) and never touches its parent's.
//!
//! Waiting uses thread parking only, so it works on any thread, also inside another async runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};

/// Stack of a worker thread; deep expressions recurse.
const WORKER_STACK_BYTES: usize = 8 << 20;

/// The runtimes of this process and of the processes it was forked from, oldest first. A chain of
/// write-once cells instead of a lock: a lock held by another thread at the moment of a fork would
/// stay locked for ever in the child.
struct Node {
    pid: u32,
    runtime: Runtime,
    next: OnceLock<Box<Node>>,
}

static FIRST: OnceLock<Box<Node>> = OnceLock::new();

/// How many threads compute by default: one a core this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// This process's runtime.
fn runtime() -> Result<&'static Runtime> {
    let pid = std::process::id();
    let mut cell = &FIRST;
    loop {
        let node = match cell.get() {
            Some(node) => node,
            None => {
                let made = Box::new(Node { pid, runtime: start()?, next: OnceLock::new() });
                // Another thread may have been quicker; then ours is shut down without waiting.
                match cell.set(made) {
                    Ok(()) => {}
                    Err(surplus) => surplus.runtime.shutdown_background(),
                }
                continue;
            }
        };
        if node.pid == pid {
            return Ok(&node.runtime);
        }
        cell = &node.next;
    }
}

fn start() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores())
        .thread_name("swingdb")
        .thread_stack_size(WORKER_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(Error::from)
}

/// Starts `future` on the library's threads.
pub(crate) fn spawn<F>(future: F) -> Result<Task<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(Task(runtime()?.spawn(future)))
}

/// A started computation; dropping it aborts the computation at its next pause.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    /// Its result; a panic inside it comes out as [`Error::Internal`].
    pub(crate) async fn join(&mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(value) => Ok(value),
            Err(error) if error.is_cancelled() => Err(Error::Interrupted),
            Err(error) => Err(Error::internal(panic_text(error.into_panic()))),
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a panic said.
pub(crate) fn panic_text(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "of unknown cause".to_string()))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on the caller's thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    block_on_ticking(future, Duration::MAX, || {})
}

/// As [`block_on`], calling `tick` every `period` meanwhile.
pub(crate) fn block_on_ticking<F: Future>(
    future: F,
    period: Duration,
    mut tick: impl FnMut(),
) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let mut last = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        if period == Duration::MAX {
            std::thread::park();
            continue;
        }
        let passed = last.elapsed();
        if passed >= period {
            tick();
            last = Instant::now();
            continue;
        }
        std::thread::park_timeout(period - passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawned_work_is_waited_for() {
        let mut task = spawn(async { 6 * 7 }).unwrap();
        assert_eq!(block_on(task.join()).unwrap(), 42);
    }

    #[test]
    fn a_panic_is_an_error() {
        let mut task = spawn(async { panic!("no luck") }).unwrap();
        let error = block_on(task.join()).map(|()| ()).unwrap_err();
        assert!(matches!(&error, Error::Internal { message } if message.contains("no luck")));
    }

    #[test]
    fn ticks_come_while_waiting() {
        let mut task = spawn(tokio::time::sleep(Duration::from_millis(60))).unwrap();
        let mut ticks = 0;
        block_on_ticking(task.join(), Duration::from_millis(10), || ticks += 1).unwrap();
        assert!((2..=7).contains(&ticks), "{ticks} ticks in 60 ms");
    }
}
