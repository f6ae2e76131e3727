//! Locks that are being taken, and forks: never at the same time.
//!
//! Either side first says that it is there and then looks for the other one, with a fence in
//! between, so at least one of two that come together sees the other. A thread that wants to take a
//! lock steps back from a fork; a fork waits for locks that are being taken.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU32, fence, yield_now};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How many threads are taking a lock, and how many fork.
    taking: AtomicU32,
    forking: AtomicU32,
}

impl Gate {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Gate { taking: AtomicU32::new(0), forking: AtomicU32::new(0) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Gate { taking: AtomicU32::new(0), forking: AtomicU32::new(0) }
    }

    /// Begins to take a lock, when nobody forks.
    pub(crate) fn begin_taking(&self) {
        loop {
            self.taking.fetch_add(1, Relaxed);
            fence(SeqCst);
            if self.forking.load(Acquire) == 0 {
                return;
            }
            self.taking.fetch_sub(1, Relaxed);
            // Not there again before the fork is over: it would find somebody each time it looks.
            while self.forking.load(Relaxed) != 0 {
                yield_now();
            }
        }
    }

    /// The lock is taken, and no child would hold it.
    pub(crate) fn end_taking(&self) {
        self.taking.fetch_sub(1, Release);
    }

    /// Waits until no lock is being taken, and keeps others from it, or until `is_late`. Usable
    /// where only what signal handlers do is allowed.
    pub(crate) fn begin_fork(&self, mut is_late: impl FnMut() -> bool) {
        self.forking.fetch_add(1, Relaxed);
        fence(SeqCst);
        while self.taking.load(Acquire) != 0 && !is_late() {
            yield_now();
        }
    }

    pub(crate) fn end_fork(&self) {
        self.forking.fetch_sub(1, Release);
    }

    /// The threads that were counted stayed with the parent.
    pub(crate) fn begin_in_child(&self) {
        self.forking.store(0, Relaxed);
        self.taking.store(0, Relaxed);
    }
}

/// Models of the gate: each order of the threads' steps is run (`make test-concurrency`).
#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The descriptor of a lock that is being taken, which no child may inherit.
    struct Process {
        gate: Gate,
        is_open: UnsafeCell<bool>,
    }

    /// Runs a model in each order of its threads' steps in which they are interrupted three times
    /// at most.
    fn model(act: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(act);
    }

    fn take(process: &Process) {
        process.gate.begin_taking();
        // SAFETY: one thread takes locks, and a fork looks only meanwhile, which the model checks.
        process.is_open.with_mut(|open| unsafe { *open = true });
        process.is_open.with_mut(|open| unsafe { *open = false });
        process.gate.end_taking();
    }

    fn fork(process: &Process) {
        process.gate.begin_fork(|| false);
        // SAFETY: nobody takes a lock, which the model checks.
        assert!(!process.is_open.with(|open| unsafe { *open }), "the child inherits the lock");
        process.gate.end_fork();
    }

    /// A fork and the taking of a lock never meet. Fails when either side looks before it says that
    /// it is there, without either fence, and when the end of either is relaxed.
    #[test]
    fn a_fork_meets_no_lock_that_is_being_taken() {
        model(|| {
            let process = Arc::new(Process { gate: Gate::new(), is_open: UnsafeCell::new(false) });
            let other = process.clone();
            let forks = thread::spawn(move || fork(&other));
            take(&process);
            forks.join().unwrap();
        });
    }
}
