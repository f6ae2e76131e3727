//! Rows as immutable segments: for each column a chunk of area memory, with statistics.
//!
//! ```text
//! arrays --(columns)--> Chunk --(update: a Patch)--> Chunk
//! Directory: the record of a page --> Segment --> Chunk --(read)--> arrays
//! ```
//!
//! [`columns`] writes a chunk, [`read`] makes arrays of it without a copy. [`update`] changes some
//! rows: few of them are a [`patch`] beside the chunk. A [`segment`] that was published is found in
//! a [`directory`], and its chunks are decoded when they are read. [`stats`] are those of a chunk,
//! [`column_stats`] of several. [`rowids`] name rows, [`ahead`] reads columns from the disk before
//! they are needed, and [`parallel`] works on many segments at once.

pub(crate) mod ahead;
pub(crate) mod chunk;
pub(crate) mod column_stats;
pub(crate) mod columns;
pub(crate) mod directory;
pub(crate) mod parallel;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod rowids;
pub(crate) mod segment;
pub(crate) mod stats;
pub(crate) mod update;
