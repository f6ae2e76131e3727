//! Waiting for the engine with the interpreter's lock released, and Ctrl-C.
//!
//! Python runs signal handlers in its main thread, and only when that thread asks for it. So when
//! the main thread runs a statement, a worker thread does the work and the main thread waits,
//! asking for signals every few milliseconds: when a handler raises (Ctrl-C: `KeyboardInterrupt`),
//! the statement is cancelled, and the exception leaves once it has ended. A second Ctrl-C does not
//! wait for that. Other threads get no signals and do the work themselves.
//!
//! What takes microseconds, the main thread does itself ([`run_here`]): to start a query whose plan
//! is kept ([`Connection::execute_again`](swingdb::Connection::execute_again)), and to read a short
//! result.
//!
//! Idle workers are kept for the next statement; handing one a statement costs some ten
//! microseconds, and more where processors sleep. The list of idle workers is only touched by
//! threads that hold the interpreter's lock, and a `fork` from Python holds it too: so the child
//! never finds the list locked, and forgets it, since it has none of its threads.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use swingdb::{Interruptible, Surroundings};

use crate::called::is_called;
use crate::errors;
use crate::panics::{caught, internal};

/// How long a Ctrl-C may go unnoticed.
const POLL: Duration = Duration::from_millis(10);
/// Idle workers kept; a process with more statements at once starts and ends threads.
const MAX_IDLE: usize = 8;
/// As much as the main thread usually has: deeply nested statements are planned recursively.
const STACK_BYTES: usize = 8 << 20;

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    pid: u32,
    idle: Vec<Sender<Job>>,
    /// Python's main thread; `None` when the module was imported from another thread.
    main: Option<ThreadId>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { pid: 0, idle: Vec::new(), main: None });

/// Runs `work` with the interpreter's lock released. `cancel` must make it end soon.
pub fn run<T, F>(py: Python<'_>, cancel: impl Fn(), work: F) -> PyResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if is_called() {
        let message = "a function of SQL cannot run statements itself; run them before, and let \
                       it use their rows";
        return Err(errors::new("ProgrammingError", message));
    }
    if !may_be_main_thread() {
        return py.detach(|| caught(work));
    }
    let worker = checkout()?;
    let (done, result) = channel();
    let job: Job = Box::new(move || {
        // The receiver is gone when the main thread has given up waiting.
        let _ = done.send(caught(work));
    });
    if worker.send(job).is_err() {
        return Err(internal("a worker thread ended unexpectedly"));
    }
    wait(py, result, cancel, worker)
}

/// Does what takes microseconds on this thread, with the interpreter's lock released: to hand it to
/// a worker can take longer.
pub fn run_here<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| caught(work))
}

/// Whether [`run`] lets a worker do the work of this thread.
pub fn hands_over() -> bool {
    !is_called() && may_be_main_thread()
}

/// The same for work that runs statements: Ctrl-C ends those of `of_call`, and no others of their
/// sessions.
pub fn run_statements<T, F>(py: Python<'_>, of_call: &Interruptible, work: F) -> PyResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (handle, of_call) = (of_call.handle(), of_call.clone());
    let around = Surroundings::here();
    run(py, || handle.interrupt(), move || around.run(|| of_call.run(work)))
}

fn wait<T: Send>(
    py: Python<'_>,
    mut result: Receiver<PyResult<T>>,
    cancel: impl Fn(),
    worker: Sender<Job>,
) -> PyResult<T> {
    let mut raised: Option<PyErr> = None;
    loop {
        let answer;
        (result, answer) = py.detach(move || {
            let answer = result.recv_timeout(POLL);
            (result, answer)
        });
        match answer {
            Ok(done) => {
                put_back(worker);
                return match (raised, done) {
                    (Some(error), _) => Err(error),
                    (None, done) => done,
                };
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(internal("a worker thread ended unexpectedly"));
            }
            Err(RecvTimeoutError::Timeout) => match (py.check_signals(), &raised) {
                (Ok(()), None) => {}
                // What has not heard the first time, because it was just starting, hears now.
                (Ok(()), Some(_)) => cancel(),
                (Err(error), None) => {
                    cancel();
                    raised = Some(error);
                }
                (Err(error), Some(_)) => return Err(error),
            },
        }
    }
}

/// Waits in slices by `step`, which waits at most the time it is given and says whether what it
/// waits for has come, until it has or `timeout` has passed; Ctrl-C ends the waiting.
pub fn wait_in_slices(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> swingdb::Result<bool> + Send,
) -> PyResult<bool> {
    const SLICE: Duration = Duration::from_millis(50);
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if py.detach(|| step(slice)).map_err(|error| errors::raise(&error))? {
            return Ok(true);
        }
        py.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(false);
        }
    }
}

fn with_pool<T>(use_it: impl FnOnce(&mut Pool) -> T) -> T {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if pool.pid != pid {
        // The threads behind these are in the parent; waking them would be a mistake.
        std::mem::forget(std::mem::take(&mut pool.idle));
        pool.pid = pid;
    }
    use_it(&mut pool)
}

fn checkout() -> PyResult<Sender<Job>> {
    if let Some(worker) = with_pool(|pool| pool.idle.pop()) {
        return Ok(worker);
    }
    let (jobs, inbox) = channel::<Job>();
    std::thread::Builder::new()
        .name("swingdb-python".to_string())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // Ends when the sender is dropped instead of being put back.
            for job in inbox {
                job();
            }
        })
        .map_err(|error| errors::raise(&swingdb::Error::from(error)))?;
    Ok(jobs)
}

fn put_back(worker: Sender<Job>) {
    with_pool(|pool| {
        if pool.idle.len() < MAX_IDLE {
            pool.idle.push(worker);
        }
    });
}

fn may_be_main_thread() -> bool {
    with_pool(|pool| pool.main).is_none_or(|main| main == std::thread::current().id())
}

/// Remembers which thread is Python's main thread; called once, when the module is imported.
pub fn note_main_thread(py: Python<'_>) -> PyResult<()> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    if main.eq(threading.call_method0("get_ident")?)? {
        with_pool(|pool| pool.main = Some(std::thread::current().id()));
    }
    Ok(())
}

/// Called by `os.register_at_fork` in the child: its only thread, which forked, is its main thread
/// now.
#[pyfunction]
pub fn after_fork_in_child() {
    with_pool(|pool| pool.main = Some(std::thread::current().id()));
}
