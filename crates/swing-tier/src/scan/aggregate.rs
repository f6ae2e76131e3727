//! Aggregation beside the scan (ParaSSDAggr): a partial aggregate at each single-domain scan, and a
//! final one over them.
//!
//! 1. A single-domain scan reads into its ring sub-buffer.
//! 2. Its partial aggregate takes from there what has arrived. Both run on the worker's thread: the
//!    device reads into the other buffers of the rings meanwhile. Nothing is shared between lanes.
//! 3. The final aggregate merges the partial ones: each lane pushes its own up at its end, or the
//!    final one pulls them down in the order of the domains ([`Gather`]).
//!
//! Partial aggregates are merged in the order of their ends with [`Gather::PushUp`], and which lane
//! reads which request may differ from run to run. So a sum of floating-point numbers may differ in
//! its last digits; whole numbers do not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use thiserror::Error;

use crate::arena::IoBuffer;
use crate::error::{Cause, Fault, ReadError};
use crate::log::Lease;
use crate::scan::lock::lock;
use crate::scan::options::{Gather, Order, ScanOptions};
use crate::scan::plan::Plan;
use crate::scan::stats::{Counters, ScanStats};
use crate::scan::worker::{Sink, Wish, Worker, thread_failure};
use crate::units::RecordId;

/// Bytes of a record, checked, as an aggregate sees them: a whole record, or as much of it as lies
/// in one block.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Which of the records that were asked for: its place in the list.
    pub index: usize,
    /// Where in the record the bytes begin.
    pub offset: u64,
    /// Length of the whole record, in bytes.
    pub record_bytes: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A function over records that can be computed in parts: SUM and its like, and whatever a query
/// engine splits into partial and final.
///
/// Chunks come in any order, and those of one record may go to different partial aggregates. Chunks
/// of a record that was written at once begin at multiples of
/// [`CHUNK_ALIGN`](crate::CHUNK_ALIGN) bytes of the record.
pub trait Aggregate: Sync {
    /// The state of a partial aggregate.
    type Partial: Send;
    /// The result.
    type Output;
    /// Why a partial aggregate fails; [`std::convert::Infallible`] if it does not.
    type Error: Send;

    /// The state before the first bytes.
    fn start(&self) -> Self::Partial;

    /// Takes bytes into the state.
    ///
    /// # Errors
    /// Ends the whole aggregation.
    fn update(&self, partial: &mut Self::Partial, chunk: &Chunk<'_>) -> Result<(), Self::Error>;

    /// Takes another partial aggregate into the state.
    ///
    /// # Errors
    /// Ends the whole aggregation.
    fn merge(&self, into: &mut Self::Partial, other: Self::Partial) -> Result<(), Self::Error>;

    /// The result of a state that all others were merged into.
    ///
    /// # Errors
    /// Becomes the aggregation's.
    fn finish(&self, partial: Self::Partial) -> Result<Self::Output, Self::Error>;
}

/// The result of an aggregation, and what the scan below it did.
#[derive(Clone, Debug)]
pub struct Aggregated<T> {
    /// The result.
    pub value: T,
    /// What the scan did.
    pub stats: ScanStats,
}

/// An aggregation failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AggregateError<E> {
    /// Records could not be read.
    #[error(transparent)]
    Read(ReadError),
    /// The aggregate function failed.
    #[error("{0}")]
    Function(E),
}

impl<E> From<ReadError> for AggregateError<E> {
    fn from(error: ReadError) -> Self {
        AggregateError::Read(error)
    }
}

impl Lease {
    /// Computes a function over records while they are read, in parallel; see the
    /// [module](crate::scan).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use swing_tier::scan::{Avg, Chunk, Count, Max, Min, Numbers, ScanOptions, Sum};
    /// use swing_tier::{Directory, DirectoryOptions, Log, LogOptions};
    /// # let temporary = tempfile::tempdir()?;
    /// let options = DirectoryOptions { create: true, ..Default::default() };
    /// let directory = Arc::new(Directory::open(temporary.path(), options)?);
    /// let log = Log::create(directory, LogOptions::default())?;
    /// let mut batch = log.batch()?;
    /// let rows: Vec<u8> = (1..=100_i64).flat_map(i64::to_le_bytes).collect();
    /// let id = batch.put(&rows)?;
    /// batch.commit()?;
    ///
    /// let decode = |chunk: &Chunk<'_>, numbers: &mut Vec<i64>| {
    ///     let words = chunk.bytes.as_chunks().0;
    ///     numbers.extend(words.iter().map(|&word| i64::from_le_bytes(word)));
    /// };
    /// let five = Numbers::new(decode, (Sum, Min, Max, Count, Avg));
    /// let found = log.lease().aggregate(&[id], &ScanOptions::default(), &five)?;
    /// assert_eq!(found.value, (Some(5050), Some(1), Some(100), 100, Some(50.5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AggregateError::Read`] as a scan's, [`AggregateError::Function`] from the function.
    pub fn aggregate<A: Aggregate>(
        &self,
        ids: &[RecordId],
        options: &ScanOptions,
        function: &A,
    ) -> Result<Aggregated<A::Output>, AggregateError<A::Error>> {
        let options = ScanOptions { order: Order::Any, ..options.clone() };
        let plan = self.plan(ids, &options)?;
        let counters = Counters::new(plan.stats());
        let final_ = Final {
            function,
            plan: &plan,
            pulled: options.gather == Gather::PullDown,
            state: Mutex::new(Gathered {
                merged: None,
                waiting: (0..plan.shape.lanes).map(|_| None).collect(),
                running: plan.shape.workers,
                failure: None,
            }),
            arrived: Condvar::new(),
            stop: AtomicBool::new(false),
        };
        let merged = final_.run(self, &counters)?;
        let partial = merged.unwrap_or_else(|| function.start());
        let value = function.finish(partial).map_err(AggregateError::Function)?;
        Ok(Aggregated { value, stats: counters.stats(false) })
    }
}

/// The final aggregate.
struct Final<'a, A: Aggregate> {
    function: &'a A,
    plan: &'a Plan,
    /// Whether it pulls the partial ones down.
    pulled: bool,
    state: Mutex<Gathered<A>>,
    /// A partial aggregate has arrived, or a worker has ended.
    arrived: Condvar,
    stop: AtomicBool,
}

struct Gathered<A: Aggregate> {
    merged: Option<A::Partial>,
    /// The partial aggregate of each lane that waits to be pulled.
    waiting: Vec<Option<A::Partial>>,
    running: usize,
    failure: Option<AggregateError<A::Error>>,
}

type Merged<A> = Result<Option<<A as Aggregate>::Partial>, AggregateError<<A as Aggregate>::Error>>;

impl<A: Aggregate> Final<'_, A> {
    /// Runs the workers, and merges what they find.
    fn run(&self, lease: &Lease, counters: &Counters) -> Merged<A> {
        let workers = self.plan.shape.workers;
        std::thread::scope(|scope| {
            // The caller's thread is a worker as well, unless it pulls.
            let spawned = usize::from(!self.pulled)..workers;
            for number in spawned.clone() {
                let thread = std::thread::Builder::new().name("swing-tier-scan".to_owned());
                let made = thread.spawn_scoped(scope, move || self.work(lease, counters, number));
                if let Err(error) = made {
                    self.fail(thread_failure(lease.storage(), Cause::of(&error)).into());
                    lock(&self.state).running -= workers - number;
                    break;
                }
            }
            if self.pulled {
                self.pull();
            } else {
                self.work(lease, counters, 0);
            }
        });
        let mut state = lock(&self.state);
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(state.merged.take()),
        }
    }

    /// A worker's thread.
    fn work(&self, lease: &Lease, counters: &Counters, number: usize) {
        let _end = PartialEnd { final_: self, counters };
        let lanes = self.plan.shape.lanes_of(number);
        let partials = lanes.map(|_| Some(self.function.start())).collect();
        let result = Worker::new(self.plan, counters, lease.storage(), number)
            .map_err(|error| Fault::Io(error).into())
            .and_then(|worker| worker.run(&mut Partials { final_: self, partials }));
        if let Err(error) = result {
            self.fail(error.into());
        }
    }

    fn fail(&self, error: AggregateError<A::Error>) {
        lock(&self.state).failure.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes a lane's partial aggregate in, or keeps it until it is pulled.
    fn push(&self, lane: usize, partial: A::Partial) -> Wish {
        if self.pulled {
            lock(&self.state).waiting[lane] = Some(partial);
            self.arrived.notify_all();
            return Wish::More;
        }
        self.merge(partial)
    }

    fn merge(&self, partial: A::Partial) -> Wish {
        let mut state = lock(&self.state);
        let result = match &mut state.merged {
            Some(into) => self.function.merge(into, partial),
            none => {
                *none = Some(partial);
                Ok(())
            }
        };
        drop(state);
        match result {
            Ok(()) => Wish::More,
            Err(error) => {
                self.fail(AggregateError::Function(error));
                Wish::Stop
            }
        }
    }

    /// Pulls the partial aggregates down, one lane after the other.
    fn pull(&self) {
        for lane in 0..self.plan.shape.lanes {
            let mut state = lock(&self.state);
            let partial = loop {
                match state.waiting[lane].take() {
                    Some(partial) => break partial,
                    // A failure, or a panic that the scope passes on.
                    None if state.running == 0 => return,
                    None => {
                        state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(state);
            if self.merge(partial) == Wish::Stop {
                return;
            }
        }
    }
}

/// Says, however a worker ends, that it has.
struct PartialEnd<'a, 'f, A: Aggregate> {
    final_: &'a Final<'f, A>,
    counters: &'a Counters,
}

impl<A: Aggregate> Drop for PartialEnd<'_, '_, A> {
    fn drop(&mut self) {
        self.counters.end();
        if std::thread::panicking() {
            self.final_.stop.store(true, Ordering::Relaxed);
        }
        lock(&self.final_.state).running -= 1;
        self.final_.arrived.notify_all();
    }
}

/// The partial aggregates of one worker's lanes.
struct Partials<'a, 'f, A: Aggregate> {
    final_: &'a Final<'f, A>,
    /// Of each of its lanes, until it is pushed.
    partials: Vec<Option<A::Partial>>,
}

impl<A: Aggregate> Partials<'_, '_, A> {
    fn update(&mut self, lane: usize, run: usize, buffer: &[u8]) -> Result<(), A::Error> {
        let plan = self.final_.plan;
        let run = &plan.runs[run];
        let Some(partial) = &mut self.partials[lane / plan.shape.workers] else { return Ok(()) };
        for item in &plan.items[run.items()] {
            let start = item.piece.offset.saturating_sub(run.offset) as usize;
            let bytes = match item.piece.len {
                0 => &[],
                len => &buffer[start..start + len as usize],
            };
            let index = item.index as usize;
            let record_bytes = plan.lens[index];
            let chunk = Chunk { index, offset: item.from, record_bytes, bytes };
            self.final_.function.update(partial, &chunk)?;
        }
        Ok(())
    }
}

impl<A: Aggregate> Sink for Partials<'_, '_, A> {
    fn take(
        &mut self,
        lane: usize,
        run: usize,
        buffer: Option<IoBuffer>,
    ) -> (Option<IoBuffer>, Wish) {
        let updated = self.update(lane, run, buffer.as_deref().unwrap_or(&[]));
        match updated {
            Ok(()) => (buffer, Wish::More),
            Err(error) => {
                self.final_.fail(AggregateError::Function(error));
                (buffer, Wish::Stop)
            }
        }
    }

    fn lane_ended(&mut self, lane: usize) -> Wish {
        match self.partials[lane / self.final_.plan.shape.workers].take() {
            Some(partial) => self.final_.push(lane, partial),
            None => Wish::More,
        }
    }

    fn returned(&mut self, _into: &mut dyn FnMut(usize, IoBuffer)) -> Wish {
        if self.final_.stop.load(Ordering::Relaxed) { Wish::Stop } else { Wish::More }
    }

    fn park(&mut self) -> Wish {
        unreachable!("a partial aggregate keeps no buffer")
    }
}
