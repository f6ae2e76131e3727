//! What holds for all statements of a session: limits, and sizes that the stages agree on.

pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod shown;

/// Rows of a batch; larger ones fall out of the processor's caches.
pub(crate) const BATCH_ROWS: usize = 8192;
