//! Memory that statements take beside operators, asked of the memory pool.
//!
//! Operators of the query engine ask for what they hold. What is here asks for the rest of what
//! grows with a statement: its text and the trees made of it ([`for_text`]), rows that a change
//! collects before it applies them ([`Kept`]), those that wait for a whole segment of a table
//! ([`Waiting`]), results of functions ([`reserve`]). The memory of
//! the tables themselves is not the query engine's, and has a limit of its own: the file system
//! that it lies in.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::session_state::SessionState;

use crate::error::{Error, Result};
use crate::runtime::held::Held;

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
pub struct Kept {
    pool: Arc<dyn MemoryPool>,
    reservation: MemoryReservation,
    held: Held,
}

impl Kept {
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
