//! What holds for all statements of a session: limits, and sizes that the stages agree on.

pub mod bar;
pub mod limits;
pub(crate) mod machine;
pub mod shown;

/// Rows of a batch; larger ones fall out of the processor's caches.
pub(crate) const BATCH_ROWS: usize = 8192;
