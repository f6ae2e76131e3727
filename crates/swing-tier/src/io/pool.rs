//! Threads that call `pread` and `pwrite`: where io_uring is not allowed or is of no use.
//!
//! One pool a directory, its threads made when there is work and none idle, at most
//! [`MAX_POOL_THREADS`]. A request owns its buffer on its way to a thread and back (INV-TIER-1),
//! so a queue may be dropped at any time: its requests end, and their buffers go back to the
//! arena, which lives that long. A forked child has no threads; its first queue makes a new pool.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::arena::{Arena, IoBuffer};
use crate::io::admission::Admission;
use crate::io::progress::Moving;
use crate::process::ProcessMark;
use crate::storage::{Completion, Queue, Request};

/// The most threads of one pool.
pub const MAX_POOL_THREADS: usize = 16;

/// The threads of a directory. They end when the last handle is dropped.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    pub(crate) mark: ProcessMark,
}

struct Shared {
    jobs: Mutex<Jobs>,
    work: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Job {
    request: Request,
    back: Arc<Done>,
}

/// Where the completions of one queue go.
struct Done {
    list: Mutex<VecDeque<Completion>>,
    arrived: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        let shared = Shared { jobs: Mutex::default(), work: Condvar::new() };
        Arc::new(Pool { shared: Arc::new(shared), mark: ProcessMark::current() })
    }

    /// Gives a job to a thread. If there is none and none can be made, the caller does the work.
    fn give(&self, job: Job) {
        let mut jobs = lock(&self.shared.jobs);
        jobs.waiting.push_back(job);
        let wanted = jobs.waiting.len() > jobs.idle && jobs.threads < MAX_POOL_THREADS;
        if wanted {
            let shared = self.shared.clone();
            let made = std::thread::Builder::new()
                .name("swing-tier-io".to_owned())
                .spawn(move || shared.serve());
            match made {
                Ok(_) => jobs.threads += 1,
                Err(_) if jobs.threads == 0 => {
                    let job = jobs.waiting.pop_back();
                    drop(jobs);
                    job.into_iter().for_each(Job::run);
                    return;
                }
                Err(_) => {}
            }
        }
        drop(jobs);
        self.shared.work.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.mark.is_stale() {
            return;
        }
        lock(&self.shared.jobs).closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn serve(&self) {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                drop(jobs);
                job.run();
                jobs = lock(&self.jobs);
            } else if jobs.closed {
                return;
            } else {
                jobs.idle += 1;
                jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                jobs.idle -= 1;
            }
        }
    }
}

impl Job {
    fn run(self) {
        let Job { request, back } = self;
        let mut moving = Moving::new(request);
        let result = moving.run();
        let Request { tag, buffer, .. } = moving.request;
        lock(&back.list).push_back(Completion { tag, buffer, result });
        back.arrived.notify_one();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", lock(&self.shared.jobs).threads)
    }
}

/// One worker's queue on a [`Pool`].
pub(crate) struct PoolQueue {
    pool: Arc<Pool>,
    admission: Admission,
    done: Arc<Done>,
}

impl PoolQueue {
    pub(crate) fn new(pool: Arc<Pool>, arena: Arc<Arena>, depth: u32) -> Self {
        let done = Arc::new(Done { list: Mutex::default(), arrived: Condvar::new() });
        PoolQueue { pool, admission: Admission::new(arena, depth), done }
    }
}

impl Queue for PoolQueue {
    fn depth(&self) -> u32 {
        self.admission.depth()
    }

    fn in_flight(&self) -> u32 {
        self.admission.in_flight()
    }

    fn longest_buffer(&self) -> usize {
        self.admission.longest_buffer()
    }

    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer> {
        self.admission.take_buffer(len)
    }

    fn submit(&mut self, request: Request) {
        if let Some(request) = self.admission.admit(request) {
            self.pool.give(Job { request, back: self.done.clone() });
        }
    }

    fn start(&mut self) {}

    fn wait(&mut self) -> Option<Completion> {
        if let Some(refused) = self.admission.next_refused() {
            return Some(refused);
        }
        // What was in flight when the process forked ends in the parent.
        if self.admission.in_flight() == 0 || self.admission.is_stale() {
            return None;
        }
        let mut list = lock(&self.done.list);
        loop {
            if let Some(completion) = list.pop_front() {
                return Some(self.admission.hand_out(completion));
            }
            list = self.done.arrived.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn describe(&self) -> String {
        "pread and pwrite".to_owned()
    }
}

impl Drop for PoolQueue {
    fn drop(&mut self) {
        while self.wait().is_some() {}
    }
}

impl fmt::Debug for PoolQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolQueue({} of {} in flight)", self.in_flight(), self.depth())
    }
}
