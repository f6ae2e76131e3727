//! Memory that statements take beside operators, requested from the memory pool.
//!
//! Operators of the query engine request the memory that they hold. This module requests the rest
//! that grows with a statement: its text and the trees made of it ([`for_text`]), rows that a
//! change collects before it applies them ([`AccountedRows`]), rows on their way into a table
//! ([`Pieces`]) or waiting for a whole segment of it ([`Waiting`]), keys that are checked
//! ([`Taken`]), and results of functions ([`reserve`]). The tables themselves are not memory of the
//! query engine; the file system that they lie in limits them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::execution::session_state::SessionState;
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::runtime::held::{Held, about_value_bytes};

/// Bytes of the pool, until they are dropped; [`Error::OutOfMemory`] when there are not as many.
pub fn reserve(name: &str, pool: &Arc<dyn MemoryPool>, bytes: u64) -> Result<MemoryReservation> {
    let reservation = MemoryConsumer::new(name).register(pool);
    grow(&reservation, pool, bytes)?;
    Ok(reservation)
}

fn grow(reservation: &MemoryReservation, pool: &Arc<dyn MemoryPool>, bytes: u64) -> Result<()> {
    reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(|_| {
        let free = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit.saturating_sub(pool.reserved()) as u64,
            _ => 0,
        };
        Error::OutOfMemory { needed: bytes, free, file_system: None }
    })
}

/// Rows that a statement collects.
pub struct AccountedRows {
    pool: Arc<dyn MemoryPool>,
    reservation: MemoryReservation,
    held: Held,
}

impl AccountedRows {
    /// None yet.
    pub fn new(name: &str, state: &SessionState) -> Self {
        let pool = Arc::clone(&state.runtime_env().memory_pool);
        let reservation = MemoryConsumer::new(name).register(&pool);
        Self { pool, reservation, held: Held::default() }
    }

    /// Asks for the memory of a batch that is kept from now on.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = self.held.add(batch);
        grow(&self.reservation, &self.pool, bytes as u64)
    }

    /// Batches that are kept as they come.
    pub fn over<'a>(
        &'a mut self,
        batches: impl Iterator<Item = Result<RecordBatch>> + 'a,
    ) -> impl Iterator<Item = Result<RecordBatch>> + 'a {
        batches.map(|batch| {
            let batch = batch?;
            self.add(&batch)?;
            Ok(batch)
        })
    }
}

/// Memory that several threads take for one purpose. Clones count together, and give all of it back
/// when the last one is dropped.
#[derive(Clone)]
pub struct Taken {
    pool: Arc<dyn MemoryPool>,
    reservation: Arc<MemoryReservation>,
}

/// A part of it that is given back when it is dropped.
pub struct Part {
    of: Taken,
    bytes: usize,
}

impl Taken {
    /// None yet.
    pub fn new(name: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = Arc::new(MemoryConsumer::new(name).register(pool));
        Self { pool: Arc::clone(pool), reservation }
    }

    /// Of a process that has memory without end.
    pub fn unbounded(name: &str) -> Self {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        Self::new(name, &pool)
    }

    /// Takes so many bytes more; [`Error::OutOfMemory`] when there are not as many.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        grow(&self.reservation, &self.pool, bytes as u64)
    }

    /// Takes so many bytes more for as long as the part lives.
    pub fn part(&self, bytes: usize) -> Result<Part> {
        self.grow(bytes)?;
        Ok(Part { of: self.clone(), bytes })
    }

    /// Whether it is a pool's memory.
    pub fn is_of(&self, pool: &Arc<dyn MemoryPool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.reservation.size()
    }

    /// Gives back what was taken beyond so many bytes.
    pub fn shrink_to(&self, bytes: usize) {
        self.reservation.shrink(self.bytes().saturating_sub(bytes));
    }
}

impl Part {
    /// Takes so many bytes more.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.of.grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.of.reservation.shrink(self.bytes);
    }
}

/// Rows that several threads collect, and let go of when there are enough. Clones count together.
/// They are to take a small part of the memory only, since whoever makes the next ones needs some.
#[derive(Clone)]
pub struct Waiting {
    pool: Arc<dyn MemoryPool>,
    reservation: Arc<MemoryReservation>,
    most: usize,
}

/// The part of the pool's memory that rows which wait may take.
const WAITING_SHARE: usize = 8;

impl Waiting {
    /// None yet.
    pub fn new(name: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = Arc::new(MemoryConsumer::new(name).register(pool));
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / WAITING_SHARE,
            _ => usize::MAX,
        };
        Self { pool: Arc::clone(pool), reservation, most }
    }

    /// Asks for the memory of rows that wait from now on; false when so many wait that they are to
    /// be let go of first, or there is not as much memory.
    pub fn may_grow(&self, bytes: usize) -> bool {
        self.reservation.size().saturating_add(bytes) <= self.most && self.grow(bytes).is_ok()
    }

    /// Asks for the memory of rows that wait from now on, however many do.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        grow(&self.reservation, &self.pool, bytes as u64)
    }

    /// Rows do not wait any longer that memory was asked for.
    pub fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }
}

/// Pieces of one statement's rows that several threads work on.
///
/// A thread holds a piece for a short time. So a piece for which the pool has no memory waits until
/// others are done, instead of failing. A piece that is alone goes on without: where memory is
/// short fewer threads work, at least one.
pub struct Pieces {
    reservation: MemoryReservation,
    /// Pieces in hand.
    count: Mutex<usize>,
    done: Condvar,
}

/// One piece; its memory is given back when it is dropped.
pub struct Piece<'a> {
    of: &'a Pieces,
    bytes: usize,
}

impl Pieces {
    /// Pieces of a statement called `name`.
    pub fn new(name: &str, state: &SessionState) -> Self {
        Self::of_pool(name, &state.runtime_env().memory_pool)
    }

    /// Pieces of rows that somebody has asked memory for already.
    pub fn of_kept_rows() -> Self {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        Self::of_pool("rows", &pool)
    }

    /// Pieces of something called `name`, of the memory of a pool.
    pub fn of_pool(name: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = MemoryConsumer::new(name).register(pool);
        Self { reservation, count: Mutex::new(0), done: Condvar::new() }
    }

    /// A piece that is put together from now on. One thread at a time does that.
    pub fn begin(&self) -> Piece<'_> {
        *self.count.lock() += 1;
        Piece { of: self, bytes: 0 }
    }
}

impl Piece<'_> {
    /// Asks for the memory of a batch that is put into it.
    pub fn add(&mut self, batch: &RecordBatch) {
        // One thread does this for all.
        let bytes = about_value_bytes(batch);
        let mut count = self.of.count.lock();
        while self.of.reservation.try_grow(bytes).is_err() {
            if *count <= 1 {
                return;
            }
            self.of.done.wait(&mut count);
        }
        self.bytes += bytes;
    }
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        self.of.reservation.shrink(self.bytes);
        *self.of.count.lock() -= 1;
        self.of.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let taken = Taken::new("test", &pool);
        taken.grow(300).unwrap();
        let mut part = taken.clone().part(500).unwrap();
        let refused = part.grow(201).unwrap_err();
        assert!(matches!(refused, Error::OutOfMemory { needed: 201, free: 200, .. }), "{refused}");
        part.grow(200).unwrap();
        assert_eq!(pool.reserved(), 1000);
        drop(part);
        assert_eq!(taken.bytes(), 300);
        taken.shrink_to(100);
        assert_eq!(pool.reserved(), 100);
        taken.shrink_to(200);
        drop(taken);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_piece_without_memory_waits_for_others_and_alone_goes_on() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let pieces = Pieces::of_pool("test", &pool);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1; 100]));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut first = pieces.begin();
        first.add(&batch);
        assert_eq!(pool.reserved(), 800);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pieces.begin().add(&batch);
                assert!(done.load(Ordering::SeqCst), "it has waited");
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            done.store(true, Ordering::SeqCst);
            drop(first);
        });
        let mut alone = pieces.begin();
        alone.add(&batch);
        alone.add(&batch);
        assert_eq!(pool.reserved(), 800, "the second batch is beyond the limit");
        drop(alone);
        assert_eq!(pool.reserved(), 0);
    }
}
