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
use crate::sql::held::Held;
use crate::sql::session::Session;

/// Texts up to this size are not asked for.
const UNASKED_TEXT: usize = 64 << 10;
/// What a byte of text takes: a long literal is in the tokens, the tree, the plan and its copies.
const PER_BYTE: u64 = 8;
/// What a token takes as a part of trees and plans, at its peak.
const PER_TOKEN: u64 = 600;

/// Bytes of the pool, until they are dropped; [`Error::OutOfMemory`] when there are not as many.
pub(crate) fn reserve(
    name: &str,
    pool: &Arc<dyn MemoryPool>,
    bytes: u64,
) -> Result<MemoryReservation> {
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

/// Memory for what is made of a statement's text; nothing for an ordinary one.
pub(crate) fn for_text(sql: &str, session: &Session) -> Result<Option<MemoryReservation>> {
    if sql.len() <= UNASKED_TEXT {
        return Ok(None);
    }
    let state = session.engine()?;
    let bytes = PER_BYTE * sql.len() as u64 + PER_TOKEN * tokens(sql) as u64;
    reserve("text of the statement", &state.runtime_env().memory_pool, bytes).map(Some)
}

/// About how many tokens there are: words and signs outside of texts in quotes.
fn tokens(sql: &str) -> usize {
    let (mut quoted, mut in_word, mut count) = (false, false, 0);
    for byte in sql.bytes() {
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' || byte >= 0x80;
        quoted ^= byte == b'\'';
        count += usize::from(!(quoted || is_word && in_word));
        in_word = is_word;
    }
    count
}

/// Rows that a statement collects.
pub(crate) struct Kept {
    pool: Arc<dyn MemoryPool>,
    reservation: MemoryReservation,
    held: Held,
}

impl Kept {
    /// None yet.
    pub(crate) fn new(name: &str, state: &SessionState) -> Self {
        let pool = Arc::clone(&state.runtime_env().memory_pool);
        let reservation = MemoryConsumer::new(name).register(&pool);
        Self { pool, reservation, held: Held::default() }
    }

    /// Asks for the memory of a batch that is kept from now on.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = self.held.add(batch);
        grow(&self.reservation, &self.pool, bytes as u64)
    }

    /// Batches that are kept as they come.
    pub(crate) fn over<'a>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_quotes_are_one_token_each() {
        assert_eq!(tokens("SELECT 'a b c d e f' , 12"), 7);
        assert_eq!(tokens("(1,2),(3,4)"), 11);
        assert!(tokens(&format!("'{}'", "a b ".repeat(1000))) < 3);
    }
}
