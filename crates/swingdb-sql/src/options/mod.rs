//! What holds for all statements of a session: limits, and sizes that the stages agree on.

mod amounts;
pub mod bar;
pub mod limits;
pub(crate) mod machine;
pub mod shown;
pub mod temporary;

pub use amounts::parse_bytes;

/// Rows of a batch; larger ones fall out of the processor's caches.
pub(crate) const BATCH_ROWS: usize = 8192;
