//! Memory that statements take beside operators, asked of the memory pool.
//!
//! Operators of the query engine ask for what they hold. What is here asks for the rest of what
//! grows with a statement: its text and the trees made of it ([`for_text`]), rows that a change
//! collects before it applies them ([`Kept`]), results of functions ([`reserve`]). The memory of
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
