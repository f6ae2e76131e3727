//! A scan for consumers: workers read, any thread takes what has arrived.
//!
//! What a worker has read and checked waits in a list; a consumer takes it part by part. A part
//! holds the buffer it lies in, and the buffer goes back to its lane when its last part is dropped.
//! So the list is never longer than the rings, and a slow consumer parks the workers.
//!
//! **Order.** The requests of [`Order::AsAsked`] are taken by the lanes in the order asked, a lane
//! takes one only with a buffer for it in its hand, and delivers in this order. So the request that
//! has to be delivered next is never waiting for a buffer that a later one has: the scan cannot
//! lock itself up.
//!
//! **Locks.** `Flow::state` and `Returns::state` are never held together. Neither is held while
//! bytes are checked or requests made.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crate::arena::IoBuffer;
use crate::error::{Cause, Fault, IoError, ReadError};
use crate::log::Lease;
use crate::process::ProcessMark;
use crate::scan::aggregate::Chunk;
use crate::scan::lock::lock;
use crate::scan::options::{Order, ScanOptions};
use crate::scan::plan::Plan;
use crate::scan::stats::{Counters, ScanStats};
use crate::scan::worker::{Sink, Wish, Worker, thread_failure};
use crate::units::RecordId;

/// A parallel scan of records. Any thread may take parts of it, several at the same time.
///
/// ```
/// use std::sync::Arc;
/// use swing_tier::scan::{Order, ScanOptions};
/// use swing_tier::{Directory, DirectoryOptions, Log, LogOptions};
/// # let temporary = tempfile::tempdir()?;
/// let options = DirectoryOptions { create: true, ..Default::default() };
/// let directory = Arc::new(Directory::open(temporary.path(), options)?);
/// let log = Log::create(directory, LogOptions::default())?;
/// let mut batch = log.batch()?;
/// let ids = (0..10).map(|n| batch.put(&[n; 100_000])).collect::<Result<Vec<_>, _>>()?;
/// batch.commit()?;
///
/// let scan = log.lease().scan(&ids, &ScanOptions::default())?;
/// let mut bytes = 0;
/// for part in scan {
///     let part = part?;
///     assert!(part.iter().all(|&byte| usize::from(byte) == part.index()));
///     bytes += part.len();
/// }
/// assert_eq!(bytes, 1_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping a scan ends it; that takes as long as the requests in flight.
#[derive(Debug)]
pub struct Scan {
    flow: Arc<Flow>,
    threads: Vec<JoinHandle<()>>,
}

/// What consumers and workers share.
#[derive(Debug)]
struct Flow {
    /// Keeps the records that are read, and the log open.
    lease: Lease,
    plan: Plan,
    counters: Counters,
    order: Order,
    state: Mutex<State>,
    /// Something has arrived, or the scan has ended.
    arrived: Condvar,
    /// Where each worker's buffers come back.
    returns: Vec<Arc<Returns>>,
    mark: ProcessMark,
}

#[derive(Debug, Default)]
struct State {
    /// What is being taken apart.
    current: Option<Filled>,
    /// What has arrived, in any order.
    ready: VecDeque<Filled>,
    /// What has arrived and has to wait for its turn, by its first item.
    early: BTreeMap<usize, Filled>,
    /// The item whose turn it is.
    turn: usize,
    running: usize,
    failure: Option<ReadError>,
    ended: bool,
    wakers: Vec<Waker>,
}

/// A run that has arrived: which of its items have not been handed out.
#[derive(Debug)]
struct Filled {
    slot: Option<Arc<Slot>>,
    run_offset: u64,
    items: Range<usize>,
}

/// A buffer of a ring, until its last part is dropped.
struct Slot {
    buffer: Option<IoBuffer>,
    lane: usize,
    returns: Arc<Returns>,
    mark: ProcessMark,
}

/// The way of buffers back to a worker.
#[derive(Debug, Default)]
struct Returns {
    state: Mutex<Back>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Back {
    buffers: Vec<(usize, IoBuffer)>,
    /// The worker has ended, or has to.
    closed: bool,
}

impl Lease {
    /// The options that suit the device which the log lies on: those of its saved profile, if it
    /// has been probed.
    pub fn scan_options(&self) -> ScanOptions {
        self.storage().profile().map_or_else(ScanOptions::default, |found| ScanOptions::of(&found))
    }

    /// Reads records in parallel, many requests in flight, in parts of at most
    /// [`MAX_BLOCK_BYTES`](crate::MAX_BLOCK_BYTES), each checked. Parts name records by their
    /// places in `ids`. The scan holds this state until it is dropped.
    ///
    /// # Errors
    /// [`ReadError::NoRecord`] for a record that the state does not show; [`ReadError::Io`] if no
    /// thread can be made. Other failures come with the parts.
    pub fn scan(&self, ids: &[RecordId], options: &ScanOptions) -> Result<Scan, ReadError> {
        Scan::start(self, ids, options)
    }
}

impl Scan {
    fn start(lease: &Lease, ids: &[RecordId], options: &ScanOptions) -> Result<Self, ReadError> {
        let plan = lease.plan(ids, options)?;
        let workers = plan.shape.workers;
        let flow = Arc::new(Flow {
            lease: lease.clone(),
            counters: Counters::new(plan.stats()),
            plan,
            order: options.order,
            state: Mutex::new(State { running: workers, ..State::default() }),
            arrived: Condvar::new(),
            returns: (0..workers).map(|_| Arc::default()).collect(),
            mark: ProcessMark::current(),
        });
        let mut scan = Scan { flow, threads: Vec::with_capacity(workers) };
        for number in 0..workers {
            let flow = scan.flow.clone();
            let thread = std::thread::Builder::new().name("swing-tier-scan".to_owned());
            match thread.spawn(move || flow.work(number)) {
                Ok(thread) => scan.threads.push(thread),
                Err(error) => {
                    lock(&scan.flow.state).running -= workers - number;
                    return Err(thread_failure(scan.flow.lease.storage(), Cause::of(&error)));
                }
            }
        }
        Ok(scan)
    }

    /// The next part; waits for it. `None` after the last, and after a failure, which is returned
    /// once: to one of the consumers.
    ///
    /// A consumer that keeps all parts it gets will wait forever once they hold all buffers.
    pub fn next_part(&self) -> Option<Result<Part, ReadError>> {
        if let Some(refusal) = self.flow.refusal() {
            return Some(Err(refusal));
        }
        let mut state = lock(&self.flow.state);
        loop {
            match self.flow.take(&mut state) {
                Poll::Ready(part) => return part,
                Poll::Pending => {
                    state = self.flow.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// As [`Scan::next_part`], without waiting: the task is woken when it is worth asking again.
    pub fn poll_next_part(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Part, ReadError>>> {
        if let Some(refusal) = self.flow.refusal() {
            return Poll::Ready(Some(Err(refusal)));
        }
        let mut state = lock(&self.flow.state);
        let polled = self.flow.take(&mut state);
        let known = |wakers: &[Waker]| wakers.iter().any(|w| w.will_wake(context.waker()));
        if polled.is_pending() && !known(&state.wakers) {
            state.wakers.push(context.waker().clone());
        }
        polled
    }

    /// Whole records, one after the other, of a scan that was started with [`Order::AsAsked`].
    ///
    /// # Panics
    /// If the scan's order is another one: then many records could be under way at the same time.
    pub fn records(self) -> Records {
        assert_eq!(self.flow.order, Order::AsAsked, "whole records come in the order asked");
        Records { scan: self }
    }

    /// What the scan has done so far.
    pub fn stats(&self) -> ScanStats {
        let running = lock(&self.flow.state).running > 0;
        self.flow.counters.stats(running)
    }

    /// Ends the scan early, for all its consumers; they get what has arrived.
    pub fn cancel(&self) {
        if !self.flow.mark.is_stale() {
            self.flow.close();
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Part, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_part()
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if self.flow.mark.is_stale() {
            // The parent's threads are not in this process, and its locks may be held by them.
            self.threads.drain(..).for_each(std::mem::forget);
            std::mem::forget(self.flow.clone());
            return;
        }
        self.flow.close();
        // What nobody will take has to give its buffers back.
        let left = {
            let state = &mut *lock(&self.flow.state);
            let (current, ready) = (state.current.take(), std::mem::take(&mut state.ready));
            (current, ready, std::mem::take(&mut state.early))
        };
        drop(left);
        for thread in self.threads.drain(..) {
            // A panic has become the scan's failure.
            let _ = thread.join();
        }
    }
}

impl Flow {
    /// A child that was forked off has no threads that read.
    fn refusal(&self) -> Option<ReadError> {
        let path = self.lease.storage().path();
        let error = || IoError::new("scan in", path, Cause::Forked);
        self.mark.is_stale().then(|| Fault::Io(error()).into())
    }

    /// Tells all workers to end.
    fn close(&self) {
        for returns in &self.returns {
            let left = {
                let mut back = lock(&returns.state);
                back.closed = true;
                std::mem::take(&mut back.buffers)
            };
            drop(left);
            returns.came.notify_all();
        }
    }

    /// A worker's thread.
    fn work(self: Arc<Self>, number: usize) {
        let end = WorkerEnd(&self);
        let storage = self.lease.storage();
        let result = Worker::new(&self.plan, &self.counters, storage, number)
            .map_err(|error| Fault::Io(error).into())
            .and_then(|worker| worker.run(&mut Outlet { flow: &self, number }));
        if let Err(error) = result {
            end.0.fail(error);
        }
    }

    fn fail(&self, error: ReadError) {
        lock(&self.state).failure.get_or_insert(error);
        self.close();
    }

    /// Wakes consumers; the state has changed.
    fn notify(&self, wakers: Vec<Waker>) {
        self.arrived.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The next part, if it has arrived.
    fn take(&self, state: &mut State) -> Poll<Option<Result<Part, ReadError>>> {
        if state.ended {
            return Poll::Ready(None);
        }
        if let Some(error) = state.failure.take() {
            state.ended = true;
            return Poll::Ready(Some(Err(error)));
        }
        if state.current.is_none() {
            state.current = match self.order {
                Order::Any => state.ready.pop_front(),
                Order::AsAsked => state.early.remove(&state.turn),
            };
        }
        if let Some(filled) = &mut state.current {
            // A run has at least one item, and is dropped with its last.
            let number = filled.items.start;
            filled.items.start += 1;
            state.turn = filled.items.start;
            let part = self.part(filled, number);
            if filled.items.is_empty() {
                state.current = None;
            }
            return Poll::Ready(Some(Ok(part)));
        }
        if state.running > 0 {
            return Poll::Pending;
        }
        state.ended = true;
        Poll::Ready(None)
    }

    fn part(&self, filled: &Filled, number: usize) -> Part {
        let item = self.plan.items[number];
        let start = item.piece.offset.saturating_sub(filled.run_offset) as usize;
        Part {
            slot: filled.slot.clone().filter(|_| item.piece.len > 0),
            range: start..start + item.piece.len as usize,
            index: item.index as usize,
            offset: item.from,
            record_bytes: self.plan.lens[item.index as usize],
        }
    }
}

/// Says, however a worker ends, that it has.
struct WorkerEnd<'a>(&'a Flow);

impl Drop for WorkerEnd<'_> {
    fn drop(&mut self) {
        let flow = self.0;
        flow.counters.end();
        if std::thread::panicking() {
            flow.fail(thread_failure(flow.lease.storage(), Cause::Os(libc::ECANCELED)));
        }
        let wakers = {
            let mut state = lock(&flow.state);
            state.running -= 1;
            std::mem::take(&mut state.wakers)
        };
        flow.notify(wakers);
    }
}

/// Where a worker's bytes go: to the consumers.
struct Outlet<'a> {
    flow: &'a Flow,
    number: usize,
}

impl Outlet<'_> {
    fn returns(&self) -> &Arc<Returns> {
        &self.flow.returns[self.number]
    }
}

impl Sink for Outlet<'_> {
    fn take(
        &mut self,
        lane: usize,
        run: usize,
        buffer: Option<IoBuffer>,
    ) -> (Option<IoBuffer>, Wish) {
        let flow = self.flow;
        let returns = self.returns().clone();
        let mark = flow.mark;
        let slot =
            buffer.map(|buffer| Arc::new(Slot { buffer: Some(buffer), lane, returns, mark }));
        let run = &flow.plan.runs[run];
        let filled = Filled { slot, run_offset: run.offset, items: run.items() };
        let wakers = {
            let mut state = lock(&flow.state);
            match flow.order {
                Order::Any => state.ready.push_back(filled),
                Order::AsAsked => drop(state.early.insert(run.first, filled)),
            }
            std::mem::take(&mut state.wakers)
        };
        flow.notify(wakers);
        (None, Wish::More)
    }

    fn lane_ended(&mut self, _lane: usize) -> Wish {
        Wish::More
    }

    fn returned(&mut self, into: &mut dyn FnMut(usize, IoBuffer)) -> Wish {
        let mut back = lock(&self.returns().state);
        back.buffers.drain(..).for_each(|(lane, buffer)| into(lane, buffer));
        if back.closed { Wish::Stop } else { Wish::More }
    }

    fn park(&mut self) -> Wish {
        let returns = self.returns();
        let mut back = lock(&returns.state);
        while back.buffers.is_empty() && !back.closed {
            back = returns.came.wait(back).unwrap_or_else(PoisonError::into_inner);
        }
        if back.closed { Wish::Stop } else { Wish::More }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if self.mark.is_stale() {
            // The memory is the parent's; so is the lock, which one of its threads may hold.
            std::mem::forget(buffer);
            return;
        }
        let mut back = lock(&self.returns.state);
        if !back.closed {
            back.buffers.push((self.lane, buffer));
            drop(back);
            self.returns.came.notify_one();
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot(of lane {})", self.lane)
    }
}

/// Bytes of a record, checked: a whole record, or as much of it as lies in one block. Holds a
/// buffer of the scan until it is dropped.
#[derive(Debug)]
pub struct Part {
    slot: Option<Arc<Slot>>,
    range: Range<usize>,
    index: usize,
    offset: u64,
    record_bytes: u64,
}

impl Part {
    /// Which of the records that were asked for: its place in the list.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where in the record the part begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length of the whole record, in bytes.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// The same as an aggregate gets it.
    pub fn chunk(&self) -> Chunk<'_> {
        let Part { index, offset, record_bytes, .. } = *self;
        Chunk { index, offset, record_bytes, bytes: self }
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let buffer = self.slot.as_ref().and_then(|slot| slot.buffer.as_ref());
        buffer.map_or(&[], |buffer| &buffer[self.range.clone()])
    }
}

/// The whole records of a scan, in the order asked: [`Scan::records`].
#[derive(Debug)]
pub struct Records {
    scan: Scan,
}

impl Records {
    /// What the scan has done so far.
    pub fn stats(&self) -> ScanStats {
        self.scan.stats()
    }
}

impl Iterator for Records {
    type Item = Result<Vec<u8>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = Vec::new();
        loop {
            let part = match self.scan.next_part()? {
                Ok(part) => part,
                Err(error) => return Some(Err(error)),
            };
            if part.offset() == 0 {
                record.reserve_exact(part.record_bytes() as usize);
            }
            record.extend_from_slice(&part);
            if record.len() as u64 == part.record_bytes() {
                return Some(Ok(record));
            }
        }
    }
}
