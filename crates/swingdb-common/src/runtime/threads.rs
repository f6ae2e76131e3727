//! The threads queries run on.
//!
//! The library keeps one tokio runtime of its own, started with the first query. Callers never run
//! query code on their own thread: they wait, and so can be interrupted at once even while a plan
//! computes without pause. After a `fork` the child has none of these threads; it starts a runtime
//! of its own (recognised by the process id) and never touches its parent's.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::runtime::allocator;
use crate::runtime::cancel::{CancelToken, stoppable, unwound};
use crate::runtime::wait::block_on;

/// Stack of a worker thread: plans of the depth that is allowed are walked by recursion. Only what
/// is used of it takes memory.
pub const WORKER_STACK_BYTES: usize = 32 << 20;

/// Stack of a thread that does nothing.
const PROBE_STACK_BYTES: usize = 64 << 10;

/// The runtimes of this process and of the processes it was forked from, oldest first. A chain of
/// write-once cells instead of a lock: a lock held by another thread at the moment of a fork would
/// stay locked for ever in the child.
struct Node {
    pid: u32,
    runtime: Runtime,
    /// Its threads hang in work nobody waits for any more; they end with it.
    retired: AtomicBool,
    next: OnceLock<Box<Node>>,
}

static FIRST: OnceLock<Box<Node>> = OnceLock::new();

/// Work was given up before it ended, and may still hold threads: some operators compute for
/// minutes without a pause, and only a pause ends them.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// How long threads may take to show that they are free.
const PATIENCE: Duration = Duration::from_millis(30);

/// Runtimes a process may retire; beyond that, new work waits for old.
const MAX_RETIRED: usize = 64;

impl Node {
    /// Whether a thread takes up new work soon.
    fn responds(&self) -> bool {
        let (sender, answer) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            // Nobody may be waiting any more.
            let _ = sender.send(());
        });
        answer.recv_timeout(PATIENCE).is_ok()
    }
}

/// The environment variable that says how many threads compute.
const VARIABLE: &str = "SWINGDB_THREADS";

/// Threads that may be asked for.
pub const MAX_THREADS: usize = 4096;

/// How many threads compute by default: what `SWINGDB_THREADS` says, else one a core that this
/// process may use by its affinity and the processor quotas of its control groups.
pub fn cores() -> usize {
    // A variable that is no number ends statements before they come here.
    configured().unwrap_or_else(|_| usable())
}

/// As [`cores`]; an error when the variable is no number.
pub fn configured() -> Result<usize> {
    Ok(asked()?.unwrap_or_else(usable))
}

/// The cores this process may use. The standard library asks the affinity, `cpu.max` of control
/// groups of version 2, and `cpu.cfs_quota_us` of version 1, up to the root.
fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the environment said when it was first asked.
fn asked() -> Result<Option<usize>> {
    static VALUE: OnceLock<Option<String>> = OnceLock::new();
    let value = VALUE.get_or_init(|| {
        std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned())
    });
    value.as_deref().map_or(Ok(None), |value| parse(value).map(Some))
}

fn parse(value: &str) -> Result<usize> {
    let number = value.trim().parse().ok().filter(|number| (1..=MAX_THREADS).contains(number));
    number.ok_or_else(|| {
        Error::plan(format!("{VARIABLE}: {value:?} is no number from 1 to {MAX_THREADS}"))
    })
}

/// This process's runtime.
fn runtime() -> Result<&'static Runtime> {
    let pid = std::process::id();
    let mut cell = &FIRST;
    let mut retired = 0;
    loop {
        let node = match cell.get() {
            Some(node) => node,
            None => {
                let (runtime, next) = (start()?, OnceLock::new());
                allocator::queries_begin();
                let made = Box::new(Node { pid, runtime, retired: AtomicBool::new(false), next });
                // Another thread may have been quicker; then ours is shut down without waiting.
                match cell.set(made) {
                    Ok(()) => {}
                    Err(surplus) => surplus.runtime.shutdown_background(),
                }
                continue;
            }
        };
        if node.pid == pid {
            let may_hang = GIVEN_UP.swap(false, Ordering::AcqRel);
            if may_hang && retired < MAX_RETIRED && !node.responds() {
                node.retired.store(true, Ordering::Release);
            }
            if !node.retired.load(Ordering::Acquire) {
                return Ok(&node.runtime);
            }
            retired += 1;
        }
        cell = &node.next;
    }
}

fn start() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(startable(configured()?)?)
        .thread_name("swingdb")
        .thread_stack_size(WORKER_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(Error::from)
}

/// How many threads can be started, up to `wanted`: a runtime that gets fewer than it asks for
/// waits for ever.
fn startable(wanted: usize) -> Result<usize> {
    /// How long threads that have ended may still count.
    const GONE: Duration = Duration::from_millis(10);
    let (release, hold) = crossbeam_channel::bounded::<()>(0);
    let (mut started, mut refused) = (Vec::with_capacity(wanted), None);
    while started.len() < wanted {
        let hold = hold.clone();
        let thread = std::thread::Builder::new().stack_size(PROBE_STACK_BYTES);
        // It ends when the sender is dropped.
        match thread.spawn(move || hold.recv().is_ok()) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    drop(release);
    let count = started.len();
    started.into_iter().for_each(|thread| drop(thread.join()));
    match refused {
        Some(error) if count == 0 => Err(error.into()),
        Some(_) => {
            std::thread::sleep(GONE);
            Ok(count)
        }
        None => Ok(count),
    }
}

/// Starts `future` on the library's threads.
pub fn spawn<F>(future: F) -> Result<Task<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(Task(runtime()?.spawn(future)))
}

/// Runs `work` on this thread; what it starts beside itself runs on the library's threads.
pub fn within<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _entered = runtime()?.enter();
    work()
}

/// Threads of its own for work that may compute for long without a pause. Dropping it does not
/// wait: the threads end when the work does.
pub struct OwnThreads(Option<Runtime>);

impl OwnThreads {
    /// As many threads as the shared ones are.
    pub fn start() -> Result<Self> {
        Ok(Self(Some(start()?)))
    }

    /// Starts `future` on them.
    pub fn spawn<F>(&self, future: F) -> Result<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.0 {
            Some(runtime) => Ok(Task(runtime.spawn(future))),
            None => Err(Error::internal("the threads have ended")),
        }
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `work` on a thread of its own, so that this one can stop waiting for it when the statement
/// is to end: `work` then ends at its next [checkpoint](super::cancel::checkpoint).
pub fn aside<T: Send + 'static>(
    token: &CancelToken,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, done) = tokio::sync::oneshot::channel();
    let planning = token.clone();
    let thread = std::thread::Builder::new().name("swingdb-plan".to_string());
    thread.stack_size(WORKER_STACK_BYTES).spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(stoppable(&planning, work));
    })?;
    block_on(async {
        tokio::select! {
            biased;
            () = token.cancelled() => Err(token.error()),
            done = done => match done {
                Ok(result) => result,
                Err(_) => Err(Error::internal("a thread ended without an answer")),
            },
        }
    })
}

/// A started computation; dropping it aborts the computation at its next pause.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    /// Its result; a panic inside it comes out as [`Error::Internal`].
    pub async fn join(&mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(value) => Ok(value),
            Err(error) if error.is_cancelled() => Err(Error::Interrupted),
            Err(error) => Err(unwound(error.into_panic())),
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if !self.0.is_finished() {
            self.0.abort();
            GIVEN_UP.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn spawned_work_is_waited_for() {
        let mut task = spawn(async { 6 * 7 }).unwrap();
        assert_eq!(block_on(task.join()).unwrap(), 42);
    }

    #[test]
    fn a_panic_is_an_error() {
        let mut task = spawn(async { panic!("no luck") }).unwrap();
        let error = block_on(task.join()).unwrap_err();
        assert!(matches!(&error, Error::Internal { message } if message.contains("no luck")));
    }

    #[test]
    fn the_number_of_threads_is_one() {
        assert_eq!(parse(" 3 ").unwrap(), 3);
        for wrong in ["", "0", "-1", "two", "5000"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("SWINGDB_THREADS"), "{error}");
        }
    }

    #[test]
    fn as_many_threads_as_there_may_be() {
        assert_eq!(startable(3).unwrap(), 3);
        assert_eq!(startable(1).unwrap(), 1);
    }

    #[test]
    fn threads_that_hang_are_replaced() {
        let hang = Arc::new(AtomicBool::new(true));
        let tasks = (0..cores() * 2).map(|_| {
            let hang = Arc::clone(&hang);
            spawn(async move {
                while hang.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        });
        drop(tasks.collect::<Vec<_>>());
        let mut task = spawn(async { 1 }).unwrap();
        assert_eq!(block_on(task.join()).unwrap(), 1);
        hang.store(false, Ordering::Release);
    }
}
